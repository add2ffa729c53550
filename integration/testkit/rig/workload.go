package rig

import (
	"fmt"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/headwater/headwater/integration/testkit/need"
)

// WithoutFramePointers are the compiler flags of the workloads: optimised as distributions do, without frame pointers,
// and with a frame for each call.
var WithoutFramePointers = []string{"-O2", "-fomit-frame-pointer", "-fno-optimize-sibling-calls", "-Wall", "-Wextra"}

// Compile runs a compiler, or another tool that makes programs.
func Compile(t testing.TB, compiler string, args ...string) {
	t.Helper()
	need.Tools(t, compiler)
	if out, err := exec.Command(compiler, args...).CombinedOutput(); err != nil {
		t.Fatalf("%s %v: %v\n%s", compiler, args, err, out)
	}
}

// StartCopy runs dd from /dev/zero to /dev/null, which spends almost all its time in the kernel.
func StartCopy(t testing.TB) *Process {
	t.Helper()
	need.Tools(t, "dd")
	return Start(t, exec.Command("dd", "if=/dev/zero", "of=/dev/null", "bs=1M"))
}

// StartFio runs fio, which reads a small file at random through libaio and ends after some seconds. The file is in the
// page cache, so io_submit itself does the work.
func StartFio(t testing.TB, seconds int) *Process {
	t.Helper()
	need.Tools(t, "fio")
	fio := Start(t, exec.Command("fio", "--name=load", "--ioengine=libaio", "--rw=randread", "--bs=64k", "--size=32m",
		"--iodepth=8",
		"--filename="+filepath.Join(t.TempDir(), "fio.data"), "--time_based", fmt.Sprintf("--runtime=%d", seconds)))
	// Its worker has its own process group, and would continue after fio has ended.
	t.Cleanup(func() {
		for _, worker := range Children(t, fio.PID()) {
			_ = syscall.Kill(worker, syscall.SIGKILL)
		}
	})
	return fio
}

// PrivateMounts is the first line of a script in its own mount namespace: it hides the script's mounts from the host.
// In a chroot the root is no mount point and cannot be made private.
const PrivateMounts = "if mountpoint -q /; then mount --make-rprivate /; fi\n"
