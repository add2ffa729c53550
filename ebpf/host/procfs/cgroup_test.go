package procfs

import (
	"errors"
	"os"
	"runtime"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/headwater/headwater/integration/testkit/need"
)

func TestCgroupsOfOurOwnNamespace(t *testing.T) {
	self := uint32(os.Getpid())
	want, err := Default.Cgroup(self)
	require.NoError(t, err)
	c := Default.Cgroups()
	got, err := c.Cgroup(self)
	require.NoError(t, err)
	if !c.Private() {
		require.Equal(t, want, got)
	}
	require.NoError(t, c.Close())

	none := FS{Root: t.TempDir()}.Cgroups()
	require.False(t, none.Private())
	_, err = none.Cgroup(self)
	require.ErrorIs(t, err, os.ErrNotExist)
}

// TestCgroupsFromPrivateNamespace reads from a thread in its own cgroup namespace, as of a profiler in a container. The
// process's namespace stands for the host's.
func TestCgroupsFromPrivateNamespace(t *testing.T) {
	need.Root(t)
	self := uint32(os.Getpid())
	want, err := Default.Cgroup(self)
	require.NoError(t, err)
	host, err := os.Open("/proc/self/ns/cgroup")
	require.NoError(t, err)

	var inside, outside []string
	done := make(chan error, 1)
	go func() {
		runtime.LockOSThread() // and never unlocked: the thread ends with this goroutine
		done <- func() error {
			if err := unix.Unshare(unix.CLONE_NEWCGROUP); err != nil {
				return err
			}
			own, err := os.Open("/proc/thread-self/ns/cgroup")
			if err != nil {
				return err
			}
			c := &Cgroups{own: own, host: host}
			var errInside, errOutside error
			inside, errInside = Default.Cgroup(self)
			outside, errOutside = c.Cgroup(self) // c reads on threads of its own
			return errors.Join(errInside, errOutside, c.Close())
		}()
	}()
	require.NoError(t, <-done)
	require.Equal(t, want, outside)
	for _, line := range inside { // we are the root of our namespace
		require.Regexp(t, `:/$`, line)
	}
}
