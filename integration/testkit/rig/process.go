package rig

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/headwater/headwater/integration/testkit"
)

// Process is a program that a test has started. It is killed when the test ends; if the
// test itself is killed, the kernel kills it.
type Process struct {
	cmd    *exec.Cmd
	Output *Output
	Done   chan struct{} // closed once the program has ended
	Err    error         // of the program's end; read it after Done is closed
}

// Start runs cmd in the background and keeps its outputs in memory, except an output for which cmd has a writer.
func Start(t testing.TB, cmd *exec.Cmd) *Process {
	t.Helper()
	p := &Process{cmd: cmd, Output: &Output{}, Done: make(chan struct{})}
	for _, output := range []*io.Writer{&cmd.Stdout, &cmd.Stderr} {
		if *output == nil {
			*output = p.Output
		}
	}
	if cmd.SysProcAttr == nil {
		cmd.SysProcAttr = &syscall.SysProcAttr{}
	}
	cmd.SysProcAttr.Setpgid = true
	cmd.WaitDelay = 5 * time.Second
	ended, err := testkit.Start(cmd)
	if err != nil {
		t.Fatalf("start %s: %v", cmd.Path, err)
	}
	go func() {
		p.Err = <-ended
		close(p.Done)
	}()
	t.Cleanup(func() { p.Kill(t) })
	return p
}

// Prioritize lets a program, and its future child processes, run before all other busy processes. A profiler that waits
// for a CPU notices programs late, and reports incomplete stacks: a test of its results gives it priority.
func (p *Process) Prioritize(t testing.TB) {
	t.Helper()
	if err := syscall.Setpriority(syscall.PRIO_PGRP, p.PID(), -20); err != nil {
		t.Fatalf("give %s priority: %v", p.cmd.Path, err)
	}
}

// PID returns the ID of the process.
func (p *Process) PID() int { return p.cmd.Process.Pid }

// Ended reports whether the program has ended.
func (p *Process) Ended() bool {
	select {
	case <-p.Done:
		return true
	default:
		return false
	}
}

// Signal sends a signal. It is no error if the program has ended.
func (p *Process) Signal(t testing.TB, s syscall.Signal) {
	t.Helper()
	if err := p.cmd.Process.Signal(s); err != nil && !errors.Is(err, os.ErrProcessDone) {
		t.Errorf("signal %v to %s: %v", s, p.cmd.Path, err)
	}
}

// Wait waits until the program ends and returns its exit code. The test fails after the limit.
func (p *Process) Wait(t testing.TB, limit time.Duration) int {
	t.Helper()
	select {
	case <-p.Done:
		return p.cmd.ProcessState.ExitCode()
	case <-time.After(limit):
		t.Fatalf("%s still runs after %v; its output ends with\n%s", p.cmd.Path, limit, p.Output.Tail(20))
		return 0
	}
}

// Kill ends the program and its process group at once.
func (p *Process) Kill(t testing.TB) {
	t.Helper()
	if p.Ended() {
		return
	}
	_ = syscall.Kill(-p.PID(), syscall.SIGKILL)
	p.Wait(t, 2*time.Minute) // on a busy machine the kernel takes seconds to detach all probes of a profiler
}

// Output collects what a program prints.
type Output struct {
	mu   sync.Mutex
	text bytes.Buffer
}

// Write implements io.Writer.
func (o *Output) Write(p []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.text.Write(p)
}

// String returns the output so far.
func (o *Output) String() string {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.text.String()
}

// Lines returns the lines so far that contain all the given words.
func (o *Output) Lines(words ...string) []string {
	var found []string
	for line := range strings.Lines(o.String()) {
		all := true
		for _, word := range words {
			all = all && strings.Contains(line, word)
		}
		if all {
			found = append(found, strings.TrimRight(line, "\n"))
		}
	}
	return found
}

// Tail returns the last n lines.
func (o *Output) Tail(n int) string {
	lines := strings.Split(strings.TrimRight(o.String(), "\n"), "\n")
	return strings.Join(lines[max(0, len(lines)-n):], "\n")
}

// WaitBusy waits until a process has used some CPU time.
func (p *Process) WaitBusy(t testing.TB) {
	t.Helper()
	testkit.Eventually(t, p.cmd.Path+" is busy", func() bool {
		if p.Ended() {
			t.Fatalf("%s has ended: %v\n%s", p.cmd.Path, p.Err, p.Output.Tail(20))
		}
		return CPUTime(t, fmt.Sprint(p.PID())) >= 20*time.Millisecond
	})
}
