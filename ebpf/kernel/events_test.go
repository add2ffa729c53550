package kernel

import (
	"os"
	"runtime"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/headwater/headwater/flame/kind"
	"github.com/headwater/headwater/integration/testkit"
)

// faultBytes is how much memory touchMemory touches.
const faultBytes = 32 << 20

// faultsAtOnce is how much memory is touched before a pause. The kernel takes perf_event_max_sample_rate samples a
// second of an event, counted by its ticks, and drops the rest; without a pause there would be more.
const faultsAtOnce = 1 << 20

// touchMemory touches memory page by page, and returns how many page faults the kernel counts for this thread.
func touchMemory(t testing.TB) int64 {
	t.Helper()
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	m, err := unix.Mmap(-1, 0, faultBytes, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_PRIVATE|unix.MAP_ANONYMOUS)
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Munmap(m)
	_ = unix.Madvise(m, unix.MADV_NOHUGEPAGE) // kernels without huge pages refuse it
	before := threadFaults(t)
	for i := 0; i < len(m); i += os.Getpagesize() {
		if m[i] = 1; i%faultsAtOnce == 0 {
			time.Sleep(time.Millisecond)
		}
	}
	return threadFaults(t) - before
}

func threadFaults(t testing.TB) int64 {
	t.Helper()
	var usage unix.Rusage
	if err := unix.Getrusage(unix.RUSAGE_THREAD, &usage); err != nil {
		t.Fatal(err)
	}
	return usage.Minflt + usage.Majflt
}

// kindReader reads samples.
type kindReader struct {
	*Profiler
	events uint64 // samples of events, of all processes
}

// read reads the samples of this process, and adds up their values by kind.
func (p *kindReader) read(t testing.TB) map[kind.Kind]int64 {
	t.Helper()
	sums := map[kind.Kind]int64{}
	_, err := p.ReadSamples(time.Now().Add(200*time.Millisecond), func(s *Sample) {
		if s.Kind != kind.CPU {
			p.events++
		}
		if s.PID == uint32(os.Getpid()) {
			sums[s.Kind] += int64(s.Value)
		}
	})
	if err != nil {
		t.Fatal(err)
	}
	return sums
}

func lostEvents(t testing.TB, p *kindReader) uint64 {
	t.Helper()
	c, err := p.Counters()
	if err != nil {
		t.Fatal(err)
	}
	return c.EventsLost
}

// TestPageFaults: samples of page faults stand for as many faults as the kernel has counted, come in addition to
// samples of the clock, and end on request.
func TestPageFaults(t *testing.T) {
	p := &kindReader{Profiler: load(t)}
	if err := p.SetStacks(true, true, true); err != nil {
		t.Fatal(err)
	}
	if err := p.SetEvents(kind.PageFaults, 16); err != nil {
		t.Fatal(err)
	}
	p.read(t)
	before := lostEvents(t, p)
	want := touchMemory(t)
	got := p.read(t)
	if len(got) != 1 || got[kind.PageFaults]%16 != 0 {
		t.Fatalf("values by kind are %v, but page faults alone are sampled, each 16th", got)
	}
	// Each 16th fault of a CPU is sampled, and the CPU's other faults are other programs': 512 samples, with a standard
	// deviation of 22 at most, so a quarter is more than five deviations.
	lost := 16 * int64(lostEvents(t, p)-before) // on a busy host some of them are other programs'
	if n := got[kind.PageFaults]; n+lost < want*3/4 || n > want*5/4 {
		t.Errorf("samples stand for %d page faults and %d were lost, but the kernel has counted %d", n, lost, want)
	}
	if err := p.Start(1000); err != nil {
		t.Fatal(err)
	}
	if err := p.SetEvents(kind.PageFaults, 64); err != nil {
		t.Fatal(err)
	}
	testkit.Eventually(t, "the clock takes samples while page faults do", func() bool {
		touchMemory(t)
		got := p.read(t)
		if _, ok := got[kind.PageFaults]; !ok {
			t.Errorf("no page fault is sampled at another period: %v", got)
		}
		_, cpu := got[kind.CPU]
		return cpu
	})
	if err := p.SetEvents(kind.PageFaults, 0); err != nil {
		t.Fatal(err)
	}
	p.read(t)
	touchMemory(t)
	if got := p.read(t); got[kind.PageFaults] != 0 {
		t.Errorf("%v after sampling has ended", got)
	}
	c, err := p.Counters()
	if err != nil {
		t.Fatal(err)
	}
	if c.Events < faultBytes/uint64(os.Getpagesize())/16 || c.Events != p.events+c.EventsLost {
		t.Errorf("%d samples of events are counted, %d were read, %d lost", c.Events, p.events, c.EventsLost)
	}
}

// Numbers of kinds are the same as in bpf/abi/samples.h.
func TestKindNumbers(t *testing.T) {
	for k, number := range map[kind.Kind]profilerSampleKind{
		kind.CPU: profilerSampleKindKIND_CPU, kind.PageFaults: profilerSampleKindKIND_PAGE_FAULTS,
		kind.MajorFaults: profilerSampleKindKIND_MAJOR_FAULTS,
	} {
		if uint32(k) != uint32(number) {
			t.Errorf("kind %s is %d here and %d in BPF", k, k, number)
		}
	}
	if err := (&Profiler{}).SetEvents(kind.OffCPU, 1); err == nil {
		t.Error("time off CPU is an event")
	}
}
