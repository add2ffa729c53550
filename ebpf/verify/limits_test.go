package verify

import (
	"errors"
	"math"
	"strings"
	"testing"
)

func TestJudge(t *testing.T) {
	good := Report{UserStacks: 1000, Complete: 0.99, Frames: 9000, FramesAgreed: 8999, Agreement: 0.9999, Coverage: 0.8}
	tests := []struct {
		name   string
		change func(*Report)
		want   []string // parts of the error
	}{
		{"good", func(*Report) {}, nil},
		{"frames differ", func(r *Report) { r.Agreement = 0.998 }, []string{"0.9980 of the frames agree, less than 0.9990"}},
		{"stacks end early", func(r *Report) { r.Complete = 0.9 },
			[]string{"0.9000 of the stacks are complete, less than 0.9500"}},
		{"little was checked", func(r *Report) { r.Coverage = 0.4 },
			[]string{"0.4000 of the frames could be checked, less than 0.5000"}},
		{"all of it", func(r *Report) { r.Agreement, r.Complete, r.Coverage = 0, 0, 0 },
			[]string{"agree", "complete", "checked"}},
		// As with stacks of one frame, whose sampled pc is the same on both sides.
		{"nothing was compared", func(r *Report) { r.Frames, r.Agreement, r.Coverage = 0, 0, 0 },
			[]string{"no frame could be compared"}},
	}
	for _, test := range tests {
		r := good
		test.change(&r)
		err := r.Judge(DefaultLimits())
		if (err != nil) != (test.want != nil) || err != nil && !errors.Is(err, ErrVerdict) {
			t.Errorf("%s: %v", test.name, err)
		}
		for _, part := range test.want {
			if !strings.Contains(err.Error(), part) {
				t.Errorf("%s: %q is not in: %v", test.name, part, err)
			}
		}
	}
}

func TestLimitsValidate(t *testing.T) {
	if err := DefaultLimits().Validate(); err != nil {
		t.Error(err)
	}
	for _, l := range []Limits{{Agreement: 1.5}, {Complete: -1}, {Coverage: math.NaN()}} {
		if err := l.Validate(); err == nil {
			t.Errorf("%+v is valid", l)
		}
	}
}
