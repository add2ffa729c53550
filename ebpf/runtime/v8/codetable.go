package v8

import (
	"encoding/binary"
	"sort"

	"github.com/headwater/headwater/ebpf/runtime"
)

// ofMachineCode is the Base of functions whose Table is of machine code, and not of bytecode.
const ofMachineCode = 1

// outermost stands for the function that code was made of, among those that were inlined into it.
const outermost = -1

// Kinds of tables.
const (
	exact   = true  // each instruction is said where it belongs, as in node
	bycalls = false // each call is
)

// maxShown bounds the calls inlined into each other that a place shows.
const maxShown = 128

// call is a call that was inlined.
type call struct {
	function int // that was called, by its number
	parent   int // the call that it was inlined into, outermost if there is none
	line     int // of the call
}

// A table has a head, then the functions that were inlined, the calls of them, texts, and the places where instructions
// begin to belong to something else. All but the texts is of fixed size, so that a place is found in a few steps: a
// process may be at ever new places of its code.
const (
	tableHead     = 16 // kind, number of functions, of calls, bytes of texts
	functionBytes = 16 // where its texts begin, bytes of its name, of its file, the line where it begins
	callEntry     = 12 // a call
	placeBytes    = 8  // where it begins, the call plus 1, the line: placeBits and callBits bits and the rest
	placeBits     = 20
	callBits      = 12
	lineBits      = 64 - placeBits - callBits
)

// codeTable says which functions and lines instructions belong to.
type codeTable struct {
	b    []byte
	at   int // of the last entry, as are
	call int
	line int
}

// newCodeTable begins a table with the functions that were inlined, and the calls of them.
func newCodeTable(exactly bool, functions []runtime.Function, calls []call) *codeTable {
	t := &codeTable{line: absent}
	kind := 0
	if exactly {
		kind = 1
	}
	var texts []byte
	t.numbers(kind, len(functions), len(calls), 0)
	for _, f := range functions {
		t.numbers(len(texts), len(f.Name), len(f.File), f.StartLine)
		texts = append(append(texts, f.Name...), f.File...)
	}
	for _, c := range calls {
		t.numbers(c.function, c.parent+1, c.line)
	}
	binary.LittleEndian.PutUint32(t.b[tableHead-4:], uint32(len(texts)))
	t.b = append(t.b, texts...)
	return t
}

func (t *codeTable) numbers(all ...int) {
	for _, n := range all {
		t.b = binary.LittleEndian.AppendUint32(t.b, uint32(n))
	}
}

// add notes that instructions from an offset on belong to an inlined call, and a line of that function. It reports
// false if the table is full.
func (t *codeTable) add(at, call, line int) bool {
	if len(t.b) > runtime.MaxTable {
		return false
	}
	if t.line == line && t.call == call || at < t.at || at >= 1<<placeBits {
		return true
	}
	place := uint64(at)<<(64-placeBits) | uint64(call+1)<<lineBits | uint64(uint32(line))
	t.b = binary.LittleEndian.AppendUint64(t.b, place)
	t.at, t.call, t.line = at, call, line
	return true
}

// bytes returns the table, nil if it has become too long.
func (t *codeTable) bytes() []byte {
	if len(t.b) > runtime.MaxTable {
		return nil
	}
	return t.b
}

// tableReader is a table that codeTable wrote.
type tableReader struct {
	exactly                         bool
	functions, calls, texts, places []byte
}

// openTable finds the parts of a table. It reports false if there is none.
func openTable(b []byte) (t tableReader, ok bool) {
	if len(b) < tableHead {
		return t, false
	}
	var sizes [3]int
	for i, one := range []int{functionBytes, callEntry, 1} {
		sizes[i] = one * int(min(number(b, 1+i), runtime.MaxTable))
	}
	t.exactly = number(b, 0) == 1
	b = b[tableHead:]
	for i, part := range []*[]byte{&t.functions, &t.calls, &t.texts} {
		if sizes[i] > len(b) {
			return tableReader{}, false
		}
		*part, b = b[:sizes[i]], b[sizes[i]:]
	}
	t.places = b[:len(b)/placeBytes*placeBytes]
	return t, true
}

