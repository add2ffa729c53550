package cli

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
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
		{[]string{"--min-complete", "-1"}, "--min-complete must be between 0 and 1, got -1"},
		{[]string{"--min-coverage", "2"}, "--min-coverage must be between 0 and 1, got 2"},
		{[]string{"--min-agreement", "many"}, `--min-agreement must be a number, got "many"`},
		{[]string{"--sample-rate", "0"}, "--sample-rate must be between 1 and 10000, got 0"},
		{[]string{"--duration", "0s"}, "--duration must be positive, got 0s"},
		{[]string{"true"}, "put -- before the command"},
	}
	for _, test := range tests {
		_, stderr, code := call(t, append([]string{"verify"}, test.args...)...)
		require.Equal(t, 2, code)
		require.Contains(t, stderr, test.want)
	}
}

// TestVerifyPrint: the report is text or JSON.
func TestVerifyPrint(t *testing.T) {
	for _, asJSON := range []bool{false, true} {
		var out bytes.Buffer
		f := verifyFlags{json: asJSON}
		require.NoError(t, f.print(&out, &verify.Report{Frames: 3, FramesAgreed: 3, Agreement: 1}))
		require.Equal(t, asJSON, json.Valid(out.Bytes()), out.String())
	}
}

// TestExitCodes: a comparison with an insufficient result has a different exit code from a failed comparison.
func TestExitCodes(t *testing.T) {
	require.Equal(t, 1, exitCode((&verify.Report{}).Judge(verify.DefaultLimits())))
	require.Equal(t, 1, exitCode(errors.New("any")))
	require.Equal(t, 2, exitCode(fmt.Errorf("more: %w", exitError{errors.New("any"), exitUsage})))
}
