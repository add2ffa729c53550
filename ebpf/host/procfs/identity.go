package procfs

import (
	"fmt"
	"os"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// Identity returns the PID that a process has in its own PID namespace, and its
// effective user ID.
func (f FS) Identity(pid uint32) (inner, uid uint32, err error) {
	path := f.pathOf(pid, "/status")
	b, err := os.ReadFile(path)
	if err != nil {
		return 0, 0, err
	}
	inner = pid // kernels without PID namespaces do not report it
	found := false
	for line := range strings.Lines(string(b)) {
		fields := strings.Fields(line)
		switch {
		case len(fields) >= 2 && fields[0] == "NSpid:":
			inner, err = number(fields[len(fields)-1])
		case len(fields) >= 3 && fields[0] == "Uid:":
			uid, err = number(fields[2])
			found = true
		}
		if err != nil {
			return 0, 0, fmt.Errorf("%s: %w", path, err)
		}
	}
	if !found {
		return 0, 0, fmt.Errorf("%s: no user ID", path)
	}
	return inner, uid, nil
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
