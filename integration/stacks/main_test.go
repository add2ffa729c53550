package stacks

import (
	"bytes"
	"os/exec"
	"syscall"
	"testing"

	"github.com/headwater/headwater/integration/testkit"
	"github.com/headwater/headwater/integration/testkit/rig"
)

// TestMain lets four tests run at once: most of them wait for one program.
func TestMain(m *testing.M) {
	testkit.Parallel(4)
	rig.Main(m)
}

// urgent runs a command to its end, with the priority of [lab.Process.Prioritize], and returns the text that it prints.
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
	if err := syscall.Setpriority(syscall.PRIO_PGRP, cmd.Process.Pid, -20); err != nil {
		t.Errorf("give %s priority: %v", cmd.Path, err)
	}
	err = cmd.Wait()
	return out.String(), err
}
