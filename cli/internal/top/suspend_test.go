package top

import (
	"fmt"
	"io"
	"os"
	"os/exec"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

// TestStopHere: stopHere returns when the process is continued, and never before it is stopped. The process that stops
// reads a byte that is written while it is stopped.
func TestStopHere(t *testing.T) {
	const stops, variable = 50, "HEADWATER_STOP_HERE"
	if os.Getenv(variable) != "" {
		require.NoError(t, unix.SetNonblock(0, true))
		for range 10 { // so that this goroutine runs now on one thread, now on another
			go func() {
				for range time.Tick(time.Millisecond) {
				}
			}()
		}
		for i := range stops {
			time.Sleep(time.Millisecond)
			require.NoError(t, stopHere())
			_, err := unix.Read(0, make([]byte, 1))
			require.NoError(t, err, "stop %d: not stopped yet", i)
		}
		return
	}
	in, out, err := os.Pipe()
	require.NoError(t, err)
	defer out.Close()
	cmd := exec.Command(os.Args[0], "-test.run=^TestStopHere$")
	cmd.Env, cmd.Stdin, cmd.Stdout = append(os.Environ(), variable+"=1"), in, os.Stderr
	require.NoError(t, cmd.Start())
	require.NoError(t, in.Close())
	seen := 0
	for {
		var status syscall.WaitStatus
		_, err := syscall.Wait4(cmd.Process.Pid, &status, syscall.WUNTRACED, nil)
		require.NoError(t, err)
		if !status.Stopped() {
			require.Equal(t, "exited with 0", fmt.Sprintf("exited with %d", status.ExitStatus()))
			break
		}
		seen++
		_, err = io.WriteString(out, "x")
		require.NoError(t, err)
		require.NoError(t, syscall.Kill(cmd.Process.Pid, syscall.SIGCONT))
	}
	require.Equal(t, stops, seen)
}
