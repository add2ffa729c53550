package kernel

import (
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// ErrClosed is returned by reads after Close.
var ErrClosed = errors.New("profiler is closed")

// PermissionError lists the capabilities that profiling needs and this process lacks.
type PermissionError struct {
	Missing []string // names, CAP_BPF and so on
}

func (e *PermissionError) Error() string {
	return fmt.Sprintf("profiling needs capabilities that this process lacks: %s (run it as root, or grant them: "+
		"setcap %s PROGRAM, or in a systemd unit %s)", strings.Join(e.Missing, ", "), FileCapabilities(),
		AmbientCapabilities())
}

// FileCapabilities returns the arguments of setcap(8) that let an executable profile, except its path.
func FileCapabilities() string {
	return strings.ToLower(strings.Join(missingCapabilities(0), ",")) + "=ep"
}

// AmbientCapabilities returns the line of a systemd unit that lets its service profile.
func AmbientCapabilities() string {
	return "AmbientCapabilities=" + strings.Join(missingCapabilities(0), " ")
}

// errPIDNamespace reports that /proc shows other PIDs than the samples have.
var errPIDNamespace = errors.New("profiling needs the host's PID namespace: " +
	"in a container, run it with --pid=host or hostPID: true")

// initialPIDNamespace is the inode of the host's PID namespace, PROC_PID_INIT_INO
// in the kernel's include/linux/proc_ns.h.
const initialPIDNamespace = 0xEFFFFFFC

// CheckNamespace returns an error when this process is not in the host's PID
// namespace.
func CheckNamespace() error {
	var st unix.Stat_t
	if err := unix.Stat("/proc/self/ns/pid", &st); err != nil {
		return fmt.Errorf("find own PID namespace: %w", err)
	}
	if st.Ino != initialPIDNamespace {
		return errPIDNamespace
	}
	return nil
}

// capability is a capability that the profiler uses, and its purpose.
type capability struct {
	bit         uint
	name        string
	underAdmin  bool // CAP_SYS_ADMIN includes it
	explanation string
}

func neededCapabilities() []capability {
	return []capability{
		{unix.CAP_BPF, "CAP_BPF", true, "load programs and maps"},
		{unix.CAP_PERFMON, "CAP_PERFMON", true, "sample every CPU"},
		{unix.CAP_SYS_PTRACE, "CAP_SYS_PTRACE", false, "read /proc/PID of other users"},
		{unix.CAP_CHECKPOINT_RESTORE, "CAP_CHECKPOINT_RESTORE", true, "open /proc/PID/map_files"},
		{unix.CAP_DAC_READ_SEARCH, "CAP_DAC_READ_SEARCH", false, "read executables of other users"},
		{unix.CAP_SYSLOG, "CAP_SYSLOG", true, "read kernel symbols"},
	}
}

// checkPermissions returns a *PermissionError when the process lacks a
// capability, see capabilities(7).
func checkPermissions() error {
	missing, err := MissingCapabilities()
	if err != nil {
		return err
	}
	if len(missing) > 0 {
		return &PermissionError{Missing: missing}
	}
	return nil
}

// MissingCapabilities returns the names of the capabilities that profiling needs and this process lacks.
func MissingCapabilities() ([]string, error) {
	status, err := os.ReadFile("/proc/self/status")
	if err != nil {
		return nil, fmt.Errorf("read own capabilities: %w", err)
	}
	effective, err := effectiveCapabilities(string(status))
	if err != nil {
		return nil, err
	}
	return missingCapabilities(effective), nil
}

func effectiveCapabilities(status string) (uint64, error) {
	for line := range strings.Lines(status) {
		if hex, ok := strings.CutPrefix(line, "CapEff:"); ok {
			return strconv.ParseUint(strings.TrimSpace(hex), 16, 64)
		}
	}
	return 0, errors.New("read own capabilities: no CapEff in /proc/self/status")
}

func missingCapabilities(effective uint64) []string {
	admin := effective&(1<<unix.CAP_SYS_ADMIN) != 0
	var missing []string
	for _, c := range neededCapabilities() {
		if effective&(1<<c.bit) == 0 && !(c.underAdmin && admin) {
			missing = append(missing, c.name)
		}
	}
	return missing
}
