package verify

import (
	"errors"
	"fmt"
)

// Limits are the minimum figures of a report. All are shares, 0 to 1.
type Limits struct {
	Agreement float64 // share of compared frames that agree; frames missing from incomplete stacks do not agree
	Complete  float64 // share of user stacks that are complete
	Coverage  float64 // share of the frames in walks that could be compared
}

// DefaultLimits returns the limits of `headwater verify`: at most one frame in a thousand may differ, the unwinder must
// reach the root of nearly every stack, and the reference must have checked half of the frames, as the result means
// little otherwise.
func DefaultLimits() Limits { return Limits{Agreement: 0.999, Complete: 0.95, Coverage: 0.5} }

// Validate returns an error with the flag of a limit that is not a share.
func (l Limits) Validate() error {
	var failed []error
	for _, limit := range []struct {
		flag  string
		value float64
	}{{"--min-agreement", l.Agreement}, {"--min-complete", l.Complete}, {"--min-coverage", l.Coverage}} {
		if !(limit.value >= 0 && limit.value <= 1) { // also refuses NaN
			failed = append(failed, fmt.Errorf("%s must be between 0 and 1, got %g", limit.flag, limit.value))
		}
	}
	return errors.Join(failed...)
}

// ErrVerdict is wrapped by every error of Judge.
var ErrVerdict = errors.New("stacks do not reach the limits")

// Judge returns an error with the limits that a report does not reach, or nil if it reaches all. It also returns an
// error if no frame could be compared.
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