// number returns the number at an index.
func number(b []byte, i int) uint32 { return binary.LittleEndian.Uint32(b[4*i:]) }

// function returns a function that was inlined, and whether there is one of that number.
func (t *tableReader) function(n int) (l runtime.Line, ok bool) {
	if n < 0 || n >= len(t.functions)/functionBytes {
		return l, false
	}
	b := t.functions[n*functionBytes:]
	at, name, file := uint64(number(b, 0)), uint64(number(b, 1)), uint64(number(b, 2))
	if at+name+file > uint64(len(t.texts)) {
		return l, false
	}
	texts := string(t.texts[at : at+name+file])
	return runtime.Line{Function: texts[:name], File: texts[name:], StartLine: int(int32(number(b, 3)))}, true
}

// call returns a call, and whether there is one of that number. Its parent has a lower one.
func (t *tableReader) call(n int) (c call, ok bool) {
	if n < 0 || n >= len(t.calls)/callEntry {
		return c, false
	}
	b := t.calls[n*callEntry:]
	c = call{function: int(number(b, 0)), parent: int(number(b, 1)) - 1, line: int(int32(number(b, 2)))}
	return c, c.parent < n
}

// around returns where instructions up to the one at ip belong to, and those behind it.
func (t *tableReader) around(ip uint64) (before, after place) {
	n := len(t.places) / placeBytes
	entry := func(i int) uint64 { return binary.LittleEndian.Uint64(t.places[i*placeBytes:]) }
	next := sort.Search(n, func(i int) bool { return entry(i)>>(64-placeBits) > ip })
	at := func(i int) place {
		if i < 0 || i >= n {
			return place{call: outermost}
		}
		e := entry(i)
		return place{int(e>>lineBits&(1<<callBits-1)) - 1, int(int32(e))}
	}
	return at(next - 1), at(next)
}

// common returns where both of two places belong to, with the line if that is the same.
func (t *tableReader) common(a, b place) (p place, ok bool) {
	for a.call != b.call { // a call has a higher number than those that it was inlined into
		higher := &a
		if b.call > a.call {
			higher = &b
		}
		c, ok := t.call(higher.call)
		if !ok {
			return p, false
		}
		*higher = place{c.parent, c.line}
	}
	if a.line != b.line {
		a.line = 0
	}
	return a, true
}

// place is where instructions belong to.
type place struct{ call, line int }

// Lines implements runtime.Compiling. Programs other than node may have V8 say for calls in optimized code alone where
// they belong to. What is between two of them is taken to belong to where both do: what was inlined at one of them, and
// the line if they are of different ones, are left out.
func (i *interpreter) Lines(f *runtime.Function, ip uint64, returned bool) []runtime.Line {
	own := runtime.Line{Function: f.Name, File: f.File, StartLine: f.StartLine}
	if f.Base != ofMachineCode {
		own.Line = i.Line(f, ip)
		return []runtime.Line{own}
	}
	t, ok := openTable(f.Table)
	if !ok || ip == runtime.NoIP {
		return []runtime.Line{own}
	}
	at, after := t.around(ip)
	if !returned && !t.exactly {
		if at, ok = t.common(at, after); !ok {
			return []runtime.Line{own}
		}
	}
	var lines []runtime.Line
	for at.call != outermost {
		c, ok := t.call(at.call)
		line, also := t.function(c.function)
		if !ok || !also {
			return []runtime.Line{own}
		}
		if line.Line = at.line; len(lines) < maxShown {
			lines = append(lines, line)
		}
		at = place{c.parent, c.line}
	}
	own.Line = at.line
	return append(lines, own)
}
