package kernel

import (
	"os"
	"runtime"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/headwater/headwater/ebpf/kind"
	"github.com/headwater/headwater/integration/testkit/retry"
)

// faultBytes is how much memory touchMemory touches.
const faultBytes = 32 << 20

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
		m[i] = 1
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

// readKinds reads the samples of this process, and adds up their values by kind.
func readKinds(t testing.TB, p *Profiler) map[kind.Kind]int64 {
	t.Helper()
	sums := map[kind.Kind]int64{}
	_, err := p.ReadSamples(time.Now().Add(200*time.Millisecond), func(s *Sample) {
		if s.PID == uint32(os.Getpid()) {
			sums[s.Kind] += int64(s.Value)
		}
	})
	if err != nil {
		t.Fatal(err)
	}
	return sums
}

func lostEvents(t testing.TB, p *Profiler) uint64 {
	t.Helper()
	c, err := p.Counters()
	if err != nil {
		t.Fatal(err)
	}
	return c.EventsLost
}

// TestPageFaults: samples of page faults stand for as many as the kernel has counted, next to samples of the clock,
// and end when they are told to.
func TestPageFaults(t *testing.T) {
	p := load(t)
	if err := p.SetStacks(true, true, true); err != nil {
		t.Fatal(err)
	}
	if err := p.SetEvents(kind.PageFaults, 16); err != nil {
		t.Fatal(err)
	}
	retry.Run(t, func(t *retry.T) {
		readKinds(t, p)
		before := lostEvents(t, p)
		want := touchMemory(t)
		got := readKinds(t, p)
		if len(got) != 1 || got[kind.PageFaults]%16 != 0 {
			t.Fatalf("values by kind are %v, but page faults alone are sampled, each 16th", got)
		}
		lost := 16 * int64(lostEvents(t, p)-before) // of a busy host others have some of them
		if n := got[kind.PageFaults]; n+lost < want*3/4 || n > want*5/4 {
			t.Errorf("samples stand for %d page faults and %d were lost, but the kernel has counted %d", n, lost, want)
		}
	})
	if err := p.Start(1000); err != nil {
		t.Fatal(err)
	}
	if err := p.SetEvents(kind.PageFaults, 64); err != nil {
		t.Fatal(err)
	}
	cpu := false
	for deadline := time.Now().Add(10 * time.Second); !cpu && time.Now().Before(deadline); {
		touchMemory(t)
		got := readKinds(t, p)
		if _, ok := got[kind.PageFaults]; !ok {
			t.Errorf("no page fault is sampled at another period: %v", got)
		}
		_, cpu = got[kind.CPU]
	}
	if !cpu {
		t.Error("the clock takes no samples while page faults do")
	}
	c, err := p.Counters()
	if err != nil {
		t.Fatal(err)
	}
	if c.Events < faultBytes/uint64(os.Getpagesize())/16 || c.EventsLost > c.Events/2 {
		t.Errorf("%d samples of events are counted, %d of them lost", c.Events, c.EventsLost)
	}
	if err := p.SetEvents(kind.PageFaults, 0); err != nil {
		t.Fatal(err)
	}
	readKinds(t, p)
	touchMemory(t)
	if got := readKinds(t, p); got[kind.PageFaults] != 0 {
		t.Errorf("%v after sampling has ended", got)
	}
}

// Numbers of kinds are those of bpf/abi.h.
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
