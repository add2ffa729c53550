package sampler

import (
	"context"
	"os"
	"os/exec"
	"runtime"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/headwater/headwater/ebpf/kernel"
	"github.com/headwater/headwater/integration/testkit"
)

// pin lets a thread, 0: this one, run on one CPU alone.
func pin(t testing.TB, tid, cpu int) {
	t.Helper()
	var set unix.CPUSet
	set.Set(cpu)
	if err := unix.SchedSetaffinity(tid, &set); err != nil {
		t.Fatal(err)
	}
}

// spinOn keeps a CPU busy until the test ends, and returns the thread that does.
func spinOn(t testing.TB, cpu int) (tid int) {
	t.Helper()
	var stop atomic.Bool
	started := make(chan int)
	go func() {
		runtime.LockOSThread() // and never unlocked: the thread ends with the goroutine
		started <- unix.Gettid()
		for !stop.Load() {
			runtime.Gosched()
		}
	}()
	tid = <-started
	t.Cleanup(func() { stop.Store(true) })
	pin(t, tid, cpu)
	return tid
}

// TestCPUGoesOffline switches a CPU off for a moment, and for longer than the pause between two looks at the CPUs,
// again and again under load. When the CPU is back it is sampled, and the programs that start on it are known. The
// samples that were due are counted, and no more.
func TestCPUGoesOffline(t *testing.T) {
	if os.Getenv("HEADWATER_GUEST") != "1" {
		t.Skip("make kernel-test runs this, on a machine of its own")
	}
	const cpu, switchFile = 1, "/sys/devices/system/cpu/cpu1/online"
	turn := func(to string) {
		t.Helper()
		if err := os.WriteFile(switchFile, []byte(to), 0); err != nil {
			t.Fatal(err)
		}
	}
	var sampled, gaps atomic.Uint64
	started := make(chan uint32, 1024)
	s := open(t, Options{Observe: func(r *kernel.Record) {
		switch r.Kind {
		case kernel.RecordExec:
			started <- r.PID
		case kernel.RecordLost:
			gaps.Add(1)
		}
	}})
	const rate = 49 // an emulated CPU is slow
	if err := s.Configure(Config{SampleRate: rate, UserStacks: true, TableBytes: 16 << 20}); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	begun := time.Now()
	var used atomic.Uint64
	go func() {
		ended <- s.Run(ctx, func(sample *Sample) error {
			used.Add(1)
			if sample.CPU == cpu {
				sampled.Add(1)
			}
			return nil
		})
	}()
	tid := spinOn(t, cpu)
	isSampled := func(when string) {
		t.Helper()
		before := sampled.Load()
		testkit.Eventually(t, when+": the CPU has samples", func() bool { return sampled.Load() > before+20 })
	}
	// isKnown starts a program on the CPU.
	isKnown := func(when string) {
		t.Helper()
		runtime.LockOSThread()
		pin(t, 0, cpu)
		program := exec.Command("/proc/self/exe", "-test.run=^$")
		err := program.Run()
		pin(t, 0, 0)
		runtime.UnlockOSThread()
		if err != nil {
			t.Fatal(err)
		}
		testkit.Eventually(t, when+": its program is known", func() bool {
			for {
				select {
				case pid := <-started:
					if int(pid) == program.Process.Pid {
						return true
					}
				default:
					return false
				}
			}
		})
	}
	isSampled("at first")
	isKnown("at first")
	for round, pause := range []time.Duration{0, 300 * time.Millisecond, 3 * time.Second, 0, 10 * time.Millisecond} {
		lost := gaps.Load()
		turn("0")
		time.Sleep(pause)
		turn("1")
		pin(t, tid, cpu) // the kernel had it run elsewhere
		when := "after " + pause.String()
		isSampled(when)
		isKnown(when)
		if gaps.Load() == lost {
			t.Errorf("round %d: nothing says that records are missing", round)
		}
	}
	stats, err := s.Stats()
	if err != nil {
		t.Fatal(err)
	}
	// Idle time is counted in ticks, of which an emulated CPU misses some.
	most := uint64(time.Since(begun).Seconds()*rate*2*1.1) + 100
	t.Logf("%d samples due, %d taken, %v lost; at most %d", stats.Expected, stats.Delivered, stats.Lost, most)
	if stats.Expected+stats.Expected/50+100 < stats.Delivered || stats.Expected > most {
		t.Errorf("%d samples were due, %d were taken, and at most %d could be", stats.Expected, stats.Delivered, most)
	}
	cancel()
	if err := <-ended; err != nil {
		t.Fatal(err)
	}
}
