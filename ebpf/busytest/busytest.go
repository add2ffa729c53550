// Package busytest gives tests a process to take samples of.
package busytest

import (
	"os/exec"
	"testing"
)

// Start starts a shell that burns a CPU until the test ends, and returns its PID.
func Start(t testing.TB) uint32 {
	t.Helper()
	cmd := exec.Command("sh", "-c", "while :; do :; done")
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
	})
	return uint32(cmd.Process.Pid)
}
