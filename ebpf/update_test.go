package ebpf

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/headwater/headwater/ebpf/symbol/debuginfod"
	"github.com/headwater/headwater/integration/testkit"
	"github.com/headwater/headwater/integration/testkit/need"
)

// An update that fails has no effect: not on the kernel's rate while samples keep the old rate's weight, nor on any
// other part.
func TestUpdateFailsWhole(t *testing.T) {
	need.Root(t)
	o := Options{}.withDefaults()
	s := start(t, o)
	defer s.Close()
	pid := testkit.Spin(t)
	collect(t, s, pid, uint64(o.SampleRate)/2) // its files are known
	t.Run("no folder for debug files", func(t *testing.T) {
		file := filepath.Join(t.TempDir(), "file")
		if err := os.WriteFile(file, nil, 0o600); err != nil {
			t.Fatal(err)
		}
		failUpdate(t, s, pid, filepath.Join(file, "cache"), func(update func() error) error { return update() })
	})
	t.Run("no file descriptors", func(t *testing.T) {
		failUpdate(t, s, pid, t.TempDir(), func(update func() error) error {
			defer withoutDescriptors(t)()
			return update()
		})
	})
}

// withoutDescriptors makes all opens fail until the function that it returns is called.
func withoutDescriptors(t *testing.T) (end func()) {
	t.Helper()
	var limit unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_NOFILE, &limit); err != nil {
		t.Fatal(err)
	}
	if err := unix.Setrlimit(unix.RLIMIT_NOFILE, &unix.Rlimit{Max: limit.Max}); err != nil {
		t.Fatal(err)
	}
	return func() {
		if err := unix.Setrlimit(unix.RLIMIT_NOFILE, &limit); err != nil {
			t.Error(err)
		}
	}
}

// A program that starts while there are no file descriptors has whole stacks after there are some.
func TestStartWithoutDescriptors(t *testing.T) {
	sh, err := os.ReadFile("/bin/sh")
	if err != nil {
		t.Fatal(err)
	}
	unknown := filepath.Join(t.TempDir(), "unknown")
	if err := os.WriteFile(unknown, sh, 0o700); err != nil {
		t.Fatal(err)
	}
	o := Options{}.withDefaults()
	s := start(t, o)
	defer s.Close()
	cmd := exec.Command("sh", "-c", "read go; exec "+unknown+" -c 'while :; do :; done'")
	stdin, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	pid := testkit.Run(t, cmd)

	end := withoutDescriptors(t)
	_, err = stdin.Write([]byte("\n"))
	time.Sleep(time.Second)
	end()
	if err != nil {
		t.Fatal(err)
	}
	testkit.Eventually(t, "most stacks of the program are whole", func() bool {
		n, complete := of(collect(t, s, pid, uint64(o.SampleRate)), pid)
		t.Logf("%d of %d stacks are whole; errors %v", complete, n, s.Stats().Errors)
		return complete > n/2
	})
}

// failUpdate makes an update that fails, by try.
func failUpdate(t *testing.T, s *Session, pid uint32, cacheDir string, try func(update func() error) error) {
	t.Helper()
	o := Options{}.withDefaults()
	bad := o
	bad.SampleRate = 10 * DefaultSampleRate
	bad.NoUserStacks = true
	bad.Debuginfod = debuginfod.Options{URLs: []string{"http://127.0.0.1:1"}, CacheDir: cacheDir}
	if err := try(func() error { return s.Update(bad) }); err == nil {
		t.Fatal("the update succeeded")
	} else {
		t.Log(err)
	}
	if _, err := s.Collect(); err != nil { // samples from before
		t.Fatal(err)
	}
	before := cpuTime(t, pid)
	profiles := collect(t, s, pid, uint64(o.SampleRate))
	used := cpuTime(t, pid) - before
	var shown time.Duration
	for _, p := range profiles {
		n, _ := of([]Profile{p}, pid)
		shown += time.Duration(int64(n) * p.Pprof.Period)
	}
	if _, complete := of(profiles, pid); complete == 0 {
		t.Error("user stacks are not collected any more")
	}
	if shown > 3*used {
		t.Errorf("the profiles show %s of a process that used %s: samples come at the new rate with the old one's weight",
			shown, used)
	}
}

// cpuTime returns the CPU time that a process has used, see proc_pid_stat(5).
func cpuTime(t testing.TB, pid uint32) time.Duration {
	t.Helper()
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		t.Fatal(err)
	}
	fields := strings.Fields(string(b[bytes.LastIndexByte(b, ')')+2:]))
	user, err1 := strconv.Atoi(fields[11])
	system, err2 := strconv.Atoi(fields[12])
	if err := errors.Join(err1, err2); err != nil {
		t.Fatal(err)
	}
	return time.Duration(user+system) * time.Second / 100 // USER_HZ
}
