package jvm

import (
	"errors"
	"slices"
	"testing"

	"github.com/headwater/headwater/ebpf/common/clock"
	"github.com/headwater/headwater/ebpf/language"
	"github.com/headwater/headwater/ebpf/unwind"
)

// busyMemory is memory that cannot be read at times.
type busyMemory struct {
	language.Memory
	reads int // number of reads until failure; negative if all succeed
}

func (m *busyMemory) refuse() bool {
	if m.reads > 0 {
		m.reads--
		return false
	}
	return m.reads == 0
}

func (m *busyMemory) ReadAt(b []byte, addr int64) (int, error) {
	if m.refuse() {
		return 0, language.ErrBusy
	}
	return m.Memory.ReadAt(b, addr)
}

func (m *busyMemory) ReadEach(addrs []uint64, size int, b []byte) (int, error) {
	if m.refuse() {
		return 0, language.ErrBusy
	}
	return m.Memory.ReadEach(addrs, size, b)
}

const allReads = -1

// newBusyCode returns the code of a VM that has one method, and the method's address.
func newBusyCode(t *testing.T) (*codeCache, *busyMemory, *fakeVM, uint64) {
	t.Helper()
	f := newFakeVM(t)
	instructions := assemble(t, "55\n48 83 ec 30\n90\n48 83 c4 30\n5d\nc3")
	f.free += chunkSize // so that names are not in the same chunk as the heap's segments
	at := f.block("nmethod", 8, 5, f.method("java/lang/Object", "<init>"), 1, instructions)
	m := &busyMemory{Memory: f, reads: allReads}
	l := &library{remembered: &Remembered{}}
	l.layout.Store(f.layout)
	code, err := l.Attach(language.Process{Bias: fakeBias, Memory: m})
	if err != nil {
		t.Fatal(err)
	}
	return code.(*codeCache), m, f, at
}

// TestBusyMemory: pages and names stay while the memory of a process is unreadable for a moment, but not for long.
func TestBusyMemory(t *testing.T) {
	code, m, f, at := newBusyCode(t)
	vaddr := at + 1 - code.base
	page := vaddr >> pageShift
	if _, err := code.Page(page, pageShift); err != nil {
		t.Fatal(err)
	}
	first := code.Identify(vaddr, clock.Monotonic())
	m.reads = 0
	f.put32(at-64+48, 2) // compiled again, in the same place; undetectable now
	if changed := code.Changed(code.Built()); len(changed) > 0 || code.Identify(vaddr, clock.Monotonic()) != first {
		t.Errorf("pages %d are dropped because they cannot be compared", changed)
	}
	code.busy = code.busy.Add(-maxBelieved)
	if changed := code.Changed(code.Built()); !slices.Equal(changed, []uint64{page}) ||
		code.Identify(vaddr, clock.Monotonic()) != unwind.UnknownCode {
		t.Errorf("pages %d are dropped at last, want %d", changed, page)
	}
	m.reads = allReads
	if code.Changed(nil); !code.busy.IsZero() {
		t.Error("the memory counts as busy, though it can be read")
	}
}

// TestPageOfBusyMemory: whichever read fails because memory is busy, no page lacks the unread parts, and the page is
// complete in the end.
func TestPageOfBusyMemory(t *testing.T) {
	want, m, _, at := newBusyCode(t)
	vaddr := at + 1 - want.base
	page := vaddr >> pageShift
	built, err := want.Page(page, pageShift)
	if err != nil {
		t.Fatal(err)
	}
	function := want.Lines(want.Identify(vaddr, clock.Monotonic()))[0].Function
	for reads := 0; ; reads++ {
		var code *codeCache
		code, m, _, _ = newBusyCode(t)
		m.reads = reads
		p, err := code.Page(page, pageShift)
		m.reads = allReads
		if err == nil {
			if !slices.Equal(p.Rows, built.Rows) || code.Lines(code.Identify(vaddr, clock.Monotonic()))[0].Function != function {
				t.Errorf("after %d reads the page is %+v, want %+v", reads, p, built)
			}
			if reads == 0 {
				t.Error("a page takes no reads")
			}
			return
		}
		if !errors.Is(err, language.ErrBusy) {
			t.Fatalf("after %d reads: %v", reads, err)
		}
	}
}

// TestNameOfBusyMemory: a place that was identified while memory was busy gets its lines when memory is readable.
func TestNameOfBusyMemory(t *testing.T) {
	code, m, _, at := newBusyCode(t)
	vaddr := at + 1 - code.base
	if _, err := code.Page(vaddr>>pageShift, pageShift); err != nil {
		t.Fatal(err)
	}
	code.vm.layout.debug.known = true
	m.reads = 0
	busy := code.Identify(vaddr, clock.Monotonic())
	if lines := code.Lines(busy); len(lines) != 1 || lines[0].Function != "java.lang.Object.<init>" {
		t.Errorf("while memory is busy: %v", lines)
	}
	if again := code.Identify(vaddr, clock.Monotonic()); again != busy {
		t.Errorf("the same place is %d, was %d", again, busy)
	}
	m.reads = allReads
	code.Identify(vaddr, clock.Monotonic())
	piece := code.pages[vaddr>>code.shift].Find(at + 1)
	if _, noted := code.places(piece).numbers[at+1]; !noted {
		t.Error("the place is not read again")
	}
}
