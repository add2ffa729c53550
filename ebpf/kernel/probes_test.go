package kernel

import (
	"fmt"
	"os"
	"reflect"
	"runtime"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/headwater/headwater/ebpf/host/procfs"
	"github.com/headwater/headwater/integration/testkit"
	"github.com/headwater/headwater/integration/testkit/need"
)

// probed is what tests put probes at.
//
//go:noinline
func probed(n int) int { return n + 1 }

// probedOffset returns the address of probed, and its offset in the test's file.
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
// events and tracepoints are also seen.
func TestProbes(t *testing.T) {
	need.Root(t)
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	p, err := load(t).OpenProbes()
	if err != nil {
		t.Fatal(err)
	}
	defer p.Close()
	addr, offset := probedOffset(t)
	hits := map[int]uint64{}
	var called int // the probe at probed
	read := func() (lost uint64) {
		t.Helper()
		lost, err := p.Read(func(h *ProbeHit) {
			if h.Probe == called && (h.PID != uint32(os.Getpid()) || h.PC != addr || len(h.Stack) == 0) {
				t.Errorf("a hit of process %d at 0x%x with %d bytes of stack, want 0x%x", h.PID, h.PC, len(h.Stack), addr)
			}
			hits[h.Probe] += h.Hits
		})
		if err != nil {
			t.Fatal(err)
		}
		return lost
	}
	if called, err = p.Add([]ProbeEvent{{Type: "uprobe", Path: self, Offset: offset, Entry: true}}); err != nil {
		t.Fatal(err)
	}
	const calls = 50
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	for n := range calls {
		probed(n)
	}
	if lost := read(); hits[called] != calls || lost > 0 {
		t.Errorf("%d calls are hits and %d are lost, want %d", hits[called], lost, calls)
	}
	for _, event := range []ProbeEvent{
		{Type: "software", Config: unix.PERF_COUNT_SW_CONTEXT_SWITCHES},
		{Type: "tracepoint", Group: "sched", Name: "sched_waking"},
	} {
		number, err := p.Add([]ProbeEvent{event})
		if err != nil {
			t.Fatalf("%+v: %v", event, err)
		}
		// A storm elsewhere on the host may fill the buffer. A program that ends wakes this one, and not from an idle
		// task: Linux 6.18 samples idle tasks on the first CPU only.
		testkit.Eventually(t, fmt.Sprintf("%+v is seen", event), func() bool {
			if err := program(t).Run(); err != nil {
				t.Fatal(err)
			}
			read()
			return hits[number] > 0
		})
		if err := p.Remove(number); err != nil {
			t.Fatal(err)
		}
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
		probes, err := h.Attach(program, []HeapFunction{{Name: "probed", Call: call, Offset: offset}}, 0)
		if err != nil {
			t.Fatalf("call %d: %v", call, err)
		}
		if err := probes.Close(); err != nil {
			t.Error(err)
		}
	}
}
