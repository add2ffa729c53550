package jvm

import (
	"slices"
	"testing"
	"time"

	"github.com/headwater/headwater/ebpf/common/clock"
	"github.com/headwater/headwater/ebpf/language"
	"github.com/headwater/headwater/ebpf/unwind"
)

// inline adds debug information to a piece of code: up to offset 5 the outer method at bytecode 5; up to 9 the inner
// method at bytecode 8, called from bytecode 0; unknown after that.
func (f *fakeVM) inline(code, outer, inner uint64) {
	blob := code - 64
	methods := f.place(make([]byte, 16)...)
	f.put64(methods, outer)
	f.put64(methods+8, inner)
	scopes := f.place(0, // offset 0 means no scope
		0, 1, 6, // 1: no caller, the first method, its bytecode 5
		0, 1, 1, // 4
		4, 2, 9) // 7
	places := f.place(make([]byte, 32)...)
	for i, p := range [][2]uint64{{1<<32 - 1, 0}, {5, 1}, {9, 7}, {1<<31 - 1, 0}} {
		f.put32(places+8*uint64(i), p[0])
		f.put32(places+8*uint64(i)+4, p[1])
	}
	f.put64(blob+56, scopes)
	f.put32(blob, methods-blob)
	f.put32(blob+36, places-blob)
	f.put32(blob+52, places+32-blob)
}

// TestInlined reads the methods at places of a piece of code, and finds none after the code is gone.
func TestInlined(t *testing.T) {
	f := newFakeVM(t)
	outer, inner := f.method("a/B", "c"), f.method("d/E", "f")
	at := f.block("nmethod", 8, 2, outer, 1, make([]byte, 16))
	f.inline(at, outer, inner)
	vm, err := Open(f.layout, fakeBias, f)
	if err != nil {
		t.Fatal(err)
	}
	code := newCodeCache(vm, &Remembered{})
	if _, err := code.Page((at-code.base)>>pageShift, pageShift); err != nil {
		t.Fatal(err)
	}
	line := func(function string, line int) language.Line {
		return language.Line{Function: function, File: "File.java", StartLine: 7, Line: line}
	}
	identify := func(place uint64) unwind.CodeID { return code.Identify(at+place-code.base, clock.Monotonic()) }
	for place, want := range map[uint64][]language.Line{
		0:  {line("a.B.c", 7)}, // the frame is not complete yet
		2:  {line("a.B.c", 9)},
		4:  {line("a.B.c", 9)},
		5:  {line("d.E.f", 4), line("a.B.c", 7)},
		8:  {line("d.E.f", 4), line("a.B.c", 7)},
		9:  {line("d.E.f", 4), line("a.B.c", 7)}, // the last place
		10: {line("a.B.c", 0)},
	} {
		if lines := code.Lines(identify(place)); !slices.Equal(lines, want) {
			t.Errorf("at %d is %v, want %v", place, lines, want)
		}
	}
	if identify(6) != identify(8) || identify(4) == identify(6) {
		t.Error("places of one scope have several numbers, or those of several have one")
	}
	inlined := identify(6)
	f.put32(at-64+48, 2) // compiled again, in the same place
	if lines := code.Lines(inlined); len(lines) != 2 {
		t.Errorf("code that has gone is %v", lines)
	}
	if lines := code.Lines(identify(3)); !slices.Equal(lines, []language.Line{line("a.B.c", 9)}) {
		t.Errorf("a scope that was read is %v when the code has gone", lines)
	}
	code.Trim(time.Time{})
	code.Trim(time.Time{})
	if lines := code.Lines(identify(6)); !slices.Equal(lines, []language.Line{{Function: "a.B.c"}}) {
		t.Errorf("what was not read before the code had gone is %v", lines)
	}
}

