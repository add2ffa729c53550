package export

import (
	"cmp"
	"fmt"

	"github.com/google/pprof/profile"

	"github.com/headwater/headwater/flame/pprof"
)

// LabelError is the error for a label that no sample of a profile has.
type LabelError struct{ Label string }

// Error also names the option that records the label.
func (e *LabelError) Error() string {
	text := fmt.Sprintf("no sample has the label %q", e.Label)
	switch e.Label {
	case "cpu", "numa_node":
		return text + ": headwater record --label " + e.Label + " writes it"
	case "waker":
		return text + ": headwater record -e off-cpu --label waker writes it"
	case "thread_name", "thread_id", "pid":
		return text + ": headwater record --threads writes it"
	}
	return text
}

// Group returns a profile of the shares of the values of a label. Each stack is a single frame, named after the value
// of its sample's label, or "(none)" without the label. The error is a *LabelError.
func Group(p *profile.Profile, label string) (*profile.Profile, error) {
	out := &profile.Profile{
		SampleType: p.SampleType, DefaultSampleType: p.DefaultSampleType, PeriodType: p.PeriodType, Period: p.Period,
		TimeNanos: p.TimeNanos, DurationNanos: p.DurationNanos, Comments: p.Comments,
	}
	known, found := map[string]*profile.Location{}, false
	for _, sample := range p.Sample {
		value := labelOf(sample, label)
		found = found || value != ""
		name := cmp.Or(value, "(none)")
		l := known[name]
		if l == nil {
			f := &profile.Function{ID: uint64(len(known) + 1), Name: name}
			l = &profile.Location{ID: f.ID, Line: []profile.Line{{Function: f}}}
			known[name] = l
			out.Function, out.Location = append(out.Function, f), append(out.Location, l)
		}
		shown := &profile.Sample{Value: sample.Value, Location: []*profile.Location{l}}
		if largest, ok := sample.NumLabel[pprof.Largest]; ok {
			shown.NumLabel = map[string][]int64{pprof.Largest: largest}
		}
		out.Sample = append(out.Sample, shown)
	}
	if !found {
		return nil, &LabelError{label}
	}
	return out, nil
}
