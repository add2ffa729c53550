package main

import (
	"bytes"
	"encoding/json"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/headwater/headwater/ebpf/verify"
)

func TestVerifyRefuses(t *testing.T) {
	tests := []struct {
		args []string
		want string
	}{
		{[]string{"--pid", "1", "--", "true"}, "--pid and a command exclude each other"},
		{[]string{"--min-agreement", "1.5"}, "--min-agreement must be between 0 and 1, got 1.5"},
		{[]string{"--sample-rate", "0"}, "--sample-rate must be between 1 and 10000, got 0"},
		{[]string{"--duration", "0s"}, "--duration must be positive, got 0s"},
		{[]string{"true"}, "a command must follow --"},
	}
	for _, test := range tests {
		_, stderr, code := result(t, headwater(t, append([]string{"verify"}, test.args...)...))
		require.Equal(t, 1, code)
		require.Contains(t, stderr, test.want)
	}
}

// TestVerifyVerdict: the report is printed in any case, the verdict is the error.
func TestVerifyVerdict(t *testing.T) {
	tests := []struct {
		frames, agreed uint64
		min            float64
		want           string
	}{
		{1000, 1000, 1, ""},
		{1000, 999, 0.999, ""},
		{1000, 998, 0.999, "0.9980 of the frames agree, less than 0.9990"},
		{0, 0, 0, "no stack could be compared"},
	}
	for _, test := range tests {
		r := &verify.Report{Frames: test.frames, FramesAgreed: test.agreed}
		if test.frames > 0 {
			r.Agreement = float64(test.agreed) / float64(test.frames)
		}
		for _, asJSON := range []bool{false, true} {
			var out bytes.Buffer
			f := verifyFlags{minAgreement: test.min, json: asJSON}
			err := f.print(&out, r)
			if test.want == "" {
				require.NoError(t, err)
			} else {
				require.EqualError(t, err, test.want)
			}
			require.Equal(t, asJSON, json.Valid(out.Bytes()), out.String())
		}
	}
}
