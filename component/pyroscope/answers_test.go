package pyroscope

import (
	"errors"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestAnswers has what receivers say reach who asked through other fanouts.
func TestAnswers(t *testing.T) {
	label, large, away := &RefusedError{Err: errors.New("label")}, &RefusedError{Err: errors.New("large"), TooLarge: true},
		errors.New("away")
	inner := func(errs ...error) *recorder {
		var children []Appendable
		for _, err := range errs {
			children = append(children, &recorder{err: err})
		}
		return &recorder{err: appendTo(NewFanout(children, "inner", nil))}
	}
	for name, test := range map[string]struct {
		children []Appendable
		want     Answers
	}{
		"taken":             {[]Appendable{inner(nil)}, Answers{Taken: true}},
		"refused":           {[]Appendable{inner(label)}, Answers{Refused: true}},
		"too large":         {[]Appendable{inner(large)}, Answers{Refused: true, TooLarge: true}},
		"away":              {[]Appendable{inner(away)}, Answers{Failed: true}},
		"one of two":        {[]Appendable{inner(nil, label)}, Answers{Taken: true, Refused: true}},
		"one branch of two": {[]Appendable{inner(away), inner(nil, nil)}, Answers{Taken: true, Failed: true}},
		"none of them":      {[]Appendable{inner(away), inner(label)}, Answers{Refused: true, Failed: true}},
		"no older API":      {[]Appendable{inner(ErrNoIngest)}, Answers{Refused: true}},
		"all":               {[]Appendable{inner(away), inner(large), inner(nil)}, Answers{true, true, true, true, nil}},
	} {
		t.Run(name, func(t *testing.T) {
			var got Answers
			got.Add(appendTo(NewFanout(test.children, "outer", nil)))
			require.Equal(t, test.want.Refused || test.want.Failed, got.Err() != nil)
			got.errs = nil
			require.Equal(t, test.want, got)
		})
	}
}
