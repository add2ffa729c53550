package cli

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// TestTopRefuses: invalid flags are refused before sampling starts.
func TestTopRefuses(t *testing.T) {
	tests := []struct {
		args []string
		want string
	}{
		{[]string{"4711"}, `"4711" is no flag: -p PID shows a running process, and -- 4711 starts a command`},
		{[]string{"sleep", "--", "1"}, `"sleep" is no flag`},
		{[]string{"--", "no-such-program"}, `"no-such-program": executable file not found`},
		{[]string{"-p", "1", "--", "true"}, "exclude each other"},
		{[]string{"-a", "-p", "1"}, "exclude each other"},
		{[]string{"-K", "-U"}, "--kernel and --user exclude each other"},
		{[]string{"-F", "0"}, "--freq must be between 1 and 10000 samples per second, got 0"},
		{[]string{"--by", "color"}, `--by must be process, thread, function, binary, flame or waits, got "color"`},
		{[]string{"--by", "flame", "--json"}, "--json has no flame graph: use headwater record -f json"},
		{[]string{"--interval", "0.01"}, "--interval must be at least 100ms, got 10ms"},
		{[]string{"--interval", "10", "--window", "5"}, "--window must not be shorter than --interval, got 5s and 10s"},
		{[]string{"-d", "-1"}, "--duration must not be negative, got -1s"},
		{[]string{"-n", "-1"}, "--tables and --rows must not be negative"},
		{[]string{"--once", "-n", "2"}, "--once and --tables exclude each other"},
		{[]string{"--demangle", "some"}, `--demangle: invalid demangle mode "some"`},
		{[]string{"-p", "4294967295"}, "there is no process 4294967295"},
	}
	for _, test := range tests {
		stdout, stderr, code := call(t, append([]string{"top"}, test.args...)...)
		require.Equal(t, 2, code, "%q: %s", test.args, stderr)
		require.Contains(t, stderr, test.want)
		require.Empty(t, stdout)
	}
}
