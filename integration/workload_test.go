package integration

import (
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"syscall"
	"testing"
)

// withoutFramePointers are the compiler flags of the workloads: optimised
// as distributions do, no frame pointers, and each call a frame.
var withoutFramePointers = []string{"-O2", "-fomit-frame-pointer", "-fno-optimize-sibling-calls", "-Wall", "-Wextra"}

// compile runs a compiler.
func compile(t testing.TB, compiler string, args ...string) {
	t.Helper()
	requireTools(t, compiler)
	if out, err := exec.Command(compiler, args...).CombinedOutput(); err != nil {
		t.Fatalf("%s %v: %v\n%s", compiler, args, err, out)
	}
}

// chainProgram builds testdata/chain under the given name, which is to be
// at most 15 bytes, so that it is the process's name as well.
func chainProgram(t testing.TB, name string) string {
	t.Helper()
	dir := t.TempDir()
	program := filepath.Join(dir, name)
	flags := append(slices.Clone(withoutFramePointers), fmt.Sprintf("-DPROGRAM=%q", name))
	compile(t, "gcc", append(flags, "-fPIC", "-shared",
		"-o", filepath.Join(dir, "libchain.so"), "testdata/chain/library.c")...)
	compile(t, "gcc", append(flags,
		"-o", program, "testdata/chain/main.c", "-L"+dir, "-lchain", "-Wl,-rpath,$ORIGIN")...)
	return program
}

// startChain runs a chain program for at most so many seconds.
func startChain(t testing.TB, program string, seconds int) *process {
	t.Helper()
	return start(t, exec.Command(program, fmt.Sprint(seconds)))
}

// startCopy copies zeros to nowhere: nearly all of it in the kernel.
func startCopy(t testing.TB) *process {
	t.Helper()
	requireTools(t, "dd")
	return start(t, exec.Command("dd", "if=/dev/zero", "of=/dev/null", "bs=64k"))
}

// startFio reads a small file at random through libaio for at most so many
// seconds. The file is in the page cache, so io_submit itself does the work.
func startFio(t testing.TB, seconds int) *process {
	t.Helper()
	requireTools(t, "fio")
	return start(t, exec.Command("fio", "--name=load", "--ioengine=libaio", "--rw=randread", "--bs=64k", "--size=32m", "--iodepth=8",
		"--filename="+filepath.Join(t.TempDir(), "fio.data"), "--time_based", fmt.Sprintf("--runtime=%d", seconds)))
}

// startInCgroup runs a program in a cgroup of its own, whose path below
// cgroupRoot is given, and removes the cgroup after the test.
func startInCgroup(t testing.TB, path string, cmd *exec.Cmd) *process {
	t.Helper()
	requireRoot(t)
	root := "/sys/fs/cgroup/unified"
	if _, err := os.Stat(filepath.Join(root, "cgroup.procs")); err != nil {
		root = "/sys/fs/cgroup"
	}
	if _, err := os.Stat(filepath.Join(root, "cgroup.procs")); err != nil {
		missing(t, "no cgroup v2 hierarchy is mounted")
	}
	group := filepath.Join(root, cgroupRoot(), path)
	if err := os.MkdirAll(group, 0o755); err != nil {
		missing(t, "cgroups cannot be made: %v", err)
	}
	t.Cleanup(func() { removeCgroups(t) }) // after the process is gone: cleanups run last to first
	folder, err := os.Open(group)
	if err != nil {
		t.Fatal(err)
	}
	defer folder.Close()
	if cmd.SysProcAttr == nil {
		cmd.SysProcAttr = &syscall.SysProcAttr{}
	}
	cmd.SysProcAttr.UseCgroupFD, cmd.SysProcAttr.CgroupFD = true, int(folder.Fd())
	return start(t, cmd)
}

// cgroupRoot is the cgroup that those of the tests lie below.
func cgroupRoot() string { return fmt.Sprintf("/headwater-test-%d", os.Getpid()) }

// removeCgroups removes the tests' cgroups of every hierarchy that nothing runs
// in, those that a runtime has made included.
func removeCgroups(t testing.TB) {
	t.Helper()
	roots, _ := filepath.Glob("/sys/fs/cgroup/*" + cgroupRoot())
	for _, root := range append(roots, "/sys/fs/cgroup"+cgroupRoot()) {
		var folders []string
		_ = filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
			if err == nil && d.IsDir() {
				folders = append(folders, path)
			}
			return nil
		})
		for _, folder := range slices.Backward(folders) {
			_ = syscall.Rmdir(folder) // one that is in use stays, as do those above
		}
	}
}

// asNobody takes every privilege from a program.
func asNobody() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: 65534, Gid: 65534}}
}
