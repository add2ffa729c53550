package kernel

import (
	"os/exec"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/headwater/headwater/integration/testkit"
	"github.com/headwater/headwater/integration/testkit/need"
)

// A bareClock counts its records by kind.
type bareClock struct {
	*perfRing
	taken, throttles, lost uint64
}

func (c *bareClock) readAll(t testing.TB) {
	t.Helper()
	err := c.readRecords(func(kind uint32, _ uint16, _ []byte) {
		switch kind {
		case unix.PERF_RECORD_SAMPLE:
			c.taken++
		case unix.PERF_RECORD_THROTTLE:
			c.throttles++
		case unix.PERF_RECORD_LOST:
			c.lost++
		}
	})
	if err != nil {
		t.Fatal(err)
	}
}

// bareClocks are clocks like the profiler's, but without a BPF program: the kernel writes their samples, and when it
// throttles them, to their buffers.
func bareClocks(t testing.TB, period time.Duration) (clocks []*bareClock) {
	t.Helper()
	cpus, err := onlineCPUs()
	if err != nil {
		t.Fatal(err)
	}
	for _, cpu := range cpus {
		attr := clockAttr(period)
		attr.Sample_type, attr.Wakeup = unix.PERF_SAMPLE_TIME, 1<<20
		event, err := openPerfEvent(attr, cpu)
		if err != nil {
			t.Fatal(err)
		}
		ring, err := newPerfRing(event, 512)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(ring.close)
		clocks = append(clocks, &bareClock{perfRing: ring})
	}
	return clocks
}

// TestIdleCPUsLoseNothing: the kernel stops the clocks of idle CPUs, which have no ticks to start them again, and no
// sample is lost by that.
func TestIdleCPUsLoseNothing(t *testing.T) {
	need.Root(t)
	p := load(t)
	if err := p.Start(10_000); err != nil {
		t.Fatal(err)
	}
	if _, err := p.ReadSamples(time.Now().Add(time.Second), func(*Sample) {}); err != nil {
		t.Fatal(err)
	}
	c, err := p.Counters()
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("%d samples due, %d throttled, %d skipped", c.Expected, c.Throttled, c.Skipped)
	if c.Throttled+c.Skipped > c.Expected {
		t.Errorf("%d samples throttled and %d skipped, of %d that were due", c.Throttled, c.Skipped, c.Expected)
	}
}

// At 10 kHz, with more threads to run than there are CPUs, each sample that was due is taken, lost to a full ring, or
// skipped by a timer that came too late. The same clocks without a program also miss the samples that are counted as
// skipped, and the kernel throttles none of their samples.
//
// CPUs of a virtual machine stand still at times. Then the two clocks of a CPU miss somewhat different numbers of
// samples, since these are due at different times of a period. The numbers differed by 1.9 % of all samples at most; 5
// % are allowed.
func TestEverySampleDueIsCounted(t *testing.T) {
	need.Root(t)
	if _, err := exec.LookPath("sh"); err != nil {
		t.Skipf("no shell to keep CPUs busy: %v", err)
	}
	const rate = 10_000
	period := time.Second / rate
	p := load(t)
	if err := p.SetStacks(true, true, true); err != nil {
		t.Fatal(err)
	}
	bare := bareClocks(t, period)
	for range 3 * len(bare) {
		testkit.Spin(t)
	}
	for _, clock := range bare {
		if err := clock.event.enable(); err != nil {
			t.Fatal(err)
		}
	}
	if err := p.Start(rate); err != nil {
		t.Fatal(err)
	}
	read, lost := uint64(0), uint64(0)
	for range 2 {
		if _, err := p.ReadSamples(time.Now().Add(time.Second), func(*Sample) { read++ }); err != nil {
			t.Fatal(err)
		}
		testkit.Eventually(t, "a ring overflows that nobody reads", func() bool {
			for _, clock := range bare {
				clock.readAll(t)
			}
			c, err := p.Counters()
			if err != nil {
				t.Fatal(err)
			}
			lost, c.Lost = c.Lost, c.Lost-lost
			return c.Lost > 0
		})
	}
	if err := p.Stop(); err != nil {
		t.Fatal(err)
	}
	var due, taken, throttles uint64 // of the bare clocks
	for _, clock := range bare {
		if err := clock.event.disable(); err != nil {
			t.Fatal(err)
		}
		counted, _, err := clock.event.times()
		if err != nil {
			t.Fatal(err)
		}
		clock.readAll(t)
		if clock.lost > 0 {
			t.Fatalf("the buffer of a bare clock overflowed %d times", clock.lost)
		}
		due, taken, throttles = due+uint64(counted/period), taken+clock.taken, throttles+clock.throttles
	}
	if _, err := p.ReadSamples(time.Now(), func(*Sample) { read++ }); err != nil {
		t.Fatal(err)
	}
	c, err := p.Counters()
	if err != nil {
		t.Fatal(err)
	}
	missed := (max(due, taken) - taken) * c.Expected / due // the bare clocks run for a moment longer
	t.Logf("%d samples due, %d read, %d lost to full rings, %d throttled, %d skipped; clocks without a program missed "+
		"%d, and the kernel throttled them %d times", c.Expected, read, c.Lost, c.Throttled, c.Skipped, missed, throttles)
	margin := c.Expected / 200
	if sum := read + c.Lost + c.Throttled + c.Skipped; sum > c.Expected+margin || sum < c.Expected-margin {
		t.Errorf("%d samples are accounted for, %d were due", sum, c.Expected)
	}
	if apart := c.Expected / 20; c.Skipped > missed+apart || c.Skipped+apart < missed {
		t.Errorf("%d samples are said to be skipped, clocks without a program missed %d", c.Skipped, missed)
	}
	// The kernel reads a clock's two times one after the other, so they may be a period apart.
	if throttles > 0 != (c.Throttled > uint64(len(bare))) {
		t.Errorf("the kernel throttled %d times, %d samples are said to be throttled", throttles, c.Throttled)
	}
}
