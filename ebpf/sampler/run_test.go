package sampler

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"time"

	"github.com/headwater/headwater/ebpf/clock"
	"github.com/headwater/headwater/ebpf/kernel"
	"github.com/headwater/headwater/ebpf/target"
	"github.com/headwater/headwater/integration/testkit"
	"github.com/headwater/headwater/integration/testkit/need"
)

// open returns a Sampler at 997 Hz, or skips where this process may not.
func open(t testing.TB, o Options) *Sampler {
	t.Helper()
	o.TableBytes = 16 << 20
	s, err := Open(o)
	need.Opened[*kernel.PermissionError](t, s, err)
	config := Config{SampleRate: 997, UserStacks: true, KernelStacks: true, TableBytes: o.TableBytes}
	if err := s.Configure(config); err != nil {
		t.Fatal(err)
	}
	return s
}

// Run hands over every sample that the kernel has taken until it ends, each once, and those
// of processes that are not wanted count as ignored.
func TestRunUsesEverySample(t *testing.T) {
	pid, other := testkit.Spin(t), testkit.Spin(t)
	s := open(t, Options{Target: func(p uint32) (*target.Target, bool) { return nil, p != other }})
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	ended := make(chan error, 1)
	byPID := map[uint32]uint64{}
	var seen, complete atomic.Uint64
	whole := func() bool { return seen.Load() > 0 && complete.Load() >= seen.Load()*9/10 }
	go func() {
		ended <- s.Run(ctx, func(sample *Sample) error {
			byPID[sample.PID]++
			if sample.PID == pid {
				seen.Add(1)
			}
			if sample.PID == pid && sample.Outcome.Complete() {
				complete.Add(1)
			}
			return nil
		})
	}()
	time.Sleep(time.Second)
	for deadline := time.Now().Add(time.Minute); !whole() && time.Now().Before(deadline); {
		time.Sleep(100 * time.Millisecond) // other programs have the CPUs, or rows are being built
	}
	if err := s.StopSampling(); err != nil {
		t.Fatal(err)
	}
	cancel()
	if err := <-ended; err != nil {
		t.Fatal(err)
	}
	var used uint64
	for _, n := range byPID {
		used += n
	}
	stats, err := s.Stats()
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("%d samples used, %d of process %d, %d of these complete; %+v",
		used, byPID[pid], pid, complete.Load(), stats)
	if want := stats.Delivered - stats.Ignored; used != want {
		t.Errorf("%d samples were used, want %d", used, want)
	}
	if !whole() {
		t.Errorf("%d samples of process %d, %d of them complete", byPID[pid], pid, complete.Load())
	}
	if byPID[other] > 0 || stats.Ignored == 0 {
		t.Errorf("%d samples of process %d were used, %d ignored", byPID[other], other, stats.Ignored)
	}
}

// An error of whoever uses samples, or of the hook after a round, ends Run.
func TestRunEndsWithErrors(t *testing.T) {
	failed := errors.New("failed")
	testkit.Spin(t)
	s := open(t, Options{})
	uses := 0
	err := s.Run(context.Background(), func(*Sample) error { uses++; return failed })
	if !errors.Is(err, failed) || uses != 1 {
		t.Errorf("after %d samples: %v", uses, err)
	}
	s.Flush() // returns though nobody reads

	s = open(t, Options{Interval: 10 * time.Millisecond, AfterRound: func(uint64) error { return failed }})
	if err := s.Run(context.Background(), func(*Sample) error { return nil }); !errors.Is(err, failed) {
		t.Errorf("after a round: %v", err)
	}
}

// What was sampled before Flush is used when it returns, unless it gave up waiting.
func TestFlush(t *testing.T) {
	// A sample that another CPU is taking at the time of the call comes later: a virtual CPU may stand still in it.
	const underWay = 20 * time.Millisecond
	testkit.Spin(t)
	s := open(t, Options{Interval: time.Hour})
	ctx, cancel := context.WithCancel(context.Background())
	var flushed atomic.Uint64 // time of the call, once it has returned
	used, late := 0, 0
	ended := make(chan error, 1)
	go func() {
		ended <- s.Run(ctx, func(sample *Sample) error {
			if used++; sample.Time < flushed.Load() {
				late++
			}
			return nil
		})
	}()
	time.Sleep(300 * time.Millisecond)
	called := clock.Monotonic()
	s.Flush()
	if took := time.Duration(clock.Monotonic() - called); took < flushPatience {
		flushed.Store(called - uint64(underWay))
	} else {
		t.Logf("gave up after %v", took)
	}
	time.Sleep(100 * time.Millisecond)
	cancel()
	if err := <-ended; err != nil {
		t.Fatal(err)
	}
	if used == 0 || late > 0 {
		t.Errorf("%d samples, %d of them of before a call of Flush that had returned", used, late)
	}
}
