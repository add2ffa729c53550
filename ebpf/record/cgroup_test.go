package record

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// TestLocate names control groups by directories below mounts of either version, as on hosts with both versions, in
// containers and for users.
func TestLocate(t *testing.T) {
	const mounts = "" +
		"24 1 0:22 / /sys/fs/cgroup rw - tmpfs tmpfs rw,mode=755\n" +
		"25 24 0:23 / /sys/fs/cgroup/unified rw,nosuid - cgroup2 cgroup2 rw\n" +
		"26 24 0:24 / /sys/fs/cgroup/cpu rw shared:9 - cgroup cgroup rw,cpu,cpuacct\n" +
		"27 24 0:25 / /sys/fs/cgroup/systemd rw - cgroup systemd rw,xattr,name=systemd\n" +
		"28 1 0:23 /a/b /mnt/my\\040groups rw - cgroup2 cgroup2 rw\n"
	lines := []string{"3:cpu,cpuacct:/x/y", "2:memory:/m", "1:name=systemd:/s/t", "0::/a/b/c"}
	for dir, want := range map[string]bool{
		"/sys/fs/cgroup/unified":       true,
		"/sys/fs/cgroup/unified/a":     true,
		"/sys/fs/cgroup/unified/a/b/":  true,
		"/sys/fs/cgroup/unified/x":     false, // a control group of another hierarchy
		"/sys/fs/cgroup/cpu/x":         true,
		"/sys/fs/cgroup/cpu/m":         false,
		"/sys/fs/cgroup/systemd/s/t":   true,
		"/sys/fs/cgroup/unifiedness/a": false,
		"/mnt/my groups":               true,
		"/mnt/my groups/c":             true,
		"/mnt/my groups/b":             false,
		"/x":                           true, // a path in /proc/PID/cgroup, in any hierarchy
		"m":                            true,
		"/a/b/c":                       true,
		"/b":                           false,
	} {
		s := Selection{Cgroup: dir}
		s.locate(mounts)
		require.Equal(t, want, s.fitsCgroup(lines), dir)
	}
	s := Selection{Cgroup: "/sys/fs/cgroup/system.slice"}
	s.locate("30 1 0:26 / /sys/fs/cgroup rw - cgroup2 cgroup2 rw\n")
	require.True(t, s.fitsCgroup([]string{"0::/system.slice/ssh.service"}))
	require.Equal(t, "/system.slice", s.Cgroup)
}
