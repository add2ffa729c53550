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
	source, err := filepath.Abs("../../integration/bench/testdata/build")
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

	const patience = 5 * time.Minute // it takes ten seconds on an idle machine
	const each = 4000                // samples, first to learn the compiler's pages, then to count misses
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	var samples, missed, complete int
	var cpu time.Duration
	err = s.Run(ctx, func(sample *Sample) error {
		if !strings.HasPrefix(sample.Comm, "clang") || !sample.Outcome.HasUserPart() {
			return nil
		}
		switch samples++; {
		case samples == each:
			cpu = ownCPU(t)
		case samples == 2*each:
			cpu = ownCPU(t) - cpu
			cancel()
		}
		if samples <= each || samples > 2*each {
			return nil
		}
		if sample.Stack.Len() > 0 && !sample.FromLeaf {
			missed++
		}
		if sample.Outcome.Complete() {
			complete++
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if samples < 2*each {
		t.Fatalf("%d samples of the compiler in %v", samples, patience)
	}
	t.Logf("%.2f %% of %d samples missed, %.2f %% are whole; %v of CPU time", 100*float64(missed)/each, each,
		100*float64(complete)/each, cpu)
	if missed > each/20 {
		t.Errorf("%d of %d samples missed a page of rows", missed, each)
	}
	if complete < each*98/100 {
		t.Errorf("%d of %d stacks are whole", complete, each)
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
