package export

import (
	"fmt"
	"io"
	"time"

	"github.com/google/pprof/profile"

	"github.com/headwater/headwater/flame/pprof"
	"github.com/headwater/headwater/flame/tree"
	"github.com/headwater/headwater/flame/view"
)

// HTML writes a flame graph as one file, which a browser opens from anywhere. If there are too many nodes, nodes with
// less than a thousandth of the total may be folded; a click unfolds them.
func HTML(w io.Writer, p *profile.Profile) error {
	s, err := newStacks(p)
	if err != nil {
		return err
	}
	b := tree.NewBuilder(nil)
	if err := b.Add(withThreads(p)); err != nil {
		return err
	}
	about := view.About{Title: Title(p)}
	if p.TimeNanos != 0 {
		about.Notes = append(about.Notes, time.Unix(0, p.TimeNanos).Format("2 January 2006, 15:04:05"))
	}
	if p.DurationNanos > 0 {
		about.Notes = append(about.Notes, fmt.Sprintf("%.1f s", time.Duration(p.DurationNanos).Seconds()))
	}
	if n, ok := s.samples(); ok && s.valueUnit() == "nanoseconds" {
		note := fmt.Sprintf("%d samples", n)
		if s.period > 0 {
			note += fmt.Sprintf(", %.0f a second and CPU", 1e9/float64(s.period))
		}
		about.Notes = append(about.Notes, note)
	}
	if by := p.PeriodType; by != nil && by.Unit == "count" && p.Period > 0 {
		of := p.SampleType[s.value]
		about.Notes = append(about.Notes,
			fmt.Sprintf("%s in %s, one sample for each %d %s", of.Type, of.Unit, p.Period, by.Type))
	}
	shown := b.Tree(tree.Options{})
	if shown.Omitted.Nodes == 0 {
		return view.Write(w, about, shown, nil)
	}
	return view.Write(w, about, shown, b.Tree(tree.Options{Share: -1, Enough: maxFileNodes, MaxNodes: maxFileNodes}))
}

// maxFileNodes is the maximum number of nodes of a file, including folded nodes.
const maxFileNodes = 100_000

// withThreads returns a profile whose stacks have their thread as a frame below the process. It shares its contents
// with p.
func withThreads(p *profile.Profile) *profile.Profile {
	out := pprof.WithoutSamples(p)
	frames := map[thread]*profile.Location{}
	processes := rootsAreProcesses(p)
	for _, sample := range p.Sample {
		t, ok := threadOf(sample)
		if !ok {
			out.Sample = append(out.Sample, sample)
			continue
		}
		l := frames[t]
		if l == nil {
			l = &profile.Location{Line: []profile.Line{{Function: &profile.Function{Name: t.String()}}}}
			frames[t] = l
		}
		at := len(sample.Location)
		if at > 0 && processes {
			at--
		}
		with := *sample
		with.Location = append([]*profile.Location(nil), sample.Location[:at]...)
		with.Location = append(append(with.Location, l), sample.Location[at:]...)
		out.Sample = append(out.Sample, &with)
	}
	return out
}

// isNoCode reports whether a location is only a name, such as the name of a process.
func isNoCode(l *profile.Location) bool { return l.Mapping == nil || l.Mapping.File == "" }
