package procfs

import (
	"os/exec"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestStarted(t *testing.T) {
	const slack = 50 * time.Millisecond // ticks are 10 ms
	before := time.Now()
	cmd := exec.Command("sleep", "60")
	require.NoError(t, cmd.Start())
	defer func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
	}()
	after := time.Now()
	started, err := Default.Started(uint32(cmd.Process.Pid))
	require.NoError(t, err)
	require.False(t, started.Before(before.Add(-slack)) || started.After(after.Add(slack)), "%v", started)
	_, err = Default.Started(1 << 30)
	require.Error(t, err)
}
