package scrape

import (
	"bytes"
	"fmt"
	"slices"

	"github.com/google/pprof/profile"
)

// cumulativeTypes are the values that Go counts from the start of a program. All other values, such as inuse_space,
// describe the current state and stay unchanged.
var cumulativeTypes = []string{"alloc_objects", "alloc_space", "contentions", "delay"}

// delta computes differences of successive profiles of one endpoint.
type delta struct {
	last *profile.Profile
}

// nextProfile returns the values added since the previous profile, as gzipped pprof. It returns nil for the first
// profile. A program whose counts have decreased was restarted: next then returns its whole profile.
func (d *delta) nextProfile(raw []byte) ([]byte, error) {
	current, err := profile.Parse(bytes.NewReader(raw))
	if err != nil {
		d.last = nil
		return nil, fmt.Errorf("parse profile: %w", err)
	}
	last := d.last
	d.last = current
	if last == nil {
		return nil, nil
	}
	added, err := subtract(current, last)
	if err != nil || negative(added) {
		added = current
	}
	var out bytes.Buffer
	if err := added.Write(&out); err != nil {
		return nil, fmt.Errorf("write profile: %w", err)
	}
	return out.Bytes(), nil
}

// subtract returns current minus the cumulative values of last. It changes neither profile.
func subtract(current, last *profile.Profile) (*profile.Profile, error) {
	last = last.Copy()
	ratios := make([]float64, len(last.SampleType))
	for i, t := range last.SampleType {
		if slices.Contains(cumulativeTypes, t.Type) {
			ratios[i] = -1
		}
	}
	if err := last.ScaleN(ratios); err != nil {
		return nil, err
	}
	added, err := profile.Merge([]*profile.Profile{current, last})
	if err != nil {
		return nil, err // the types of values have changed
	}
	added.TimeNanos = current.TimeNanos
	added.DurationNanos = max(current.TimeNanos-last.TimeNanos, 0)
	return added, nil
}

func negative(p *profile.Profile) bool {
	return slices.ContainsFunc(p.Sample, func(s *profile.Sample) bool { return slices.Min(s.Value) < 0 })
}
