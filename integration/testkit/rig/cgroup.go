package rig

import (
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"syscall"
	"testing"

	"github.com/headwater/headwater/integration/testkit/need"
)

// StartInCgroup runs a program in its own cgroup with the given path below CgroupRoot, and removes the cgroup after the
// test.
func StartInCgroup(t testing.TB, path string, cmd *exec.Cmd) *Process {
	t.Helper()
	need.Root(t)
	root := "/sys/fs/cgroup/unified"
	if _, err := os.Stat(filepath.Join(root, "cgroup.procs")); err != nil {
		root = "/sys/fs/cgroup"
	}
	if _, err := os.Stat(filepath.Join(root, "cgroup.procs")); err != nil {
		need.Missing(t, "no cgroup v2 hierarchy is mounted")
	}
	group := filepath.Join(root, CgroupRoot(), path)
	if err := os.MkdirAll(group, 0o755); err != nil {
		need.Missing(t, "cgroups cannot be made: %v", err)
	}
	t.Cleanup(func() { RemoveCgroups(t) }) // after the process is gone: cleanups run last to first
	folder, err := os.Open(group)
	if err != nil {
		t.Fatal(err)
	}
	defer folder.Close()
	if cmd.SysProcAttr == nil {
		cmd.SysProcAttr = &syscall.SysProcAttr{}
	}
	cmd.SysProcAttr.UseCgroupFD, cmd.SysProcAttr.CgroupFD = true, int(folder.Fd())
	return Start(t, cmd)
}

// CgroupRoot is the parent of all cgroups of this test process.
func CgroupRoot() string { return fmt.Sprintf("/headwater-test-%d", os.Getpid()) }

// RemoveCgroups removes the cgroups below [CgroupRoot] in every hierarchy, including a container runtime's. Cgroups
// that contain processes stay.
func RemoveCgroups(t testing.TB) {
	t.Helper()
	roots, _ := filepath.Glob("/sys/fs/cgroup/*" + CgroupRoot())
	for _, root := range append(roots, "/sys/fs/cgroup"+CgroupRoot()) {
		var folders []string
		_ = filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
			if err == nil && d.IsDir() {
				folders = append(folders, path)
			}
			return nil
		})
		for _, folder := range slices.Backward(folders) {
			_ = syscall.Rmdir(folder) // a cgroup in use stays, and so do its parents
		}
	}
}
