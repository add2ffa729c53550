package cli

import (
	"fmt"
	"os/exec"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/headwater/headwater/cli/internal/containers"
)

// TestCompletion: shells ask for what may follow, and are offered processes with their commands.
func TestCompletion(t *testing.T) {
	process := exec.Command("sleep", "98765")
	require.NoError(t, process.Start())
	t.Cleanup(func() {
		_ = process.Process.Kill()
		_ = process.Wait()
	})
	pid := fmt.Sprint(process.Process.Pid)
	line := pid + "\tsleep 98765\n"
	for name, test := range map[string]struct {
		args []string
		want string
	}{
		"flag":      {[]string{"record", "-p", ""}, line},
		"begun":     {[]string{"record", "--pid", pid[:1]}, line},
		"list":      {[]string{"record", "--pid", "1," + pid[:1]}, "1," + line},
		"verify":    {[]string{"verify", "--pid", ""}, line},
		"argument":  {[]string{"stack", ""}, line},
		"container": {[]string{"record", "--container", ""}, ":4\n"},
		"format":    {[]string{"record", "-f", ""}, "pprof\nhtml\n"},
		"event":     {[]string{"record", "-e", "off"}, "off-cpu\n"},
		"view":      {[]string{"top", "--by", ""}, "function\nbinary\nflame\nwaits\n"},
		"manual":    {[]string{"man", ""}, "record\tRecord a profile, and write it to one file\n"},
	} {
		stdout, stderr, code := call(t, append([]string{"__complete"}, test.args...)...)
		require.Equal(t, 0, code, stderr)
		require.Contains(t, stdout, test.want, name)
		require.Contains(t, stdout, ":4\n", "%s: files are offered", name)
	}
	stdout, _, _ := call(t, "__complete", "stack", pid, "")
	require.Equal(t, ":4", strings.TrimSpace(stdout), "there is one argument")
}

// TestCompletionScripts: each shell has one, which bash can read, and help shows the command.
func TestCompletionScripts(t *testing.T) {
	for shell, want := range map[string]string{
		"bash": "complete -o default -F __start_headwater headwater", "zsh": "#compdef headwater",
		"fish": "complete -c headwater", "powershell": "Register-ArgumentCompleter -CommandName 'headwater'",
	} {
		script, stderr, code := call(t, "completion", shell)
		require.Equal(t, 0, code, stderr)
		require.Contains(t, script, want)
		if shell == "bash" {
			check := exec.Command("bash", "-n")
			check.Stdin = strings.NewReader(script)
			out, err := check.CombinedOutput()
			require.NoError(t, err, string(out))
		}
	}
	for want, args := range map[string][]string{"accepts 1 argument": nil, `invalid argument "csh"`: {"csh"}} {
		_, stderr, code := call(t, append([]string{"completion"}, args...)...)
		require.Equal(t, 2, code)
		require.Contains(t, stderr, want)
	}
	help, _, _ := call(t, "--help")
	require.Contains(t, help, "  completion  ")
}

func TestOfferedContainers(t *testing.T) {
	id := strings.Repeat("a1", 32)
	got := offered([]containers.Container{{ID: id, Names: []string{"web"}}, {ID: "b2"}})
	require.Equal(t, []string{"web\tcontainer a1a1a1a1a1a1", "a1a1a1a1a1a1\tcontainer web", "b2\tcontainer "}, got)
}
