package kernel

import (
	"os"
	"os/exec"
	"reflect"
	"runtime"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/headwater/headwater/ebpf/procfs"
	"github.com/headwater/headwater/integration/testkit/need"
)

// probed is what tests put probes at.
//
//go:noinline
func probed(n int) int { return n + 1 }

// probedOffset returns the address of probed, and where that is in the test's file.
func probedOffset(t testing.TB) (addr, offset uint64) {
	t.Helper()
	addr = uint64(reflect.ValueOf(probed).Pointer())
	maps, err := procfs.Default.SelfMappings()
	if err != nil {
		t.Fatal(err)
	}
	for _, m := range maps {
		if m.Start <= addr && addr < m.End {
			return addr, addr - m.Start + m.Offset
		}
	}
	t.Fatalf("no file is mapped at 0x%x", addr)
	return 0, 0
}

// TestProbes: each call of a function is a hit of a uprobe, with the registers and the stack of that instant; software
// events and tracepoints are seen too.
func TestProbes(t *testing.T) {
	need.Root(t)
	program, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	p, err := load(t).OpenProbes()
	if err != nil {
		t.Fatal(err)
	}
	defer p.Close()
	addr, offset := probedOffset(t)
	var probes [3]int
	for i, event := range []ProbeEvent{
		{Type: "uprobe", Path: program, Offset: offset, Entry: true},
		{Type: "software", Config: unix.PERF_COUNT_SW_CONTEXT_SWITCHES},
		{Type: "tracepoint", Group: "sched", Name: "sched_waking"},
	} {
		if probes[i], err = p.Add([]ProbeEvent{event}); err != nil {
			t.Fatalf("%+v: %v", event, err)
		}
	}
	const calls = 50
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	for n := range calls {
		probed(n)
	}
	// Programs that end wake this one, and not from idle tasks: Linux 6.18 samples none of those of CPUs but the first.
	for range 5 {
		if err := exec.Command("/bin/true").Run(); err != nil {
			t.Fatal(err)
		}
	}
	hits := map[int]uint64{}
	lost, err := p.Read(func(h *ProbeHit) {
		if h.Probe == probes[0] && (h.PID != uint32(os.Getpid()) || h.PC != addr || len(h.Stack) == 0) {
			t.Errorf("a hit of process %d at 0x%x with %d bytes of stack, want 0x%x", h.PID, h.PC, len(h.Stack), addr)
		}
		hits[h.Probe] += h.Hits
	})
	if err != nil {
		t.Fatal(err)
	}
	// A storm of wake-ups elsewhere on the host may fill the buffer; what did not fit is counted.
	if n := hits[probes[0]]; n > calls || n+lost < calls || hits[probes[1]]+lost == 0 || hits[probes[2]] == 0 {
		t.Errorf("hits %v of probes %v, %d lost, want %d of the first", hits, probes, lost, calls)
	}
}

// TestHeapPrograms: the programs for each kind of call of an allocator load, and attach to a function.
func TestHeapPrograms(t *testing.T) {
	need.Root(t)
	program, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	h, err := load(t).OpenHeap(512 << 10)
	if err != nil {
		t.Fatal(err)
	}
	defer h.Close()
	_, offset := probedOffset(t)
	for call := HeapMalloc; call <= HeapFree; call++ {
		probes, err := h.Attach(program, []HeapFunction{{Name: "probed", Call: call, Offset: offset}})
		if err != nil {
			t.Fatalf("call %d: %v", call, err)
		}
		if err := probes.Close(); err != nil {
			t.Error(err)
		}
	}
}
