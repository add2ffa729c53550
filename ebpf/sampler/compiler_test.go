package sampler

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/headwater/headwater/ebpf/process/target"
	"github.com/headwater/headwater/integration/testkit/need"
)

// TestCompiler: a compiler runs through thousands of pages of text, and walks do not miss each of them once. A sample
// that missed carries a copy of its stack.
func TestCompiler(t *testing.T) {
	need.Tools(t, "clang-19")
	source, err := filepath.Abs("../../integration/lab/bench/testdata/build")
	if err != nil {
		t.Fatal(err)
	}
	s := open(t, Options{Target: func(pid uint32) (*target.Target, bool) { // no rows are built for other processes
		comm, err := os.ReadFile(fmt.Sprintf("/proc/%d/comm", pid))
		return nil, err == nil && strings.HasPrefix(string(comm), "clang")
	}})
	loop := exec.Command("sh", "-c",
		"while :; do for f in containers text; do clang-19 -w -O2 -std=c++17 -c -o $0/$f.o $f.cc || exit; done; done",
		t.TempDir())
	loop.Dir = source
	loop.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	if err := loop.Start(); err != nil {
		t.Fatal(err)
	}
	defer loop.Wait()
	defer syscall.Kill(-loop.Process.Pid, syscall.SIGKILL)

	// The compiler compiles the same files again and again, so walks miss ever less. How soon depends on how much CPU
	// time the profiler gets: one of the windows must have few misses.
	const window, windows = 4000, 6 // samples; the first window only learns the compiler's pages
	const patience = 10 * time.Minute
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	var samples, missed, complete int
	before, few := ownCPU(t), false
	err = s.Run(ctx, func(sample *Sample) error {
		if !strings.HasPrefix(sample.Comm, "clang") || !sample.Outcome.HasUserPart() || ctx.Err() != nil {
			return nil
		}
		if sample.Stack.Len() > 0 && !sample.FromLeaf {
			missed++
		}
		if sample.Outcome.Complete() {
			complete++
		}
		if samples++; samples%window > 0 {
			return nil
		}
		now := ownCPU(t)
		t.Logf("%.2f %% of %d samples missed, %.2f %% are whole; %v of CPU time", 100*float64(missed)/window, window,
			100*float64(complete)/window, now-before)
		if samples > window && complete < window*98/100 {
			t.Errorf("%d of %d stacks are whole", complete, window)
		}
		few = samples > window && missed <= window/20
		if few || samples == windows*window {
			cancel()
		}
		before, missed, complete = now, 0, 0
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if !few {
		t.Errorf("in no window at most 5 %% of the samples missed a page of rows, of %d samples in %v", samples, patience)
	}
}

// ownCPU returns the CPU time of this process.
func ownCPU(t testing.TB) time.Duration {
	t.Helper()
	var u unix.Rusage
	if err := unix.Getrusage(unix.RUSAGE_SELF, &u); err != nil {
		t.Fatal(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}
