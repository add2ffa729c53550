package kernel

import (
	"os/exec"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/headwater/headwater/integration/testkit"
	"github.com/headwater/headwater/integration/testkit/need"
	"github.com/headwater/headwater/integration/testkit/retry"
)

// bareClocks are clocks like those of the profiler without a BPF program: the kernel writes
// what they take, and when it throttles them, to their buffers.
func bareClocks(t testing.TB, period time.Duration) (clocks []*perfRing) {
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
		clocks = append(clocks, ring)
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

// At 10 kHz, with more to run than there are CPUs, each sample that was due is taken, lost to
// a full ring, or skipped by a timer that came too late. What is said to be skipped are samples that
// the same clocks without a program miss as well, and the kernel throttled none of these.
//
// The clocks of a virtual machine whose CPUs stand still at times do not all miss the same, so it is tried three times.
func TestEverySampleDueIsCounted(t *testing.T) { retry.Run(t, tryEverySampleDue) }

func tryEverySampleDue(t *retry.T) {
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
		if err := unix.IoctlSetInt(clock.event.fd, unix.PERF_EVENT_IOC_ENABLE, 0); err != nil {
			t.Fatal(err)
		}
	}
	if err := p.Start(rate); err != nil {
		t.Fatal(err)
	}
	read := uint64(0)
	for range 2 { // the rings overflow in between
		if _, err := p.ReadSamples(time.Now().Add(time.Second), func(*Sample) { read++ }); err != nil {
			t.Fatal(err)
		}
		time.Sleep(500 * time.Millisecond)
	}
	if err := p.Stop(); err != nil {
		t.Fatal(err)
	}
	missed, records := uint64(0), map[uint32]uint64{}
	for _, clock := range bare {
		if err := unix.IoctlSetInt(clock.event.fd, unix.PERF_EVENT_IOC_DISABLE, 0); err != nil {
			t.Fatal(err)
		}
		counted, _, err := clock.event.times()
		if err != nil {
			t.Fatal(err)
		}
		taken := records[unix.PERF_RECORD_SAMPLE]
		if err := clock.read(func(kind uint32, _ uint16, _ []byte) { records[kind]++ }); err != nil {
			t.Fatal(err)
		}
		missed += uint64(counted/period) - (records[unix.PERF_RECORD_SAMPLE] - taken)
	}
	if _, err := p.ReadSamples(time.Now(), func(*Sample) { read++ }); err != nil {
		t.Fatal(err)
	}
	c, err := p.Counters()
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("%d samples due, %d read, %d lost to full rings, %d throttled, %d skipped; "+
		"the bare clocks missed %d, records %v", c.Expected, read, c.Lost, c.Throttled, c.Skipped, missed, records)
	margin := c.Expected / 200
	if sum := read + c.Lost + c.Throttled + c.Skipped; sum > c.Expected+margin || sum < c.Expected-margin {
		t.Errorf("%d samples are accounted for, %d were due", sum, c.Expected)
	}
	if c.Lost == 0 {
		t.Error("no ring overflowed: this test is to see that it is counted")
	}
	if c.Skipped > missed+margin || c.Skipped+margin < missed {
		t.Errorf("%d samples are said to be skipped, clocks without a program missed %d", c.Skipped, missed)
	}
	// The kernel reads a clock's two times one after the other, so they may be a period apart.
	if n := records[unix.PERF_RECORD_THROTTLE]; n > 0 != (c.Throttled > uint64(len(bare))) {
		t.Errorf("the kernel throttled %d times, %d samples are said to be throttled", n, c.Throttled)
	}
	if n := records[unix.PERF_RECORD_LOST]; n > 0 {
		t.Fatalf("the buffers of the bare clocks overflowed %d times", n)
	}
}
