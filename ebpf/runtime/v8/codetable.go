package v8

import (
	"encoding/binary"

	"github.com/headwater/headwater/ebpf/runtime"
)

// ofMachineCode is the Base of functions whose Table is of machine code, and not of bytecode.
const ofMachineCode = 1

// outermost stands for the function that code was made of, among those that were inlined into it.
const outermost = -1

// Kinds of tables.
const (
	exact   = true  // each instruction is said where it belongs
	bycalls = false // each call is
)

// call is a call that was inlined.
type call struct {
	function int // that was called, by its number
	parent   int // the call that it was inlined into, outermost if there is none
	line     int // of the call
}

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
	kind := uint64(0)
	if exactly {
		kind = 1
	}
	t.b = binary.AppendUvarint(t.b, kind)
	t.b = binary.AppendUvarint(t.b, uint64(len(functions)))
	for _, f := range functions {
		for _, s := range []string{f.Name, f.File} {
			t.b = binary.AppendUvarint(t.b, uint64(len(s)))
			t.b = append(t.b, s...)
		}
		t.b = binary.AppendUvarint(t.b, uint64(f.StartLine))
	}
	t.b = binary.AppendUvarint(t.b, uint64(len(calls)))
	for _, c := range calls {
		t.b = binary.AppendUvarint(t.b, uint64(c.function))
		t.b = binary.AppendUvarint(t.b, uint64(c.parent+1))
		t.b = binary.AppendUvarint(t.b, uint64(c.line))
	}
	return t
}

// add notes that instructions from an offset on belong to an inlined call, and a line of that function.
func (t *codeTable) add(at, call, line int) {
	if t.line == line && t.call == call || at < t.at || len(t.b) > runtime.MaxTable {
		return
	}
	if t.line == absent {
		t.line = 0
	}
	t.b = binary.AppendUvarint(t.b, uint64(at-t.at))
	t.b = binary.AppendUvarint(t.b, uint64(call+1))
	t.b = binary.AppendVarint(t.b, int64(line-t.line))
	t.at, t.call, t.line = at, call, line
}

// bytes returns the table, nil if it has become too long.
func (t *codeTable) bytes() []byte {
	if len(t.b) > runtime.MaxTable {
		return nil
	}
	return t.b
}

// tableReader reads what codeTable wrote. After an error all is zero.
type tableReader struct {
	b   []byte
	bad bool
}

func (r *tableReader) number() int {
	v, n := binary.Uvarint(r.b)
	return r.skip(int64(v), n)
}

func (r *tableReader) signed() int {
	v, n := binary.Varint(r.b)
	return r.skip(v, n)
}

func (r *tableReader) skip(v int64, n int) int {
	if n <= 0 || r.bad {
		r.b, r.bad = nil, true
		return 0
	}
	r.b = r.b[n:]
	return int(v)
}

func (r *tableReader) text() string {
	n := r.number()
	if n < 0 || n > len(r.b) {
		r.bad, r.b = true, nil
		return ""
	}
	s := string(r.b[:n])
	r.b = r.b[n:]
	return s
}

// count is the number of functions, or of calls.
func (r *tableReader) count() int {
	n := r.number()
	if n < 0 || n > maxInlined {
		r.bad, r.b = true, nil
		return 0
	}
	return n
}

// around returns where instructions up to the one at ip belong to, and those behind it. It reads the rest of a table.
func (r *tableReader) around(ip uint64) (before, after place) {
	nowhere := place{call: outermost}
	before, after = nowhere, nowhere
	at, now := 0, place{}
	for len(r.b) > 0 && !r.bad {
		at += r.number()
		now = place{r.number() - 1, now.line + r.signed()}
		r.bad = r.bad || now.call < outermost
		if uint64(at) > ip {
			return before, now
		}
		before = now
	}
	return before, nowhere
}

// common returns where both of two places belong to, with the line if that is the same.
func common(calls []call, a, b place) place {
	for a.call != b.call { // a call has a higher number than those that it was inlined into
		if a.call > b.call {
			a = place{calls[a.call].parent, calls[a.call].line}
		} else {
			b = place{calls[b.call].parent, calls[b.call].line}
		}
	}
	if a.line != b.line {
		a.line = 0
	}
	return a
}

// place is where instructions belong to.
type place struct{ call, line int }

// Lines implements runtime.Compiling. V8 says for the calls in optimised code alone where they belong to. What is
// between two of them is taken to belong to where both do: what was inlined at one of them only, and the line if they
// are of different ones, are left out.
func (i *interpreter) Lines(f *runtime.Function, ip uint64, returned bool) []runtime.Line {
	own := runtime.Line{Function: f.Name, File: f.File, StartLine: f.StartLine}
	if f.Base != ofMachineCode {
		own.Line = i.Line(f, ip)
		return []runtime.Line{own}
	}
	r := &tableReader{b: f.Table}
	whole := r.number() == 1
	functions := make([]runtime.Line, r.count())
	for n := range functions {
		functions[n] = runtime.Line{Function: r.text(), File: r.text(), StartLine: r.number()}
	}
	calls := make([]call, r.count())
	for n := range calls {
		calls[n] = call{function: r.number(), parent: r.number() - 1, line: r.number()}
		r.bad = r.bad || calls[n].parent < outermost || calls[n].parent >= n || calls[n].function >= len(functions)
	}
	at, after := r.around(ip)
	if r.bad || at.call >= len(calls) || after.call >= len(calls) {
		return []runtime.Line{own}
	}
	if !returned && !whole {
		at = common(calls, at, after)
	}
	var lines []runtime.Line
	for at.call != outermost {
		c := calls[at.call]
		line := functions[c.function]
		line.Line = at.line
		lines = append(lines, line)
		at = place{c.parent, c.line}
	}
	own.Line = at.line
	return append(lines, own)
}
