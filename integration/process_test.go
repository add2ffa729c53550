package integration

import (
	"bytes"
	"errors"
	"os"
	"os/exec"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

// process is a program a test has started. It is stopped when the test ends,
// and killed by the kernel should the test itself be.
type process struct {
	cmd    *exec.Cmd
	output *output
	done   chan struct{} // closed once the program has ended
	err    error         // of Wait; read after done
}

// start runs cmd in the background, both its outputs kept in memory.
func start(t testing.TB, cmd *exec.Cmd) *process {
	t.Helper()
	p := &process{cmd: cmd, output: &output{}, done: make(chan struct{})}
	cmd.Stdout, cmd.Stderr = p.output, p.output
	if cmd.SysProcAttr == nil {
		cmd.SysProcAttr = &syscall.SysProcAttr{}
	}
	cmd.SysProcAttr.Pdeathsig = syscall.SIGKILL
	cmd.SysProcAttr.Setpgid = true
	cmd.WaitDelay = 5 * time.Second
	if err := cmd.Start(); err != nil {
		t.Fatalf("start %s: %v", cmd.Path, err)
	}
	go func() {
		p.err = cmd.Wait()
		close(p.done)
	}()
	t.Cleanup(func() { p.kill(t) })
	return p
}

func (p *process) pid() int { return p.cmd.Process.Pid }

// ended reports whether the program is gone.
func (p *process) ended() bool {
	select {
	case <-p.done:
		return true
	default:
		return false
	}
}

// signal asks the program to do something; one that has ended is no error.
func (p *process) signal(t testing.TB, s syscall.Signal) {
	t.Helper()
	if err := p.cmd.Process.Signal(s); err != nil && !errors.Is(err, os.ErrProcessDone) {
		t.Errorf("signal %v to %s: %v", s, p.cmd.Path, err)
	}
}

// wait returns the exit code, or fails the test when the time is over.
func (p *process) wait(t testing.TB, limit time.Duration) int {
	t.Helper()
	select {
	case <-p.done:
		return p.cmd.ProcessState.ExitCode()
	case <-time.After(limit):
		t.Fatalf("%s still runs after %v; its output ends with\n%s", p.cmd.Path, limit, p.output.tail(20))
		return 0
	}
}

// kill ends the program, and what it has started in its process group, now.
func (p *process) kill(t testing.TB) {
	t.Helper()
	if p.ended() {
		return
	}
	_ = syscall.Kill(-p.pid(), syscall.SIGKILL)
	p.wait(t, 10*time.Second)
}

// output collects what a program prints.
type output struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (o *output) Write(p []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.text.Write(p)
}

func (o *output) String() string {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.text.String()
}

// lines returns the lines printed so far that hold all the given words.
func (o *output) lines(words ...string) []string {
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

// tail returns the last n lines.
func (o *output) tail(n int) string {
	lines := strings.Split(strings.TrimRight(o.String(), "\n"), "\n")
	return strings.Join(lines[max(0, len(lines)-n):], "\n")
}

// eventually waits for a condition, asking often.
func eventually(t testing.TB, limit time.Duration, what string, condition func() bool) {
	t.Helper()
	for end := time.Now().Add(limit); time.Now().Before(end); {
		if condition() {
			return
		}
		time.Sleep(100 * time.Millisecond)
	}
	t.Fatalf("after %v still not: %s", limit, what)
}
