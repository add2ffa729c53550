package jvm

import (
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/headwater/headwater/ebpf/common/clock"
	"github.com/headwater/headwater/ebpf/language"
	"github.com/headwater/headwater/ebpf/unwind"
)

// TestCodeCache: a piece of code has a number and a name while it exists, gets another number when its memory has
// another piece, and is forgotten when it is not requested.
func TestCodeCache(t *testing.T) {
	f := newFakeVM(t)
	instructions := assemble(t, "55\n48 83 ec 30\n90\n48 83 c4 30\n5d\nc3")
	at := f.block("nmethod", 8, 5, f.method("java/lang/Object", "<init>"), 1, instructions)
	l := &library{remembered: &Remembered{}}
	l.layout.Store(f.layout)
	code, err := l.Attach(language.Process{Bias: fakeBias, Memory: f})
	if err != nil {
		t.Fatal(err)
	}
	vaddr := at + 1 - language.Base(heapBase)
	page := vaddr >> pageShift
	if id := code.Identify(vaddr, clock.Monotonic()); id != unwind.UnknownCode {
		t.Errorf("before its page is built, the code is %d", id)
	}
	build := func() unwind.CodeID {
		t.Helper()
		if _, err := code.Page(page, pageShift); err != nil {
			t.Fatal(err)
		}
		return code.Identify(vaddr, clock.Monotonic())
	}
	first := build()
	if lines := code.Lines(first); first <= unwind.UnknownCode || len(lines) != 1 ||
		lines[0].Function != "java.lang.Object.<init>" {
		t.Errorf("code %d is %v", first, lines)
	}
	if again := code.Identify(vaddr, clock.Monotonic()); again != first {
		t.Errorf("the same code is %d, was %d", again, first)
	}
	if changed := code.Changed(code.Built()); len(changed) > 0 {
		t.Errorf("pages %d have changed", changed)
	}
	f.put32(at-64+48, 2) // compiled again, in the same place
	before := clock.Monotonic()
	if changed := code.Changed(code.Built()); !slices.Equal(changed, []uint64{page}) || len(code.Built()) > 0 {
		t.Errorf("pages %d have changed, %d are left; want %d, and none", changed, code.Built(), page)
	}
	if then, now := code.Identify(vaddr, before), code.Identify(vaddr, clock.Monotonic()); then != first ||
		now != unwind.UnknownCode {
		t.Errorf("the code that has gone is %d, was %d; later there is %d", then, first, now)
	}
	if second := build(); second == first || code.Lines(second) == nil {
		t.Errorf("the other code in its place is %d, was %d", second, first)
	}
	code.Trim(time.Now())
	if code.Lines(first) == nil {
		t.Error("the name is forgotten at once")
	}
	if code.Trim(time.Now()); code.Lines(first) != nil {
		t.Error("the name is never forgotten")
	}
	if code.Forget(code.Built()); len(code.Built()) > 0 || code.Identify(vaddr, clock.Monotonic()) != unwind.UnknownCode {
		t.Error("pages are not forgotten")
	}
}

// TestErrors: Attach returns the errors of the contract.
func TestErrors(t *testing.T) {
	if !errors.Is(ErrNotReady, language.ErrNotReady) || !errors.Is(ErrNotHotSpot, language.ErrUnknown) {
		t.Error("errors are not those of package runtime")
	}
	if _, err := (&library{err: ErrNotHotSpot}).Attach(language.Process{}); !errors.Is(err, language.ErrUnknown) {
		t.Errorf("a library that does not describe itself: %v", err)
	}
}
