package ebpf

import (
	"fmt"
	"os"
	"os/exec"
	"testing"

	"github.com/stretchr/testify/require"
)

const noContainer = "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef"

func settingsOf(targets ...map[string]string) Settings {
	var s Settings
	s.SetToDefault()
	s.Targets = targets
	return s
}

func TestProcessTargets(t *testing.T) {
	cmd := exec.Command("sleep", "1000")
	require.NoError(t, cmd.Start())
	defer func() { _ = cmd.Process.Kill(); _ = cmd.Wait() }()
	pid := fmt.Sprint(cmd.Process.Pid)

	s := settingsOf(map[string]string{"__process_pid__": pid, "service_name": "s"}, map[string]string{"__container_id__": noContainer})
	processes, err := s.ProcessTargets()
	require.NoError(t, err)
	require.Equal(t, pid, fmt.Sprint(processes[0].PID), "those with a target come first")
	require.Equal(t, "__process_pid__", processes[0].MatchedBy)
	require.Equal(t, "s", processes[0].Target.ServiceName())
	for _, p := range processes[1:] {
		require.Empty(t, p.MatchedBy)
		require.Nil(t, p.Target)
		require.Contains(t, p.Reason, "not profiled")
	}
	shown := debugProcesses(s)
	require.NotEmpty(t, shown)
	require.LessOrEqual(t, len(shown), maxProcesses)
	require.Equal(t, "__process_pid__", shown[0].MatchedBy)
	require.Empty(t, debugProcesses(settingsOf()))
}

func TestUnmatched(t *testing.T) {
	require.Empty(t, settingsOf().unmatched(), "no targets")
	require.Empty(t, settingsOf(map[string]string{"useless": "x"}).unmatched(), "none that names anything")
	require.Contains(t, settingsOf(map[string]string{"__container_id__": noContainer}).unmatched(), "1 target, but no running process that matches")
	require.Empty(t, settingsOf(map[string]string{"__container_id__": noContainer}, map[string]string{"__process_pid__": fmt.Sprint(os.Getpid())}).unmatched())
}
