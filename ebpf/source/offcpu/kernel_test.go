package offcpu

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/headwater/headwater/ebpf/kernel"
	"github.com/headwater/headwater/ebpf/process/target"
	"github.com/headwater/headwater/ebpf/sampler"
	"github.com/headwater/headwater/ebpf/source/snapshot"
	"github.com/headwater/headwater/ebpf/unwind"
	"github.com/headwater/headwater/integration/testkit"
	"github.com/headwater/headwater/integration/testkit/need"
)

// TestSleeper: all time of a sleeping program is in its sleep, by whole stacks, and the stack is not read at each pass.
func TestSleeper(t *testing.T) {
	need.Root(t)
	sleeper := exec.Command("sleep", "600")
	if err := sleeper.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() {
		_ = sleeper.Process.Kill()
		_ = sleeper.Wait() // it says that it was killed
	}()
	pid := uint32(sleeper.Process.Pid)
	taker, err := snapshot.Open(pid)
	taker = need.Opened[*kernel.PermissionError](t, taker, err)
	threads, err := kernel.OpenThreads()
	if err != nil {
		t.Fatal(err)
	}
	defer threads.Close()
	awaitSleep(t, threads, pid)

	var sum, whole time.Duration
	c := New(Options{
		Passes: threads, Completer: taker.Sampler(),
		Target: func(p uint32) (*target.Target, bool) { return nil, p == pid },
		Use: func(s *sampler.Sample) {
			sum += time.Duration(s.Value)
			sleeps := s.PID == pid && s.Thread.State == kernel.Sleeping
			if sleeps && s.Outcome.Complete() && len(s.Kernel) > 0 && len(s.User) > 1 {
				whole += time.Duration(s.Value)
			}
		},
	})
	ctx, stop := context.WithCancel(context.Background())
	defer stop()
	passes := 0
	c.Run(ctx, func() float64 {
		if passes++; passes == 20 {
			stop()
		}
		return 50
	})
	s := c.Stats()
	t.Logf("%+v, %v in whole stacks", s, whole)
	if s.Passes < 3 || s.Read != 1 || s.Dropped != 0 || s.Threads != 1 {
		t.Errorf("stats %+v", s)
	}
	if sum == 0 || whole != sum || s.Time["sleeping"] != uint64(sum) {
		t.Errorf("%v of %v in whole stacks, and %v of sleep", whole, sum, s.Time["sleeping"])
	}
}

// awaitSleep waits until a process has been off its CPU for a long time.
func awaitSleep(t *testing.T, threads *kernel.Threads, pid uint32) {
	t.Helper()
	testkit.Eventually(t, "the program sleeps", func() (asleep bool) {
		err := threads.Read(pid, 0, func(now *kernel.Thread) {
			asleep = now.State == kernel.Sleeping && now.Off > 300*time.Millisecond
		})
		if err != nil {
			t.Fatal(err)
		}
		return asleep
	})
}

// TestRestless: for threads that rest for a moment, again and again, nearly all time of rest has a known stack, though
// no wait lasts until the stack could be read.
func TestRestless(t *testing.T) {
	need.Root(t)
	need.Tools(t, "gcc")
	program := filepath.Join(t.TempDir(), "restless")
	source := "../snapshot/testdata/restless.c"
	if out, err := exec.Command("gcc", "-O1", "-pthread", "-o", program, source).CombinedOutput(); err != nil {
		t.Fatalf("gcc: %v\n%s", err, out)
	}
	pid := uint32(testkit.Run(t, exec.Command(program, "4", "50")))
	taker, err := snapshot.Open(pid)
	taker = need.Opened[*kernel.PermissionError](t, taker, err)
	var mu sync.Mutex
	slept, moved := 0, 0
	c, err := Start(Options{
		Completer: taker.Sampler(),
		Target:    func(p uint32) (*target.Target, bool) { return nil, p == pid },
		Use: func(s *sampler.Sample) {
			if s.TID == pid || s.Thread.State != kernel.Sleeping {
				return
			}
			mu.Lock()
			defer mu.Unlock()
			slept++
			if s.Outcome == unwind.Moved {
				moved++
			}
		},
	}, 50)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	const wanted = 200
	testkit.Eventually(t, "threads are seen where they rest", func() bool {
		mu.Lock()
		defer mu.Unlock()
		return slept >= wanted
	})
	stats := c.Stats() // not below mu, which Use takes during a pass
	mu.Lock()
	defer mu.Unlock()
	t.Logf("%d of %d stacks have moved; %+v", moved, slept, stats)
	if moved > slept/20 {
		t.Errorf("%d of %d stacks have moved before they were read", moved, slept)
	}
}

// TestQueued: threads that need more CPUs than there are, and that looks also displace, are credited with as much time
// in the queue as the kernel has counted.
func TestQueued(t *testing.T) {
	need.Root(t)
	need.Tools(t, "taskset", "sh")
	for _, threads := range []int{1, 3} {
		t.Run(strconv.Itoa(threads), func(t *testing.T) { checkQueued(t, threads) })
	}
}

func checkQueued(t *testing.T, threads int) {
	var pids []uint32
	for range threads {
		cmd := exec.Command("taskset", "-c", "0", "sh", "-c", "while :; do :; done")
		pids = append(pids, uint32(testkit.Run(t, cmd)))
	}
	taker, err := snapshot.Open(pids[0])
	taker = need.Opened[*kernel.PermissionError](t, taker, err)
	queued := func() (all time.Duration) {
		for _, pid := range pids {
			text, err := os.ReadFile(fmt.Sprintf("/proc/%d/schedstat", pid))
			if err != nil {
				t.Fatal(err)
			}
			var ran, waited int64
			if _, err := fmt.Sscan(string(text), &ran, &waited); err != nil {
				t.Fatal(err)
			}
			all += time.Duration(waited)
		}
		return all
	}
	var mu sync.Mutex
	var credited time.Duration
	c, err := Start(Options{
		Completer: taker.Sampler(),
		Target:    func(p uint32) (*target.Target, bool) { return nil, slices.Contains(pids, p) },
		Use: func(s *sampler.Sample) {
			mu.Lock()
			defer mu.Unlock()
			if s.Thread.State == kernel.Runnable {
				credited += time.Duration(s.Value)
			}
		},
	}, 50)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	seen := func() (passes uint64, all time.Duration) {
		c.Flush()
		passes = c.Stats().Passes // not below mu, which Use takes during a pass
		mu.Lock()
		defer mu.Unlock()
		return passes, credited
	}
	testkit.Eventually(t, "passes are made", func() bool { passes, _ := seen(); return passes >= 3 })
	_, before := seen()
	wantBefore := queued()
	testkit.Eventually(t, "more passes are made", func() bool { passes, _ := seen(); return passes >= 103 })
	_, after := seen()
	got, want := after-before, queued()-wantBefore
	// Queueing that is not over at a look is counted later, and time that few looks have seen is owed.
	slack := time.Duration(threads)*(muchOwed+200*time.Millisecond) + want/50
	t.Logf("credited with %v, the kernel has counted %v", got, want)
	if got < want-slack || got > want+slack {
		t.Errorf("credited with %v, want %v", got, want)
	}
}
