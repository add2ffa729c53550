package sampler

import (
	"cmp"
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"time"

	"github.com/headwater/headwater/ebpf/common/clock"
	"github.com/headwater/headwater/ebpf/kernel"
	"github.com/headwater/headwater/ebpf/process/target"
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

// Run hands over every sample that the kernel has taken until it ends, each once, and samples of unwanted processes
// count as ignored.
func TestRunUsesEverySample(t *testing.T) {
	pid, other := testkit.Spin(t), testkit.Spin(t)
	s := open(t, Options{Target: func(p uint32) (*target.Target, bool) { return nil, p != other }})
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	ended := make(chan error, 1)
	byPID := map[uint32]uint64{}
	var seen, complete atomic.Uint64
	whole := func() bool { return seen.Load() >= 100 && complete.Load() >= seen.Load()*9/10 }
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
	testkit.Eventually(t, "most of 100 samples of the process are complete, and others are ignored", func() bool {
		stats, err := s.Stats()
		if err != nil {
			t.Fatal(err)
		}
		return whole() && stats.Ignored > 0
	})
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
	if byPID[other] > 0 {
		t.Errorf("%d samples of process %d were used, %d ignored", byPID[other], other, stats.Ignored)
	}
}

// An error of use, or of the hook after a round, ends Run.
func TestRunEndsWithErrors(t *testing.T) {
	failed := errors.New("failed")
	testkit.Spin(t)
	s := open(t, Options{})
	uses := 0
	err := s.Run(context.Background(), func(*Sample) error { uses++; return failed })
	if !errors.Is(err, failed) || uses != 1 {
		t.Errorf("after %d samples: %v", uses, err)
	}
	s.Flush() // returns though Run has ended

	s = open(t, Options{Interval: 10 * time.Millisecond, AfterRound: func(uint64) error { return failed }})
	if err := s.Run(context.Background(), func(*Sample) error { return nil }); !errors.Is(err, failed) {
		t.Errorf("after a round: %v", err)
	}
}

// Samples from before Flush are used when it returns, unless it gave up waiting.
func TestFlush(t *testing.T) {
	testkit.Spin(t)
	s := open(t, Options{Interval: time.Hour})
	ctx, cancel := context.WithCancel(context.Background())
	var flushed atomic.Uint64         // time of the call, once it has returned
	used, late := 0, map[uint32]int{} // by CPU
	ended := make(chan error, 1)
	go func() {
		ended <- s.Run(ctx, func(sample *Sample) error {
			if used++; sample.Time < flushed.Load() {
				late[sample.CPU]++
			}
			return nil
		})
	}()
	sampleSome := func() {
		t.Helper()
		var before uint64
		testkit.Eventually(t, "100 samples are taken", func() bool {
			c, err := s.kernel.Counters()
			if err != nil {
				t.Fatal(err)
			}
			before = cmp.Or(before, c.Ticks)
			return c.Ticks-c.Idle >= before+100
		})
	}
	testkit.Eventually(t, "a call of Flush does not give up", func() bool {
		sampleSome()
		called := clock.Monotonic()
		s.Flush()
		took := time.Duration(clock.Monotonic() - called)
		if took < flushPatience {
			flushed.Store(called)
		}
		return took < flushPatience
	})
	sampleSome()
	s.Flush() // so that late samples are used
	cancel()
	if err := <-ended; err != nil {
		t.Fatal(err)
	}
	if used == 0 {
		t.Error("no samples were used")
	}
	for cpu, n := range late { // a CPU may have been about to take one, and a virtual CPU may stand still in it
		if n > 1 {
			t.Errorf("%d samples of CPU %d are of before a call of Flush that had returned", n, cpu)
		}
	}
}

// CatchUp reads the side-band once for all earlier samples.
func TestCatchUp(t *testing.T) {
	s := open(t, Options{})
	now := clock.Monotonic()
	if err := s.CatchUp(now); err != nil {
		t.Fatal(err)
	}
	read := s.sideBand.upTo.Load()
	if read < now {
		t.Fatalf("the side-band was read until %d, want %d", read, now)
	}
	if err := s.CatchUp(read); err != nil {
		t.Fatal(err)
	}
	if again := s.sideBand.upTo.Load(); again != read {
		t.Errorf("the side-band was read again, until %d", again)
	}
	if err := s.CatchUp(read + 1); err != nil {
		t.Fatal(err)
	}
	if again := s.sideBand.upTo.Load(); again <= read {
		t.Errorf("the side-band was not read for a later sample")
	}
}
