package procfs

import (
	"fmt"
	"os"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// Status is a part of /proc/PID/status (proc_pid_status(5)).
type Status struct {
	State    byte   // such as 'T' for a stopped process
	Inner    uint32 // PID in the process's own PID namespace
	RealUID  uint32 // as seen from our user namespace, like the effective IDs
	UID, GID uint32 // effective
	Caught   uint64 // signals that have a handler; bit 0 is signal 1
}

// Status returns the status of a process.
func (f FS) Status(pid uint32) (s Status, err error) {
	path := f.pathOf(pid, "/status")
	b, err := os.ReadFile(path)
	if err != nil {
		return s, err
	}
	s.Inner = pid // kernels without PID namespaces do not report it
	found := false
	for line := range strings.Lines(string(b)) {
		name, value, _ := strings.Cut(line, ":")
		fields := strings.Fields(value)
		switch {
		case len(fields) == 0:
		case name == "State":
			s.State = fields[0][0]
		case name == "NSpid":
			s.Inner, err = number(fields[len(fields)-1])
		case name == "Uid" && len(fields) >= 2:
			found = true
			if s.RealUID, err = number(fields[0]); err == nil {
				s.UID, err = number(fields[1])
			}
		case name == "Gid" && len(fields) >= 2:
			s.GID, err = number(fields[1])
		case name == "SigCgt":
			s.Caught, err = strconv.ParseUint(fields[0], 16, 64)
		}
		if err != nil {
			return s, fmt.Errorf("%s: %w", path, err)
		}
	}
	if !found {
		return s, fmt.Errorf("%s: no user ID", path)
	}
	return s, nil
}

// Identity returns the PID that a process has in its own PID namespace, and its
// effective user ID.
func (f FS) Identity(pid uint32) (inner, uid uint32, err error) {
	s, err := f.Status(pid)
	return s.Inner, s.UID, err
}

func number(text string) (uint32, error) {
	n, err := strconv.ParseUint(text, 10, 32)
	return uint32(n), err
}

// Owner returns the effective user ID of a process, or 0 if the process is gone. It reads no file: the directory of a
// process belongs to its user, unless that process is not dumpable.
func (f FS) Owner(pid uint32) uint32 {
	var stat unix.Stat_t
	if unix.Stat(f.pathOf(pid, ""), &stat) != nil {
		return 0
	}
	return stat.Uid
}

// MountNamespace returns the name of the mount namespace of a process, "mnt:[4026531841]", or the name of the process
// itself if that is unknown.
func (f FS) MountNamespace(pid uint32) string {
	name, err := os.Readlink(f.pathOf(pid, "/ns/mnt"))
	if err != nil {
		return "process " + strconv.FormatUint(uint64(pid), 10)
	}
	return name
}
