// Package v8 finds and names the JavaScript functions of a process that runs V8 as it is built for node. It reads V8's
// objects in the memory of the process. Objects may move, be freed at any moment, or be nonsense: all data is checked,
// work is bounded, and a function that cannot be verified has no name.
//
// Each native frame of JavaScript has its function and, if it is interpreted, the position in its bytecode below its
// frame pointer. The BPF program copies these words, and words of the SharedFunctionInfo, V8's object for a function's
// source text, which seldom moves (see interpreter.go). All other data is read later.
package v8

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"

	"github.com/headwater/headwater/ebpf/language"
)

var (
	errImplausible = errors.New("implausible")
	errBudget      = errors.New("too much to read")
)

// tagged is a word of V8: a small integer, or the address of an object plus a tag.
type tagged uint64

const (
	tagMask  = 3 // the other two bits of the address are 0
	strong   = 1
	smiShift = 32
)

// object reports whether v is the address of an object.
func (v tagged) object() bool { return v&1 != 0 && v > 1<<12 && v < 1<<47 }

// smi returns the small integer in v, and whether v is one.
func (v tagged) smi() (int, bool) { return int(int32(v >> smiShift)), v&(1<<smiShift-1) == 0 }

// reader reads objects of a process for one request. It keeps the error of the first failed read; later reads return
// zeros.
type reader struct {
	l      *Layout
	types  map[uint64]int  // types by the address of their map
	budget int             // bytes that may still be read
	lines  *lines          // of scripts
	memory language.Memory // of the process
	err    error
}

// maxBudget is the number of bytes that may be read for one function, without the text of its script.
const maxBudget = 4 << 20

func newReader(l *Layout, memory language.Memory, known *lines) *reader {
	return &reader{memory: memory, lines: known, l: l, types: map[uint64]int{}, budget: maxBudget}
}

// readCost is the cost of a read against the budget in addition to its bytes.
const readCost = 256

func (m *reader) failWith(err error) {
	if m.err == nil {
		m.err = err
	}
}

// readBytes fills b from addr, with zeros if that fails.
func (m *reader) readBytes(addr uint64, b []byte) { m.readSome(addr, b, len(b)) }

// readSome is like read, but only the first least bytes must be readable.
func (m *reader) readSome(addr uint64, b []byte, least int) {
	if m.budget -= len(b) + readCost; m.budget < 0 {
		m.failWith(errBudget)
	}
	if addr >= 1<<47 {
		m.failWith(fmt.Errorf("read memory at 0x%x: %w", addr, errImplausible))
	}
	if m.err == nil {
		n, err := m.memory.ReadAt(b, int64(addr))
		clear(b[n:])
		if n < least {
			if err == nil {
				err = io.ErrUnexpectedEOF
			}
			m.failWith(fmt.Errorf("read memory at 0x%x: %w", addr, err))
		}
	}
	if m.err != nil {
		clear(b)
	}
}

// body is the start of an object.
type body []byte

// object reads the first size bytes of the object v. Objects may be shorter: bytes beyond the end of memory are zero.
func (m *reader) object(v tagged, size int) body {
	b := make(body, size)
	if !v.object() {
		m.failWith(fmt.Errorf("object 0x%x: %w", uint64(v), errImplausible))
		return b
	}
	m.readSome(uint64(v)&^tagMask, b, min(size, smallest))
	return b
}

// smallest is the size of the smallest objects that are read.
const smallest = 16

// typed reads an object, which must be of type typ.
func (m *reader) typed(v tagged, size, typ int) body {
	b := m.object(v, size)
	if got := m.typeOf(b); m.err == nil && got != typ {
		m.failWith(fmt.Errorf("object 0x%x has type %d and not %d: %w", uint64(v), got, typ, errImplausible))
		clear(b)
	}
	return b
}

func (b body) wordAt(at int) tagged { return tagged(binary.LittleEndian.Uint64(b[at:])) }
func (b body) u32(at int) uint32    { return binary.LittleEndian.Uint32(b[at:]) }

// typeOf returns the type of an object, from its map.
func (m *reader) typeOf(b body) int {
	at := b.wordAt(0)
	if typ, ok := m.types[uint64(at)]; ok && m.err == nil {
		return typ
	}
	head := m.object(at, m.l.MapType+2)
	if m.err != nil {
		return absent
	}
	typ := int(binary.LittleEndian.Uint16(head[m.l.MapType:]))
	m.types[uint64(at)] = typ
	return typ
}

// bytes returns the contents of a byte array, at most most bytes.
func (m *reader) bytes(v tagged, most int) []byte {
	b := m.object(v, m.l.BytesData)
	n, ok := b.wordAt(m.l.ArrayLength).smi()
	if m.err != nil {
		return nil
	}
	if !ok || n < 0 || n > most {
		m.failWith(fmt.Errorf("%d bytes: %w", n, errImplausible))
		return nil
	}
	data := make([]byte, n)
	m.readBytes(uint64(v)&^tagMask+uint64(m.l.BytesData), data)
	return data
}
