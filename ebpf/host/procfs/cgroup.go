package procfs

import (
	"errors"
	"fmt"
	"os"
	"runtime"
	"strings"

	"golang.org/x/sys/unix"
)

// Cgroup returns the lines of /proc/PID/cgroup, "hierarchy:controllers:path".
// The paths are relative to the root of our own cgroup namespace; see Cgroups.
func (f FS) Cgroup(pid uint32) ([]string, error) {
	b, err := os.ReadFile(f.pathOf(pid, "/cgroup"))
	if err != nil {
		return nil, err
	}
	text := strings.TrimSuffix(string(b), "\n")
	if text == "" {
		return nil, nil
	}
	return strings.Split(text, "\n"), nil
}

// Cgroups reads control groups as process 1 sees them. In a container with its own cgroup namespace, as container
// runtimes create them with cgroup v2, the paths of /proc/PID/cgroup are cut off at the container: containers next to
// ours are 0::/../ID, and the processes of our own container are 0::/, whatever its ID is (cgroup_namespaces(7)).
// Cgroups is safe for concurrent use.
type Cgroups struct {
	fs        FS
	own, host *os.File // cgroup namespaces; nil if they are the same or unknown
}

// Cgroups returns a reader of control groups. Process 1 must be the host's (a profiler runs in the host's PID
// namespace), and CAP_SYS_ADMIN is needed to read from its namespace; otherwise, paths are as in our own namespace.
func (f FS) Cgroups() *Cgroups {
	c := &Cgroups{fs: f}
	own, err := os.Open(f.rootOrDefault() + "/self/ns/cgroup")
	if err != nil {
		return c
	}
	host, err := os.Open(f.pathOf(1, "/ns/cgroup"))
	if err != nil || sameFile(own, host) {
		return c
	}
	c.own, c.host = own, host
	return c
}

func sameFile(a, b *os.File) bool {
	infoA, errA := a.Stat()
	infoB, errB := b.Stat()
	return errA == nil && errB == nil && os.SameFile(infoA, infoB)
}

// Private reports whether we are in a cgroup namespace other than process 1's.
func (c *Cgroups) Private() bool { return c.host != nil }

// Cgroup returns the lines of /proc/PID/cgroup.
func (c *Cgroups) Cgroup(pid uint32) ([]string, error) {
	if c.host == nil {
		return c.fs.Cgroup(pid)
	}
	var lines []string
	var readErr error
	if err := c.fromHost(func() { lines, readErr = c.fs.Cgroup(pid) }); err != nil {
		return c.fs.Cgroup(pid) // not allowed: as in our own namespace
	}
	return lines, readErr
}

// fromHost calls read on a thread that is in the host's cgroup namespace. An
// error says that read was not called.
func (c *Cgroups) fromHost(read func()) error {
	done := make(chan error, 1)
	go func() {
		runtime.LockOSThread()
		if err := unix.Setns(int(c.host.Fd()), unix.CLONE_NEWCGROUP); err != nil {
			runtime.UnlockOSThread()
			done <- fmt.Errorf("entering the cgroup namespace of process 1: %w", err)
			return
		}
		read()
		if err := unix.Setns(int(c.own.Fd()), unix.CLONE_NEWCGROUP); err == nil {
			runtime.UnlockOSThread() // otherwise the thread ends with this goroutine
		}
		done <- nil
	}()
	return <-done
}

// Close releases the namespaces.
func (c *Cgroups) Close() error {
	if c.host == nil {
		return nil
	}
	return errors.Join(c.own.Close(), c.host.Close())
}
