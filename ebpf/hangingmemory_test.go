package ebpf

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/headwater/headwater/integration/testkit"
	"github.com/headwater/headwater/integration/testkit/fuse"
	"github.com/headwater/headwater/integration/testkit/need"
)

// TestHangingMemory has a process whose memory cannot be read: a reader waits for an answer that never comes. Other
// processes have their names in every profile.
func TestHangingMemory(t *testing.T) {
	t.Parallel()
	need.Root(t)
	t.Run("userfaultfd", func(t *testing.T) {
		t.Parallel()
		fd, _, err := unix.Syscall(unix.SYS_USERFAULTFD, unix.O_CLOEXEC, 0, 0)
		if err == unix.ENOSYS {
			need.Missing(t, "the kernel has no userfaultfd")
		}
		unix.Close(int(fd))
		checkHeld(t, runBurner(t, compileC(t, t.TempDir(), "held", fuse.Held, "-ldl"), ""))
	})
	if runtime.GOARCH != "amd64" { // there are no rules for Java on other architectures
		return
	}
	t.Run("file", func(t *testing.T) {
		testkit.Nightly(t, "TestStopWhileFilesHang maps a file of a file system that does not answer")
		t.Parallel()
		dir := t.TempDir()
		program := compileC(t, dir, "held", fuse.Held, "-ldl")
		library := compileC(t, dir, "libjvm.so", fuse.HeldLibrary, "-shared", "-fPIC")
		server := fuse.Mount(t, dir, map[string][]byte{"description": make([]byte, 4096)})
		pid := runBurner(t, program, "", library, filepath.Join(server.Dir, "description"))
		server.Hang(t) // before the sessions of other tests can read what the file maps
		if err := syscall.Kill(pid, syscall.SIGUSR1); err != nil {
			t.Fatal(err)
		}
		checkHeld(t, pid)
	})
}

// checkHeld profiles while the memory of a process is held back.
func checkHeld(t *testing.T, pid int) {
	t.Helper()
	other := runBurner(t, buildBurner(t, t.TempDir(), "burn_in_the_light"), "")
	var s *Session
	within(t, "the start", func() { s = start(t, Options{}) })
	what := fmt.Sprintf("reading the memory of process %d", pid)
	checkRounds(t, s, other, "while memory is held back")
	testkit.Eventually(t, "something waits for "+what, func() bool {
		round(t, s)
		return s.Waiting()[what] >= time.Second
	})
	checkRounds(t, s, other, "while memory is held back longer")
	within(t, "the end", func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
}

// compileC compiles a C program or library.
func compileC(t *testing.T, dir, name, source string, flags ...string) (path string) {
	t.Helper()
	need.Tools(t, "gcc")
	path = filepath.Join(dir, name)
	if err := os.WriteFile(path+".c", []byte(source), 0o600); err != nil {
		t.Fatal(err)
	}
	build := exec.Command("gcc", append([]string{"-O2", "-Wall", "-Wextra", "-o", path, path + ".c"}, flags...)...)
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("%s: %v: %s", strings.Join(build.Args, " "), err, out)
	}
	return path
}
