package cli

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// TestUsage calls commands with too few and too many arguments, and with flags that they do not have.
func TestUsage(t *testing.T) {
	for i, c := range []struct {
		args []string
		want string
	}{
		{[]string{"run"}, "Error: accepts 1 argument, received 0\nUsage: headwater run [flags] PATH\n" +
			"See headwater run --help\n"},
		{[]string{"run", "a", "b"}, "Error: accepts 1 argument, received 2\nUsage: headwater run [flags] PATH\n" +
			"See headwater run --help\n"},
		{[]string{"validate"}, "Error: requires at least 1 argument, only received 0\n" +
			"Usage: headwater validate PATH... [flags]\nSee headwater validate --help\n"},
		{[]string{"fmt", "--wirte"}, "Error: unknown flag: --wirte\nUsage: headwater fmt [flags] [FILE|-]\n" +
			"See headwater fmt --help\n"},
		{[]string{"verify", "--duration", "soon"}, `Error: invalid argument "soon" for "--duration" flag: want a ` +
			`duration such as 10, 90s or 1m30s, got "soon"` + "\nUsage: headwater verify [flags] [-- COMMAND ARGS...]\n" +
			"See headwater verify --help\n"},
		{[]string{"run", "--cluster.enabled=maybe", "c.river"}, "Error: --cluster.enabled must be true or false, " +
			`got "maybe"` + "\nUsage: headwater run [flags] PATH\nSee headwater run --help\n"},
		{[]string{"report", "--top", "a.pb.gz"}, `Error: --top must be a number, got "a.pb.gz"` +
			"\nUsage: headwater report [flags] FILE\nSee headwater report --help\n"},
		{[]string{"report", "--top", "99999999999999999999", "a"}, "Error: --top must be a smaller number, " +
			`got "99999999999999999999"` + "\nUsage: headwater report [flags] FILE\nSee headwater report --help\n"},
		{[]string{"halt"}, "Error: unknown command \"halt\"\nUsage: headwater [flags]\n" +
			"See headwater --help\n"},
		{[]string{"verify", "top"}, "Error: put -- before the command\n"},
		{[]string{"verfy"}, "Error: unknown command \"verfy\", did you mean \"verify\"?\n" +
			"Usage: headwater [flags]\nSee headwater --help\n"},
	} {
		_, stderr, code := call(t, c.args...)
		require.Equal(t, c.want, stderr, c.args)
		require.Equal(t, 2, code, c.args)
		if i == 0 { // a process says and returns the same
			_, ofProcess, code := result(t, headwater(t, c.args...))
			require.Equal(t, stderr, ofProcess)
			require.Equal(t, 2, code)
		}
	}
}

func TestDuration(t *testing.T) {
	for text, want := range map[string]time.Duration{
		"10": 10 * time.Second, "0.5": 500 * time.Millisecond, "10s": 10 * time.Second, "1m30s": 90 * time.Second,
		"0": 0, "-1": -time.Second,
	} {
		var d duration
		require.NoError(t, d.Set(text), text)
		require.Equal(t, want, time.Duration(d), text)
	}
	for _, text := range []string{"", "x", "10 s", "NaN", "Inf", "1e300", "-1e10"} {
		var d duration
		require.Error(t, d.Set(text), text)
	}
}
