package cli

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestSummary(t *testing.T) {
	file := filepath.Join(t.TempDir(), "a.folded")
	require.NoError(t, os.WriteFile(file, []byte("main;work;inner 30\nmain;rest 10\n"), 0o600))
	var out strings.Builder
	cmd := Command()
	cmd.SetOut(&out)
	cmd.SetArgs([]string{"summary", file})
	require.NoError(t, cmd.Execute())
	require.Contains(t, out.String(), "total: 40 count\n")
	require.Contains(t, out.String(), "   75.0%  75.0%  inner\n")
	require.Contains(t, out.String(), "   75.0%  inner <- work <- main\n")
}

func TestSummaryRefused(t *testing.T) {
	for _, c := range []struct{ args, want string }{
		{"", "choose a profile"},
		{"-a x.pb.gz", "exclude each other"},
		{"-a -p 1", "exclude each other"},
		{"-a -F 0", "--freq must be between"},
		{"-a -d 0", "--duration must be positive"},
		{"--max-lines 3 x.pb.gz", "--max-lines must be between 20 and 1000, got 3"},
		{"/does/not/exist", "no such file"},
	} {
		cmd := Command()
		cmd.SetErr(&strings.Builder{})
		cmd.SetArgs(append([]string{"summary"}, strings.Fields(c.args)...))
		err := cmd.Execute()
		require.ErrorContains(t, err, c.want)
		require.Equal(t, 2, exitCode(err))
	}
}
