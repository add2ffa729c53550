package testkit

import (
	"os/exec"
	"runtime"
	"syscall"
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
	ended, err := Start(cmd)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		<-ended
	})
	return uint32(cmd.Process.Pid)
}

// Start starts a command, which the kernel kills if it still runs when this process ends, for example by the time limit
// of go test. ended gets the result of the command's Wait.
func Start(cmd *exec.Cmd) (ended <-chan error, err error) {
	if cmd.SysProcAttr == nil {
		cmd.SysProcAttr = &syscall.SysProcAttr{}
	}
	cmd.SysProcAttr.Pdeathsig = syscall.SIGKILL
	started, waited := make(chan error), make(chan error, 1)
	go func() {
		// The kernel kills the command when the thread that started it ends, so that thread waits.
		runtime.LockOSThread()
		err := cmd.Start()
		if started <- err; err == nil {
			waited <- cmd.Wait()
		}
	}()
	return waited, <-started
}
