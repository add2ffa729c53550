package pyroscope

import "errors"

// RefusedError is the answer of a receiver that will never take a profile, however often it is sent again.
type RefusedError struct {
	Err      error
	TooLarge bool // the profile, and nothing else is wrong with it
}

func (e *RefusedError) Error() string { return e.Err.Error() }

// Unwrap returns Err.
func (e *RefusedError) Unwrap() error { return e.Err }

// Answers gathers what receivers say to profiles that are handed to them. The zero value has no answer.
type Answers struct {
	Taken    bool // a receiver has taken one: who hands them over again has it counted twice
	Refused  bool // a receiver will never take one
	TooLarge bool // as RefusedError has it, of one that is refused
	Failed   bool // a receiver has not taken one, and might the next time

	errs []error
}

// Add adds an answer: nil for a profile that was taken, or an error. An error from Err of other Answers adds them all.
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

// answersError is an error that knows the answers that it was made of.
type answersError struct {
	Answers
	error
}

func (e *answersError) Unwrap() error { return e.error }
