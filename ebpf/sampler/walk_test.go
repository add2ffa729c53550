package sampler

import (
	"os"
	"runtime"
	"testing"
	"time"

	"github.com/headwater/headwater/ebpf/common/clock"
	"github.com/headwater/headwater/ebpf/host/filework"
	"github.com/headwater/headwater/ebpf/host/procfs"
	"github.com/headwater/headwater/ebpf/kernel"
	"github.com/headwater/headwater/ebpf/process"
	"github.com/headwater/headwater/ebpf/unwind"
)

// trackSelf returns a tracker that knows this process, and waits for its files as long as it takes.
func trackSelf(t *testing.T) (tracker *process.Tracker, pid uint32) {
	t.Helper()
	tracker = process.NewTracker(process.NewLocalStore(), procfs.Default, &filework.Pool{}, nil)
	t.Cleanup(func() { tracker.Close() })
	tracker.SetOpenPatience(2 * time.Minute)
	tracker.SetReadPatience(2 * time.Minute)
	pid = uint32(os.Getpid())
	tracker.ScanProcess(pid)
	return tracker, pid
}

// TestLateMapping has samples of walks that ended at a mapping which the kernel did not have yet, because its file was
// still being opened. The mapping is known when the sample is used, but there is no copy of the stack, or one that ends
// before the caller: the data came late, and the address is in a known mapping.
func TestLateMapping(t *testing.T) {
	tracker, pid := trackSelf(t)
	pc, _, _, ok := runtime.Caller(0) // in a function whose caller is on the stack
	if !ok {
		t.Fatal("the test does not know where it is")
	}
	const nowhere = 1 << 46 // a stack pointer
	for _, was := range []unwind.Outcome{unwind.NoMapping, unwind.ProcessUnknown, unwind.PageMissing} {
		c := newCompleter(tracker)
		sample := &Sample{Sample: &kernel.Sample{
			PID: pid, TID: pid, Time: clock.Monotonic(), Outcome: was, InUser: true,
			User: []kernel.Frame{{Vaddr: uint64(pc)}},
			Regs: unwind.Regs{PC: uint64(pc), SP: nowhere, FP: nowhere, Exact: true},
		}}
		c.complete(sample)
		if len(sample.User) != 1 || sample.User[0].Exe == 0 {
			t.Fatalf("%v: frames %+v", was, sample.User)
		}
		if sample.Outcome != unwind.PageMissing {
			t.Errorf("the walk ended with %v, and the file is known now: %v", was, sample.Outcome)
		}
	}
}

// TestLateGoroutine has a sample of a thread that grows a goroutine's stack. The kernel had no rows of the function
// that calls newstack, and the copy of the thread's stack does not contain the goroutine's registers: the rows came
// late.
func TestLateGoroutine(t *testing.T) {
	tracker, pid := trackSelf(t)
	view := tracker.At(pid, clock.Monotonic())
	var pc uint64
	for at := entryOf(t, "runtime.morestack"); runtime.FuncForPC(uintptr(at)).Name() == "runtime.morestack"; at++ {
		if rule, o := view.Rule(at); o == unwind.Unset && rule.CFA == unwind.CFAGoroutine {
			pc = at
		}
	}
	if pc == 0 {
		t.Fatal("no instruction of runtime.morestack has the rule for a goroutine's registers")
	}
	const nowhere = 1 << 46 // a stack pointer
	sample := &Sample{Sample: &kernel.Sample{
		PID: pid, TID: pid, Time: clock.Monotonic(), Outcome: unwind.PageMissing, InUser: true,
		User: []kernel.Frame{{Vaddr: pc}},
		Regs: unwind.Regs{PC: pc, SP: nowhere, FP: nowhere, Exact: true},
	}}
	c := newCompleter(tracker)
	c.complete(sample)
	if len(sample.User) != 1 || sample.User[0].Exe == 0 || sample.Outcome != unwind.PageMissing {
		t.Errorf("%v, frames %+v", sample.Outcome, sample.User)
	}
}

// entryOf returns the address of a function of the runtime that is defined in assembly near runtime.goexit.
func entryOf(t *testing.T, name string) uint64 {
	t.Helper()
	callers := make([]uintptr, 64)
	callers = callers[:runtime.Callers(0, callers)]
	goexit := callers[len(callers)-1]
	const reach = 1 << 16
	for pc := goexit - reach; pc < goexit+reach; pc += 16 {
		if f := runtime.FuncForPC(pc); f != nil && f.Name() == name {
			return uint64(f.Entry())
		}
	}
	t.Fatalf("%s is not near %s", name, runtime.FuncForPC(goexit).Name())
	return 0
}
