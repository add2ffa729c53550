package record

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"time"
)

// notBegun is the start time of a command before its exec.
const notBegun = ^uint64(0)

// command is the program that Start has started.
type command struct {
	cmd   *exec.Cmd
	ended chan struct{} // closed when it has ended
}

// Start starts the program to record, which is recorded from its first instruction: no sample is judged until the
// program's PID is known, and samples from before its exec do not count. The Selection must have Command. Call Start
// before Run. Standard streams are taken from cmd.
func (r *Recorder) Start(cmd *exec.Cmd) error {
	s := r.selected
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := cmd.Start(); err != nil {
		return err
	}
	pid := uint32(cmd.Process.Pid)
	s.add(pid)
	s.since[pid] = notBegun
	s.again = true
	s.exe, _ = s.fs.ExePath(pid) // it may have ended
	s.name = filepath.Base(cmd.Path)
	c := &command{cmd: cmd, ended: make(chan struct{})}
	s.command = c
	go func() {
		defer close(c.ended)
		_ = cmd.Wait() // its ProcessState has the result
	}()
	return nil
}

func (c *command) hasEnded() bool {
	select {
	case <-c.ended:
		return true
	default:
		return false
	}
}

// endCommand ends the program, if it still runs.
func (c *command) endCommand() {
	const patience = 2 * time.Second
	if c.hasEnded() {
		return
	}
	_ = c.cmd.Process.Signal(syscall.SIGTERM) // it may have ended
	select {
	case <-c.ended:
	case <-time.After(patience):
		_ = c.cmd.Process.Kill()
		<-c.ended
	}
}

// errNoCommand is returned by EndCommand if there is no command.
var errNoCommand = errors.New("no command was started")

// EndCommand ends the command of Start if it still runs: with SIGTERM, and after two seconds with SIGKILL. ended
// reports whether it had ended on its own, and code is its exit code; 128+n stands for signal n.
func (r *Recorder) EndCommand() (code int, ended bool, err error) {
	c := r.selected.command
	if c == nil {
		return 0, false, errNoCommand
	}
	ended = c.hasEnded()
	c.endCommand()
	return exitCode(c.cmd.ProcessState), ended, nil
}

// exitCode returns the exit code that a shell reports for a process.
func exitCode(s *os.ProcessState) int {
	if status, ok := s.Sys().(syscall.WaitStatus); ok && status.Signaled() {
		return 128 + int(status.Signal())
	}
	return s.ExitCode()
}
