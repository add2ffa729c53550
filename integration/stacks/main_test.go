package stacks

import (
	"bytes"
	"flag"
	"os"
	"os/exec"
	"slices"
	"syscall"
	"testing"

	"github.com/headwater/headwater/integration/lab"
)

// TestMain lets four tests run at once unless -parallel says another number: most of them wait for one program.
func TestMain(m *testing.M) {
	if err := flag.Set("test.parallel", "4"); err != nil {
		panic(err)
	}
	lab.Main(m, func() {
		for _, end := range slices.Backward(packageEnds) {
			end()
		}
	})
}

// packageEnds are called when the tests of the package have ended.
var packageEnds []func()

// packageT is the test that starts something for all tests of the package, which ends with the last one of them.
type packageT struct{ testing.TB }

// Cleanup has f called when the tests of the package have ended.
func (packageT) Cleanup(f func()) { packageEnds = append(packageEnds, f) }

// Failed is false: what is written at the end has no test that it could belong to.
func (packageT) Failed() bool { return false }

// TempDir returns a folder that is removed when the tests of the package have ended.
func (t packageT) TempDir() string {
	dir, err := os.MkdirTemp("", "stacks")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	return dir
}

// prioritize lets a process that leads its group, and what it starts from now on, run before all else that is
// busy. A profiler that waits for a CPU learns of new programs late, and then says that their first stacks are not
// whole; how late it is on a busy machine is no matter of these tests.
func prioritize(t testing.TB, pid int) {
	t.Helper()
	if err := syscall.Setpriority(syscall.PRIO_PGRP, pid, -20); err != nil {
		t.Fatalf("give process %d priority: %v", pid, err)
	}
}

// urgent runs a command to its end, as [prioritize] does, and returns what it prints.
func urgent(t testing.TB, cmd *exec.Cmd) (text string, err error) {
	t.Helper()
	var out bytes.Buffer
	if cmd.Stdout == nil {
		cmd.Stdout = &out
	}
	cmd.Stderr = &out
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	prioritize(t, cmd.Process.Pid)
	err = cmd.Wait()
	return out.String(), err
}
