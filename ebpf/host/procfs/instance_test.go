package procfs

import (
	"bufio"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/headwater/headwater/integration/testkit/need"
)

// TestInstance has a shell start a copy of itself and another program, and then execute a program itself.
func TestInstance(t *testing.T) {
	need.Tools(t, "bash")
	cmd := exec.Command("bash", "-c", `(read -r line <&3; :) & echo $!; sleep 1000 & echo $!
		read -r line; exec sleep 1000`)
	never, end, err := os.Pipe()
	require.NoError(t, err)
	defer end.Close()
	defer never.Close()
	cmd.ExtraFiles = []*os.File{never} // 3
	in, err := cmd.StdinPipe()
	require.NoError(t, err)
	out, err := cmd.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, cmd.Start())
	var copied, slept uint32
	lines := bufio.NewReader(out)
	_, err = fmt.Fscan(lines, &copied, &slept)
	require.NoError(t, err)
	defer func() {
		for _, pid := range []uint32{copied, slept, uint32(cmd.Process.Pid)} {
			p, err := os.FindProcess(int(pid))
			require.NoError(t, err)
			_ = p.Kill()
		}
		_ = cmd.Wait()
	}()
	shell := uint32(cmd.Process.Pid)
	before, err := Default.Instance(shell)
	require.NoError(t, err)
	require.NotZero(t, before.Program)
	require.EqualValues(t, os.Getpid(), before.Parent)
	require.Less(t, before.Age(), time.Hour)
	require.GreaterOrEqual(t, before.Age(), time.Duration(0))

	child, err := Default.Instance(copied)
	require.NoError(t, err)
	require.Equal(t, before.Program, child.Program)
	require.Equal(t, shell, child.Parent)
	require.Eventually(t, func() bool {
		other, err := Default.Instance(slept)
		return err == nil && other.Program != before.Program && other.Program != 0
	}, 2*time.Minute, 10*time.Millisecond)

	_, err = fmt.Fprintln(in)
	require.NoError(t, err)
	require.Eventually(t, func() bool {
		now, err := Default.Instance(shell)
		require.NoError(t, err)
		require.Equal(t, before.Start, now.Start)
		return !now.Is(before)
	}, 2*time.Minute, 10*time.Millisecond)

	parsed, ok := ParseInstance(before.String())
	require.True(t, ok)
	require.True(t, parsed.Is(before))
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", shell))
	require.NoError(t, err)
	require.NotContains(t, before.String(), strings.Fields(string(stat))[27], "where its stack is stays secret")
	_, err = Default.Instance(1 << 30)
	require.True(t, Gone(err))
}
