package main

import (
	"debug/buildinfo"
	"fmt"
	"path/filepath"
	"time"

	"golang.org/x/sys/unix"
)

// identity identifies a contender, and its arguments.
type identity struct {
	Name      string `json:"name"`
	Program   string `json:"program"` // path of its main package
	Version   string `json:"version,omitempty"`
	Revision  string `json:"revision,omitempty"`
	Modified  bool   `json:"modified"`  // its tree had uncommitted changes
	Arguments string `json:"arguments"` // {rate} and similar words stand for variable values
	Interval  string `json:"report_interval"`
}

// identity reads the information that the Go toolchain has stored in the binary. interval is the contender's report
// interval.
func (c contender) identity(interval time.Duration) (identity, error) {
	build, err := buildinfo.ReadFile(c.binary)
	if err != nil {
		return identity{}, fmt.Errorf("what is %s: %w", filepath.Base(c.binary), err)
	}
	id := identity{Name: c.name, Program: build.Path, Version: build.Main.Version, Arguments: c.arguments,
		Interval: max(interval, c.finest).String()}
	for _, setting := range build.Settings {
		switch setting.Key {
		case "vcs.revision":
			id.Revision = setting.Value
		case "vcs.modified":
			id.Modified = setting.Value == "true"
		}
	}
	return id, nil
}

// niceValue returns the nice value of a process's first thread. See getpriority(2): the system call returns 20 minus
// the value.
func niceValue(pid int) (int, error) {
	answer, err := unix.Getpriority(unix.PRIO_PROCESS, pid)
	if err != nil {
		return 0, fmt.Errorf("nice value of process %d: %w", pid, err)
	}
	return 20 - answer, nil
}
