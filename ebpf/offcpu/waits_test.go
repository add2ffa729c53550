package offcpu

import (
	"context"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/headwater/headwater/ebpf/kernel"
	"github.com/headwater/headwater/ebpf/retrytest"
	"github.com/headwater/headwater/ebpf/sampler"
	"github.com/headwater/headwater/ebpf/snapshot"
	"github.com/headwater/headwater/integration/need"
)

// TestKnownWaits: of a program that waits in known ways each has its share of the time, by whole stacks; the kernel's
// own clock agrees on how long its threads were queued for a CPU; and all of the threads' time is accounted for.
func TestKnownWaits(t *testing.T) {
	need.Root(t)
	need.Tools(t, "gcc")
	program := filepath.Join(t.TempDir(), "waits")
	out, err := exec.Command("gcc", "-O2", "-pthread", "-o", program, "testdata/waits.c").CombinedOutput()
	if err != nil {
		t.Fatalf("gcc: %v\n%s", err, out)
	}
	retrytest.Run(t, func(t *retrytest.T) { knownWaits(t, program) })
}

func knownWaits(t *retrytest.T, program string) {
	process := exec.Command(program)
	if err := process.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() {
		_ = process.Process.Kill()
		_ = process.Wait() // it says that it was killed
	}()
	pid := uint32(process.Process.Pid)
	taker, err := snapshot.Open(pid)
	taker = need.Opened[*kernel.PermissionError](t, taker, err)
	threads, err := kernel.OpenThreads()
	if err != nil {
		t.Fatal(err)
	}
	defer threads.Close()
	time.Sleep(200 * time.Millisecond) // its threads have started

	waits := map[string]time.Duration{}
	var sum, whole time.Duration
	c := New(Options{
		Passes: threads, Completer: taker.Sampler(), Watched: func(p uint32) bool { return p == pid },
		Use: func(s *sampler.Sample, at *kernel.Thread) {
			d := time.Duration(s.Value)
			waits[snapshot.Wait(at, nil)] += d
			if sum += d; s.Outcome.Complete() {
				whole += d
			}
		},
	})
	queued, began := runQueue(t, pid), time.Now()
	ctx, stop := context.WithTimeout(context.Background(), 3*time.Second)
	defer stop()
	if err := c.Run(ctx, 100); err != nil {
		t.Fatal(err)
	}
	queued, took := runQueue(t, pid)-queued, time.Since(began)
	s := c.Stats()
	t.Logf("%v: %v, %v of %v whole, queued for %v; %+v", took, waits, whole, sum, queued, s)
	all := waits[snapshot.WaitSleep] + waits[snapshot.WaitEpoll] + waits[snapshot.WaitLock] + waits[snapshot.WaitPoll]
	for wait, share := range map[string]float64{
		snapshot.WaitSleep: 0.375, snapshot.WaitEpoll: 0.25, snapshot.WaitLock: 0.25, snapshot.WaitPoll: 0.125,
	} {
		if got := waits[wait].Seconds() / all.Seconds(); math.Abs(got-share) > 0.1 {
			t.Errorf("%s has %.3f of the waits, want %.3f", wait, got, share)
		}
	}
	if got := waits[snapshot.WaitRunQueue]; math.Abs((got - queued).Seconds()) > 0.2*took.Seconds() {
		t.Errorf("queued for a CPU for %v; the kernel says %v", got, queued)
	}
	if whole < sum*9/10 {
		t.Errorf("%v of %v are in whole stacks", whole, sum)
	}
	var total time.Duration
	for _, d := range s.Time {
		total += d
	}
	if sum != total-s.Time[kernel.Running] || math.Abs((total-3*took).Seconds()) > 0.1*3*took.Seconds() {
		t.Errorf("%v off CPU, %v in all of 3 threads in %v: %v", sum, total, took, s.Time)
	}
}

// runQueue returns for how long the threads of a process were queued for a CPU, by /proc/PID/task/TID/schedstat.
func runQueue(t *retrytest.T, pid uint32) (sum time.Duration) {
	files, err := filepath.Glob("/proc/" + strconv.Itoa(int(pid)) + "/task/*/schedstat")
	if err != nil || len(files) != 3 {
		t.Fatalf("the threads are %v, %v", files, err)
	}
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		ns, err := strconv.ParseInt(strings.Fields(string(text))[1], 10, 64)
		if err != nil {
			t.Fatal(err)
		}
		sum += time.Duration(ns)
	}
	return sum
}
