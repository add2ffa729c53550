package compare

import (
	"github.com/google/pprof/profile"

	"github.com/headwater/headwater/flame/export"
)

// ByLabel returns a profile whose functions are the values of a label, to compare profiles by label. It also leaves out
// samples in interrupts.
func ByLabel(p *profile.Profile, label string) (*profile.Profile, error) {
	grouped, err := export.Group(withoutInterrupts(p), label)
	if err != nil {
		return nil, err
	}
	grouped.TimeNanos, grouped.DurationNanos = p.TimeNanos, p.DurationNanos
	grouped.PeriodType, grouped.Period, grouped.Comments = p.PeriodType, p.Period, p.Comments
	return grouped, nil
}
