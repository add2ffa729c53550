package kernel

import (
	"os"
	"runtime"
	"testing"
	"time"

	"github.com/headwater/headwater/ebpf/unwind"
	"github.com/headwater/headwater/integration/testkit"
	"github.com/headwater/headwater/integration/testkit/need"
)

// load loads the real programs, or skips where this process may not.
func load(t testing.TB) *Profiler {
	t.Helper()
	need.Root(t)
	p, err := Load(Options{TableBytes: 64 << 20})
	return need.Opened[*PermissionError](t, p, err)
}

// burn keeps a CPU busy in user mode until stop is closed.
func burn(stop <-chan struct{}) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	for x := 0; ; x++ {
		if x%1_000_000 == 0 {
			select {
			case <-stop:
				return
			default:
			}
		}
	}
}

func TestSamplesOfThisProcess(t *testing.T) {
	p := load(t)
	if err := p.SetStacks(true, true, true); err != nil {
		t.Fatal(err)
	}
	if err := p.Start(500); err != nil {
		t.Fatal(err)
	}
	stop := make(chan struct{})
	defer close(stop)
	go burn(stop)

	mine, withStack := 0, 0
	testkit.Eventually(t, "there are 20 samples of this process", func() bool {
		_, err := p.ReadSamples(time.Now().Add(100*time.Millisecond), func(s *Sample) {
			if s.PID != uint32(os.Getpid()) || !s.InUser {
				return
			}
			mine++
			if s.Outcome != unwind.ProcessUnknown {
				t.Errorf("outcome %s of a process that is not in the tables, want %s", s.Outcome, unwind.ProcessUnknown)
			}
			if len(s.User) != 1 || s.User[0].Exe != 0 || s.User[0].Vaddr != s.Regs.PC {
				t.Errorf("frames %+v, want the sampled pc 0x%x alone", s.User, s.Regs.PC)
			}
			if s.Stack.Len() > 0 {
				withStack++
			}
		})
		if err != nil {
			t.Fatal(err)
		}
		return mine >= 20
	})
	if withStack == 0 {
		t.Error("no sample has a copy of the stack")
	}

	c, err := p.Counters()
	if err != nil {
		t.Fatal(err)
	}
	if c.Ticks == 0 || c.Expected == 0 || c.Outcomes[unwind.ProcessUnknown] < uint64(mine) {
		t.Errorf("counters %+v do not show %d samples", c, mine)
	}
}
