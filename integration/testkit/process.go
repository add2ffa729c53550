package testkit

import (
	"os/exec"
	"testing"
)

// Spin starts a shell that burns a CPU until the test ends, and returns its PID.
func Spin(t testing.TB) uint32 {
	t.Helper()
	return Run(t, exec.Command("sh", "-c", "while :; do :; done"))
}

// Run starts a command that runs until the test ends, and returns its PID.
func Run(t testing.TB, cmd *exec.Cmd) uint32 {
	t.Helper()
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
	})
	return uint32(cmd.Process.Pid)
}
