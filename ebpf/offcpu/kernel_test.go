package offcpu

import (
	"context"
	"os/exec"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/headwater/headwater/ebpf/kernel"
	"github.com/headwater/headwater/ebpf/sampler"
	"github.com/headwater/headwater/ebpf/snapshot"
	"github.com/headwater/headwater/ebpf/target"
	"github.com/headwater/headwater/ebpf/unwind"
	"github.com/headwater/headwater/integration/testkit"
	"github.com/headwater/headwater/integration/testkit/need"
)

// TestSleeper: all time of a program that sleeps is in its sleep, by whole stacks, and the stack is not read at each
// pass.
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

// awaitSleep waits until a process has been off its CPU for long.
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

// TestRestless: of threads that rest for a moment, again and again, the stack is known of nearly all time in which they
// do, though no wait lasts until it could be read.
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
	mu.Lock()
	defer mu.Unlock()
	t.Logf("%d of %d stacks have moved; %+v", moved, slept, c.Stats())
	if moved > slept/20 {
		t.Errorf("%d of %d stacks have moved before they were read", moved, slept)
	}
}
