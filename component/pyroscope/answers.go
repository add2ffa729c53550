package pyroscope

import "errors"

// RefusedError is the answer of a receiver that will never take a profile, even if it is sent again.
type RefusedError struct {
	Err      error
	TooLarge bool // the only fault is the profile's size
}

func (e *RefusedError) Error() string { return e.Err.Error() }

// Unwrap returns Err.
func (e *RefusedError) Unwrap() error { return e.Err }

// Answers collects the answers of receivers to the profiles handed to them. The zero value holds no answer.
type Answers struct {
	Taken    bool // a receiver has taken a profile: if it is handed over again, it is counted twice
	Refused  bool // a receiver will never take a profile
	TooLarge bool // a refused profile is too large, see RefusedError
	Failed   bool // a receiver has not taken a profile, and might the next time

	errs []error
}

// Add adds an answer: nil for a profile that was taken, or an error. An error that Err of other Answers returned adds
// all their answers.
func (a *Answers) Add(err error) {
	if err == nil {
		a.Taken = true
		return
	}
	a.errs = append(a.errs, err)
	var several *answersError
	var refused *RefusedError
	switch {
	case errors.As(err, &several):
		a.Taken = a.Taken || several.Taken
		a.Refused = a.Refused || several.Refused
		a.TooLarge = a.TooLarge || several.TooLarge
		a.Failed = a.Failed || several.Failed
	case errors.As(err, &refused):
		a.Refused, a.TooLarge = true, a.TooLarge || refused.TooLarge
	case errors.Is(err, ErrNoIngest):
		a.Refused = true
	default:
		a.Failed = true
	}
}

// Err returns all errors as one, nil if there are none.
func (a *Answers) Err() error {
	if len(a.errs) == 0 {
		return nil
	}
	return &answersError{Answers: *a, error: errors.Join(a.errs...)}
}

// answersError is an error that carries the answers it was made from.
type answersError struct {
	Answers
	error
}

func (e *answersError) Unwrap() error { return e.error }
