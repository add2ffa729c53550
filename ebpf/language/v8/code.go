package v8

import (
	"encoding/binary"
	"fmt"

	"github.com/headwater/headwater/ebpf/language"
)

// Limits on the search for the code that contains an instruction.
const (
	codeAlignment = 64        // alignment of the first instruction
	maxCode       = 256 << 10 // bytes from the first instruction to the searched one
	maxMistaken   = 16        // false heads that are skipped
	codePage      = 4 << 10   // bytes of one read
)

// code is machine code that V8 compiled from a function.
type code struct {
	low, high uint64 // address range of its instructions
	from      tagged // source of the code: bytecode, or the deoptimisation data
	positions tagged // a byte array with the source positions of its parts
	stamp     uint64 // hash of its head
}

// codeAt returns the code that contains an instruction. V8 keeps no table of its code: codeAt searches the memory below
// the instruction for the head.
func (m *reader) codeAt(pc uint64) (c code) {
	page := make([]byte, codePage)
	mistaken := 0
	for at := pc &^ (codePage - 1); pc-at < maxCode && m.err == nil; at -= codePage {
		m.readBytes(at, page)
		// The last head in the page whose instructions start at pc or below.
		low := min(pc, at+codePage-8+uint64(m.l.StreamStart)) &^ (codeAlignment - 1)
		for ; m.err == nil && low >= at+uint64(m.l.StreamStart); low -= codeAlignment {
			head := body(page).wordAt(int(low-at) - m.l.StreamStart)
			if !head.object() || !m.isMapOf(head, m.l.TypeStream) {
				continue
			}
			if c = m.code(low); m.err == nil && pc < c.high {
				return c
			}
			if mistaken++; mistaken == maxMistaken {
				m.failWith(fmt.Errorf("code at 0x%x: %w", pc, errImplausible))
			}
			m.err = nil
		}
	}
	m.failWith(fmt.Errorf("no code at 0x%x: %w", pc, errImplausible))
	return code{}
}

// isMapOf reports whether a word is the map of objects of a type.
func (m *reader) isMapOf(v tagged, typ int) bool {
	if got, ok := m.types[uint64(v)]; ok {
		return got == typ
	}
	failed := m.err
	head := binary.LittleEndian.AppendUint64(nil, uint64(v))
	got := m.typeOf(head)
	if m.err != nil && failed == nil {
		m.err = nil
		m.types[uint64(v)] = absent
	}
	return got == typ
}

// code reads the code whose instructions start at low.
func (m *reader) code(low uint64) (c code) {
	stream := tagged((low - uint64(m.l.StreamStart)) | strong)
	head := m.typed(stream, 16, m.l.TypeStream)
	b, size := head, m.l.describedBytes()
	if m.l.StreamCode == absent {
		b = m.object(stream, size)
	} else {
		b = m.typed(head.wordAt(m.l.StreamCode), size, m.l.TypeCode)
	}
	if m.err == nil && m.l.CodeStart != absent && uint64(b.wordAt(m.l.CodeStart)) != low {
		m.failWith(fmt.Errorf("code at 0x%x begins elsewhere: %w", low, errImplausible))
	}
	length := b.u32(m.l.CodeSize)
	c = code{low: low, high: low + uint64(length), from: b.wordAt(m.l.CodeDeopt), positions: b.wordAt(m.l.CodePositions)}
	if m.err == nil && length > maxCode {
		m.failWith(fmt.Errorf("code of %d bytes: %w", length, errImplausible))
	}
	c.stamp = m.l.stamp(head, b)
	return c
}

// stamp hashes words of a head and of the object that describes the code. The first words of both identify their types.
func (l *Layout) stamp(head, described body) uint64 {
	return language.Fold([]uint64{
		uint64(head.wordAt(0)), uint64(head.wordAt(8)), uint64(described.wordAt(0)), uint64(described.u32(l.CodeSize)),
		uint64(described.wordAt(l.CodeDeopt)), uint64(described.wordAt(l.CodePositions)),
	})
}

// maxCodeBudget is the number of bytes that may be read for one piece of code, without the texts of scripts.
const maxCodeBudget = 2 << 20

// MachineCode implements language.Compiler.
func (i *interpreter) MachineCode(memory language.Memory, pc, function uint64) (language.MachineCode, error) {
	m := newReader(&i.layout, memory, i.lines)
	m.budget = maxCodeBudget
	c := m.codeAt(pc)
	f := m.function(tagged(function | strong))
	if m.err != nil {
		return language.MachineCode{}, m.err
	}
	out := language.Function{Name: f.name, Whole: true, Base: ofMachineCode}
	if f.script != nil {
		out.File, out.StartLine = f.script.file, f.script.lineOf(f.start)
	}
	switch bytecode := m.bytecodeOf(c.from); {
	case m.err != nil:
	case bytecode == 0:
		out.Table = m.optimisedTable(c, f, function)
	case bytecode != f.bytecode:
		m.failWith(fmt.Errorf("code of another function: %w", errImplausible))
	}
	if m.err != nil {
		return language.MachineCode{}, m.err
	}
	return language.MachineCode{Low: c.low, High: c.high, Stamp: c.stamp, Function: out}, nil
}

// Stamp implements language.Compiler. It takes two reads: if the words are unchanged, so are the objects that they
// point to.
func (i *interpreter) Stamp(memory language.Memory, low uint64) uint64 {
	m := newReader(&i.layout, memory, i.lines)
	stream := tagged((low - uint64(m.l.StreamStart)) | strong)
	head := m.object(stream, 16)
	described := stream
	if m.l.StreamCode != absent {
		described = head.wordAt(m.l.StreamCode)
	}
	b := m.object(described, m.l.describedBytes())
	if m.err != nil {
		return 0
	}
	return m.l.stamp(head, b)
}

// describedBytes is the number of bytes that are read of an object that describes code.
func (l *Layout) describedBytes() int {
	return max(l.CodeDeopt, l.CodePositions, l.CodeStart, l.CodeSize) + 8
}