// TestRemembered: the remembered data of the code of all VMs is bounded, and is freed.
func TestRemembered(t *testing.T) {
	f := newFakeVM(t)
	outer, inner := f.method("a/B", "c"), f.method("d/E", "f")
	at := f.block("nmethod", 8, 2, outer, 1, make([]byte, 16))
	f.inline(at, outer, inner)
	vm, err := Open(f.layout, fakeBias, f)
	if err != nil {
		t.Fatal(err)
	}
	all := &Remembered{}
	lines := func(all *Remembered, room int64) (*codeCache, int) {
		all.bytes.Add(MaxRemembered - room)
		defer all.bytes.Add(room - MaxRemembered)
		code := newCodeCache(vm, all)
		if _, err := code.Page((at-code.base)>>pageShift, pageShift); err != nil {
			t.Fatal(err)
		}
		return code, len(code.Lines(code.Identify(at+6-code.base, clock.Monotonic())))
	}
	if _, n := lines(all, placeBytes-1); n != 1 || all.bytes.Load() != 0 {
		t.Errorf("%d lines where others have taken all room, %d bytes", n, all.bytes.Load())
	}
	code, n := lines(all, MaxRemembered)
	if n != 2 || all.bytes.Load() < placeBytes {
		t.Errorf("%d lines, %d bytes", n, all.bytes.Load())
	}
	had := all.bytes.Load()
	for range 9 { // it is identified again and again
		code.Trim(time.Time{})
		if n := len(code.Lines(code.Identify(at+6-code.base, clock.Monotonic()))); n != 2 || all.bytes.Load() > 4*had {
			t.Errorf("%d lines, %d bytes after %d", n, all.bytes.Load(), had)
		}
	}
	code.Close()
	if code.Identify(at+6-code.base, clock.Monotonic()); all.bytes.Load() != 0 {
		t.Errorf("%d bytes are left", all.bytes.Load())
	}
}

// TestLineTable checks lines against Method::line_number_from_bci.
func TestLineTable(t *testing.T) {
	// 5 at 0, 6 at 4; in long form 10 more bytes and 3 lines back: 3 at 14; 6 at 16
	table := []byte{0<<3 | 5, 4<<3 | 1, 0xff, 20, 5, 2<<3 | 3, 0, 1<<3 | 7}
	for bci, want := range map[int]int{0: 5, 3: 5, 4: 6, 13: 6, 14: 3, 15: 3, 16: 6, 1000: 6} {
		if start, line := (&Layout{}).lineAt(table, bci); start != 5 || line != want {
			t.Errorf("bytecode %d is in line %d of a method that begins in %d, want %d", bci, line, start, want)
		}
	}
	if start, line := (&Layout{}).lineAt(table, nowhere); start != 5 || line != 0 {
		t.Errorf("no bytecode is in line %d, the method begins in %d", line, start)
	}
}

// TestUnsigned5 has the numbers of HotSpot's own tests.
func TestUnsigned5(t *testing.T) {
	for _, test := range []struct {
		excluded byte
		b        []byte
		want     uint32
		size     int
	}{
		{0, []byte{0}, 0, 1}, {0, []byte{191}, 191, 1}, {0, []byte{192, 0}, 192, 2}, {0, []byte{192, 1}, 256, 2},
		{0, []byte{255, 255, 255, 255, 255}, 51130559, 5},
		{1, []byte{1}, 0, 1}, {1, []byte{191}, 190, 1}, {1, []byte{192, 1}, 191, 2}, {1, []byte{193, 1}, 192, 2},
		{1, []byte{0}, 0, 0}, {1, []byte{200, 0}, 0, 0}, {0, nil, 0, 0}, {0, []byte{200}, 0, 0},
	} {
		l := &Layout{excluded: test.excluded}
		if v, size := l.unsigned5(test.b); v != test.want || size != test.size {
			t.Errorf("%v without %d: %d of %d bytes, want %d of %d", test.b, test.excluded, v, size, test.want, test.size)
		}
	}
}
