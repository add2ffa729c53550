package snapshot

import (
	"context"
	"debug/elf"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/headwater/headwater/ebpf/kernel"
	"github.com/headwater/headwater/ebpf/source/wait"
	"github.com/headwater/headwater/integration/testkit"
	"github.com/headwater/headwater/integration/testkit/need"
	"github.com/headwater/headwater/integration/testkit/record"
)

// open opens a Taker, or skips where this process may not.
func open(t testing.TB, pid int) *Taker {
	t.Helper()
	need.Root(t)
	taker, err := Open(uint32(pid))
	return need.Opened[*kernel.PermissionError](t, taker, err)
}

// start starts a program that lives no longer than the test.
func start(t testing.TB, name string, args ...string) *exec.Cmd {
	t.Helper()
	cmd := exec.Command(name, args...)
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = cmd.Process.Kill() // it may have ended
		_ = cmd.Wait()
	})
	return cmd
}

// ways are the functions of testdata/restless.c by address, and the way that each is on.
type ways []way

type way struct {
	low, high uint64
	side      string
}

func readWays(t testing.TB, program string) (all ways) {
	t.Helper()
	file, err := elf.Open(program)
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	symbols, err := file.Symbols()
	if err != nil {
		t.Fatal(err)
	}
	for _, s := range symbols {
		if side, _, ok := strings.Cut(s.Name, "_"); ok && (side == "left" || side == "right") {
			all = append(all, way{s.Value, s.Value + s.Size, side})
		}
	}
	if len(all) != 16 {
		t.Fatalf("%s has %d functions on its ways, want 16", program, len(all))
	}
	return all
}

// sides returns on which ways the frames of a stack are.
func (all ways) sides(s *Stack, name func(kernel.Frame) string) (sides []string) {
	for _, f := range s.Sample.Frames() {
		if filepath.Base(name(f)) != "restless" {
			continue
		}
		if at := slices.IndexFunc(all, func(w way) bool { return w.low <= f.Lookup() && f.Lookup() < w.high }); at >= 0 {
			sides = append(sides, all[at].side)
		}
	}
	return sides
}

// TestRestlessThreads: threads that are on a CPU some ten thousand times a second have no whole stack of two different
// moments. HEADWATER_SNAPSHOTS is how many snapshots are taken.
func TestRestlessThreads(t *testing.T) {
	need.Root(t)
	program := filepath.Join(t.TempDir(), "restless")
	need.Tools(t, "gcc")
	out, err := exec.Command("gcc", "-O2", "-fomit-frame-pointer", "-fno-optimize-sibling-calls", "-fno-ipa-icf",
		"-pthread", "-o", program, "testdata/restless.c").CombinedOutput()
	if err != nil {
		t.Fatalf("gcc: %v\n%s", err, out)
	}
	process := start(t, program, "4")
	taker, all := open(t, process.Process.Pid), readWays(t, program)
	name := func(f kernel.Frame) string {
		if e := taker.Sampler().Executable(f.Exe); e != nil {
			return e.Path
		}
		return ""
	}
	count := 100
	if n, err := strconv.Atoi(os.Getenv("HEADWATER_SNAPSHOTS")); err == nil {
		count = n
	}
	save := record.Test(t, "snapshots", fmt.Sprintf("make -C integration bench-snapshots SNAPSHOTS=%d RECORD=1", count))
	whole, tries, stacks, running := 0, 0, 0, 0
	began := time.Now()
	for range count {
		taken, err := taker.Take(context.Background(), 0)
		if err != nil {
			t.Fatal(err)
		}
		for _, s := range taken {
			stacks, tries = stacks+1, tries+s.Tries
			if s.State == kernel.Running {
				running++
			}
			if !s.Whole() {
				continue
			}
			whole++
			if sides := all.sides(s, name); len(sides) > 8 || len(slices.Compact(sides)) > 1 {
				t.Fatalf("a stack is of two ways, but whole: %v, %s, %v", sides, s.State, s.Sample.Frames())
			}
		}
	}
	t.Logf("%d snapshots in %v: %d of %d stacks whole, %d sampled while running, %d readings", count,
		time.Since(began).Round(time.Millisecond), whole, stacks, running, tries)
	save(map[string]any{
		"snapshots": count, "seconds": time.Since(began).Seconds(), "stacks": stacks, "whole": whole,
		"sampled": running, "readings": tries, "two_ways": 0, // the test ends at the first
	})
	if whole < stacks*9/10 {
		t.Errorf("%d of %d stacks are whole", whole, stacks)
	}
	if tries <= stacks {
		t.Errorf("%d stacks took %d readings: no thread has moved while it was read", stacks, tries)
	}
}

// A sleeping thread of this process has its stack from the system call to where Go started it. It needs no other
// program, so that it runs on every kernel of the matrix.
func TestOwnThread(t *testing.T) {
	taker := open(t, os.Getpid())
	tids := make(chan uint32, 1)
	go func() {
		runtime.LockOSThread()
		tids <- uint32(unix.Gettid())
		_ = unix.Nanosleep(&unix.Timespec{Sec: 600}, nil)
	}()
	tid := <-tids
	var s *Stack
	testkit.Eventually(t, "the thread sleeps", func() bool {
		stacks, err := taker.Take(context.Background(), tid)
		if err != nil || len(stacks) != 1 {
			t.Fatalf("%d stacks, %v", len(stacks), err)
		}
		s = stacks[0]
		return s.Call == unix.SYS_NANOSLEEP
	})
	if !s.Whole() || s.State != kernel.Sleeping || wait.Of(&s.Thread, nil) != wait.Sleep {
		t.Fatalf("the thread is %s in system call %d, torn %v after %d tries: %+v", s.State, s.Call, s.Torn, s.Tries,
			s.Sample.Sample)
	}
	if len(s.Sample.Kernel) == 0 || len(s.Sample.User) < 4 {
		t.Errorf("the stack has %d kernel and %d user frames", len(s.Sample.Kernel), len(s.Sample.User))
	}
}

// A process that ends is reported as gone.
func TestProcessEnds(t *testing.T) {
	need.Root(t)
	process := start(t, "sleep", "600")
	taker := open(t, process.Process.Pid)
	if stacks, err := taker.Take(context.Background(), 0); err != nil || len(stacks) != 1 || !stacks[0].Whole() {
		t.Errorf("a sleeper has %v, %v", stacks, err)
	}
	if err := process.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = process.Wait() // it says that it was killed
	if _, err := taker.Take(context.Background(), 0); !errors.Is(err, ErrGone) {
		t.Errorf("error %v, want %v", err, ErrGone)
	}
}
