package v8

import (
	"encoding/binary"
	"fmt"

	"github.com/headwater/headwater/ebpf/language"
)

// Limits on the inlined calls of code.
const (
	maxInlined = 512
	callBytes  = 16 // of each call: position, index of the function in the literals, padding
)

// optimisedTable returns the lines of code that an optimising compiler made from a function and the calls inlined into
// it.
func (m *reader) optimisedTable(c code, f *function, address uint64) []byte {
	shared := m.element(c.from, m.l.DeoptShared)
	if m.err == nil && m.typeOf(m.object(shared, 8)) != m.l.TypeShared { // it may be wrapped in another object
		shared = m.object(shared, 16).wordAt(8)
	}
	if uint64(shared)&pointerMask != address&pointerMask {
		m.failWith(fmt.Errorf("code of another function: %w", errImplausible))
	}
	inlined := m.bytes(m.element(c.from, m.l.DeoptInlining), maxInlined*callBytes)
	literals := m.element(c.from, m.l.DeoptLiterals)
	table := m.bytes(c.positions, maxTable)
	if m.err != nil {
		return nil
	}
	scripts := []*function{} // called functions, by call
	names, numbers := []language.Function{}, map[tagged]int{}
	read := map[tagged]*function{}
	calls := []call{}
	for ; len(inlined) >= callBytes; inlined = inlined[callBytes:] {
		at := sourcePosition(binary.LittleEndian.Uint64(inlined))
		v := m.element(literals, int(int32(binary.LittleEndian.Uint32(inlined[8:])))) &^ weak
		if m.err != nil || at.inlined >= len(calls) {
			return nil
		}
		callee := read[v]
		if callee == nil {
			if callee = m.function(v); m.err != nil {
				return nil
			}
			name := language.Function{Name: callee.name}
			if callee.script != nil {
				name.File, name.StartLine = callee.script.file, callee.script.lineOf(callee.start)
			}
			read[v], numbers[v], names = callee, len(names), append(names, name)
		}
		caller := f
		if at.inlined != outermost {
			caller = scripts[at.inlined]
		}
		calls = append(calls, call{function: numbers[v], parent: at.inlined, line: caller.script.lineOf(at.source)})
		scripts = append(scripts, callee)
	}
	t := newCodeTable(m.detailed(c, table), names, calls)
	m.l.positions(table, func(p position) bool {
		switch {
		case p.inlined == outermost:
			return t.addCall(p.at, outermost, f.script.lineOf(p.source))
		case p.inlined < len(calls):
			return t.addCall(p.at, p.inlined, scripts[p.inlined].script.lineOf(p.source))
		}
		return true
	})
	return t.bytes()
}

// weak is the tag of pointers that do not keep an object alive.
const weak = 2

// element returns an element of an array.
func (m *reader) element(array tagged, n int) tagged {
	const data = 16
	length, ok := m.object(array, data).wordAt(m.l.ArrayLength).smi()
	if m.err == nil && (!ok || n < 0 || n >= length) {
		m.failWith(fmt.Errorf("element %d of %d: %w", n, length, errImplausible))
		return 0
	}
	var b [8]byte
	m.readBytes(uint64(array)&^tagMask+data+uint64(8*n), b[:])
	return body(b[:]).wordAt(0)
}
