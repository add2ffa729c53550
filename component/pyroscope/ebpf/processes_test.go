package ebpf

import (
	"crypto/rand"
	"encoding/hex"
	"fmt"
	"os"
	"os/exec"
	"testing"

	"github.com/stretchr/testify/require"
)

// noContainer returns the ID of a container that does not run: random, as other tests run
// processes in cgroups of containers at the same time, with IDs that look made up too.
func noContainer(t *testing.T) string {
	t.Helper()
	id := make([]byte, 32)
	_, err := rand.Read(id)
	require.NoError(t, err)
	return hex.EncodeToString(id)
}

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

	s := settingsOf(map[string]string{"__process_pid__": pid, "service_name": "s"},
		map[string]string{"__container_id__": noContainer(t)})
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
	require.Contains(t, settingsOf(map[string]string{"__container_id__": noContainer(t)}).unmatched(),
		"1 target, but no running process matches")
	require.Empty(t,
		settingsOf(map[string]string{"__container_id__": noContainer(t)},
			map[string]string{"__process_pid__": fmt.Sprint(os.Getpid())}).unmatched())
}
