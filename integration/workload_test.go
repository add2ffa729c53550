package integration

import (
	"fmt"
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

// startInCgroup runs a program in a cgroup of its own below the root, whose
// last folder has the given name, and removes the cgroup after the test.
func startInCgroup(t testing.TB, name string, cmd *exec.Cmd) *process {
	t.Helper()
	requireRoot(t)
	root := "/sys/fs/cgroup/unified"
	if _, err := os.Stat(filepath.Join(root, "cgroup.procs")); err != nil {
		root = "/sys/fs/cgroup"
	}
	if _, err := os.Stat(filepath.Join(root, "cgroup.procs")); err != nil {
		missing(t, "no cgroup v2 hierarchy is mounted")
	}
	group := filepath.Join(root, fmt.Sprintf("headwater-test-%d", os.Getpid()), name)
	if err := os.MkdirAll(group, 0o755); err != nil {
		missing(t, "cgroups cannot be made: %v", err)
	}
	t.Cleanup(func() { // after the process is gone: cleanups run last to first
		for _, dir := range []string{group, filepath.Dir(group)} {
			if err := os.Remove(dir); err != nil {
				t.Errorf("remove cgroup: %v", err)
			}
		}
	})
	folder, err := os.Open(group)
	if err != nil {
		t.Fatal(err)
	}
	defer folder.Close()
	cmd.SysProcAttr = inCgroup(folder)
	return start(t, cmd)
}

// inCgroup lets a program begin its life in the cgroup that folder is.
func inCgroup(folder *os.File) *syscall.SysProcAttr {
	return &syscall.SysProcAttr{UseCgroupFD: true, CgroupFD: int(folder.Fd())}
}

// asNobody takes every privilege from a program.
func asNobody() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: 65534, Gid: 65534}}
}
