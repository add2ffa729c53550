package profile

import (
	"testing"

	"github.com/headwater/headwater/ebpf/host/filework"
	"github.com/headwater/headwater/ebpf/host/procfs"
	"github.com/headwater/headwater/ebpf/kernel"
	"github.com/headwater/headwater/ebpf/symbol/jit"
	"github.com/headwater/headwater/ebpf/unwind"
)

// TestPlaces checks that a process with ever new places has no more locations than the bound, and that other processes
// keep their locations.
func TestPlaces(t *testing.T) {
	n := newNamer(&names{executables: noExecutables{}, jit: jit.New(procfs.Default, &filework.Pool{}, 1<<20)})
	at := func(pid uint32, f kernel.Frame) { n.location(f, pid, &Options{}) }
	want := func(least, most int) {
		t.Helper()
		if got := len(n.locations); got < least || got > most {
			t.Errorf("%d locations, want %d to %d", got, least, most)
		}
	}
	for i := range uint64(MaxPlaces + 1000) {
		at(1, kernel.Frame{Vaddr: i + 1, Flags: kernel.ReturnAddress})
	}
	want(MaxPlaces, MaxPlaces+1)
	at(2, kernel.Frame{Vaddr: 7})
	want(MaxPlaces+1, MaxPlaces+2)
	for i := range uint64(maxPlacedLines + MaxPlaces) {
		code := unwind.CodeID(i/MaxPlaces + 1)
		at(3, kernel.Frame{Vaddr: i, Exe: 1, Code: code, Flags: kernel.Interpreted})
	}
	want(maxPlacedLines, maxPlacedLines+2*maxPlacedLines/MaxPlaces)
}
