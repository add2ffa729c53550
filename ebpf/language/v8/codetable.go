package v8

import (
	"encoding/binary"
	"sort"

	"github.com/headwater/headwater/ebpf/language"
)

// ofMachineCode is the Base of functions whose Table describes machine code, not bytecode.
const ofMachineCode = 1

// outermost stands for the function that the code was compiled from, as opposed to inlined calls.
const outermost = -1

// Kinds of tables.
const (
	exact   = true  // has the position of each instruction, as in node
	bycalls = false // has the positions of calls only
)

// maxShown bounds the nested inlined calls that are shown for a place.
const maxShown = 128

// call is an inlined call.
type call struct {
	function int // number of the called function
	parent   int // the call that it was inlined into, or outermost
	line     int // of the call
}

// A table has a head, the inlined functions, their calls, texts, and the places at which the call or line of the
// instructions changes. All parts but the texts have entries of fixed size, so that a place is found in a few steps: a
// process may keep producing new places of its code.
const (
	tableHead     = 16 // kind, number of functions, number of calls, bytes of texts
	functionBytes = 16 // offset of its texts, bytes of its name, of its file, its first line
	callEntry     = 12 // a call
	placeBytes    = 8  // start offset (placeBits), call plus 1 (callBits), line (the remaining bits)
	placeBits     = 20
	callBits      = 12
	lineBits      = 64 - placeBits - callBits
)

// codeTable maps instructions to functions and lines.
type codeTable struct {
	b    []byte
	at   int // at, call and line are of the last entry
	call int
	line int
}

// newCodeTable starts a table with the inlined functions and their calls.
func newCodeTable(exactly bool, functions []language.Function, calls []call) *codeTable {
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

// addCall records that instructions from an offset on belong to an inlined call, at a line of the called function. It
// returns false if the table is full.
func (t *codeTable) addCall(at, call, line int) bool {
	if len(t.b) > language.MaxTable {
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

// bytes returns the table, or nil if it is too long.
func (t *codeTable) bytes() []byte {
	if len(t.b) > language.MaxTable {
		return nil
	}
	return t.b
}

// tableReader reads a table that codeTable wrote.
type tableReader struct {
	exactly                         bool
	functions, calls, texts, places []byte
}

// openTable finds the parts of a table. It returns false if there is no table.
func openTable(b []byte) (t tableReader, ok bool) {
	if len(b) < tableHead {
		return t, false
	}
	var sizes [3]int
	for i, one := range []int{functionBytes, callEntry, 1} {
		sizes[i] = one * int(min(number(b, 1+i), language.MaxTable))
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

// function returns the inlined function with a number, and whether there is one.
func (t *tableReader) function(n int) (l language.Line, ok bool) {
	if n < 0 || n >= len(t.functions)/functionBytes {
		return l, false
	}
	b := t.functions[n*functionBytes:]
	at, name, file := uint64(number(b, 0)), uint64(number(b, 1)), uint64(number(b, 2))
	if at+name+file > uint64(len(t.texts)) {
		return l, false
	}
	texts := string(t.texts[at : at+name+file])
	return language.Line{Function: texts[:name], File: texts[name:], StartLine: int(int32(number(b, 3)))}, true
}

// callNumber returns the call with a number, and whether there is one. Its parent has a lower number.
func (t *tableReader) callNumber(n int) (c call, ok bool) {
	if n < 0 || n >= len(t.calls)/callEntry {
		return c, false
	}
	b := t.calls[n*callEntry:]
	c = call{function: int(number(b, 0)), parent: int(number(b, 1)) - 1, line: int(int32(number(b, 2)))}
	return c, c.parent < n
}

// around returns the place that contains the instruction at ip, and the next place after it.
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

// common returns the innermost place that contains both places, with a line only if they have the same line.
func (t *tableReader) common(a, b place) (p place, ok bool) {
	for a.call != b.call { // a call has a higher number than the calls that it was inlined into
		higher := &a
		if b.call > a.call {
			higher = &b
		}
		c, ok := t.callNumber(higher.call)
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

// place is the inlined call and the line that instructions belong to.
type place struct{ call, line int }

// Lines implements language.FrameReader. In programs other than node, V8 may record positions in optimized code only
// for calls. An instruction between two calls is then attributed to the innermost place that contains both: functions
// that were inlined at only one of the calls are left out, and so is the line if the lines differ.
func (i *interpreter) Lines(f *language.Function, ip uint64, returned bool) []language.Line {
	if f.Base != ofMachineCode {
		return f.LineIn(ip)
	}
	own := language.Line{Function: f.Name, File: f.File, StartLine: f.StartLine}
	t, ok := openTable(f.Table)
	if !ok || ip == language.NoIP {
		return []language.Line{own}
	}
	at, after := t.around(ip)
	if !returned && !t.exactly {
		if at, ok = t.common(at, after); !ok {
			return []language.Line{own}
		}
	}
	var lines []language.Line
	for at.call != outermost {
		c, ok := t.callNumber(at.call)
		line, also := t.function(c.function)
		if !ok || !also {
			return []language.Line{own}
		}
		if line.Line = at.line; len(lines) < maxShown {
			lines = append(lines, line)
		}
		at = place{c.parent, c.line}
	}
	own.Line = at.line
	return append(lines, own)
}
