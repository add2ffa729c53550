package verify

import (
	"errors"
	"fmt"
)

// Limits are what a report must reach. All are shares, 0 to 1.
type Limits struct {
	Agreement float64 // of the frames compared, those that agree; frames missing from incomplete stacks do not
	Complete  float64 // of the user stacks, those that are complete
	Coverage  float64 // of the frames that walks found, those that could be compared
}

// DefaultLimits returns the limits of `headwater verify`: no more than one frame in a
// thousand may differ, the unwinder must reach the root of nearly every stack, and half
// of what it found must have been checked for that to mean something.
func DefaultLimits() Limits { return Limits{Agreement: 0.999, Complete: 0.95, Coverage: 0.5} }

// Validate returns an error that names the flag if a limit is no share.
func (l Limits) Validate() error {
	var failed []error
	for _, limit := range []struct {
		flag  string
		value float64
	}{{"--min-agreement", l.Agreement}, {"--min-complete", l.Complete}, {"--min-coverage", l.Coverage}} {
		if !(limit.value >= 0 && limit.value <= 1) { // neither may NaN
			failed = append(failed, fmt.Errorf("%s must be between 0 and 1, got %g", limit.flag, limit.value))
		}
	}
	return errors.Join(failed...)
}

// ErrVerdict is wrapped by every error of Judge.
var ErrVerdict = errors.New("stacks are not as good as they must be")

// Judge returns an error that says which limits a report does not reach, and nil if it
// reaches them all. Where nothing could be compared, nothing is proved.
func (r *Report) Judge(l Limits) error {
	var failed []error
	if r.Frames == 0 {
		failed = append(failed, errors.New("no frame could be compared"))
	} else if r.Agreement < l.Agreement {
		failed = append(failed, fmt.Errorf("%.4f of the frames agree, less than %.4f", r.Agreement, l.Agreement))
	}
	if r.UserStacks > 0 && r.Complete < l.Complete {
		failed = append(failed, fmt.Errorf("%.4f of the stacks are complete, less than %.4f", r.Complete, l.Complete))
	}
	if r.Frames > 0 && r.Coverage < l.Coverage {
		failed = append(failed, fmt.Errorf("%.4f of the frames could be checked, less than %.4f", r.Coverage, l.Coverage))
	}
	if len(failed) == 0 {
		return nil
	}
	return fmt.Errorf("%w: %w", ErrVerdict, errors.Join(failed...))
}
