package cpython

import (
	"encoding/binary"
	"errors"
	"fmt"
	"strings"
	"unicode/utf16"
	"unicode/utf8"

	"github.com/headwater/headwater/ebpf/language"
)

// Bounds on the data of a code object.
const (
	maxText  = 1024     // characters of a name; longer names are cut
	maxLines = 64 << 10 // bytes of a line table; later lines are unknown
)

// hasLines is the Base of a Function whose Table was read; the table may be empty.
const hasLines = 1

// errNotCode reports that an address does not have a code object.
var errNotCode = errors.New("not a code object")

// Function implements language.FrameReader. The carried data is from the time of the sample. The data in memory may be
// newer: code objects of modules are freed after they have run, and the memory of their names is reused.
func (x *interpreter) Function(m language.Memory, c *language.CodeObject) (language.Function, error) {
	carried, err := x.carried(c)
	if m == nil {
		return carried, err
	}
	f, readErr := x.readCode(memory{m}, c.Address)
	switch {
	case err != nil: // the sample carried no description
		return f, readErr
	case readErr != nil || f.StartLine != carried.StartLine || !strings.HasPrefix(f.Name, carried.Name) ||
		!strings.HasPrefix(f.File, carried.File):
		return carried, nil
	}
	return f, nil
}

// carried describes a code object from the data that a sample carried.
func (x *interpreter) carried(c *language.CodeObject) (language.Function, error) {
	if len(c.Text) < 2 || len(c.Words) <= cookieFirstLine {
		return language.Function{}, fmt.Errorf("%w: nothing was carried", errNotCode)
	}
	name, _, err := x.readText(c.Text[0], maxText)
	if err != nil {
		return language.Function{}, err
	}
	file, _, err := x.readText(c.Text[1], maxText)
	if err != nil {
		return language.Function{}, err
	}
	return language.Function{Name: name, File: file, StartLine: x.firstLine(c.Words[cookieFirstLine])}, nil
}

// readCode describes the code object at addr.
func (x *interpreter) readCode(m memory, addr uint64) (f language.Function, err error) {
	if !x.isCode(m, addr) {
		return f, errNotCode
	}
	block, words := x.block(codeFields())
	b, err := m.readBytes(addr+uint64(block.Offset), block.Bytes)
	if err != nil {
		return f, fmt.Errorf("read code object: %w", err)
	}
	word := func(i int) uint64 { return binary.LittleEndian.Uint64(b[words[i].Offset:]) }
	f.StartLine = x.firstLine(word(cookieFirstLine))
	if f.Name, err = x.string(m, word(cookieName)); err != nil {
		return f, fmt.Errorf("name: %w", err)
	}
	if f.File, err = x.string(m, word(cookieFile)); err != nil {
		return f, fmt.Errorf("file name: %w", err)
	}
	lines, all, err := x.bytes(m, word(cookieLines))
	if err != nil {
		return f, fmt.Errorf("line table: %w", err)
	}
	f.Table = lineTable(x.layout.minor, lines, f.StartLine)
	if all {
		f.Bytes = codeBytes(x.layout.minor, lines)
	}
	f.Whole, f.Base = true, hasLines
	return f, nil
}

// isCode reports whether an object of the type "code" is at addr. A freed object has a pointer in place of its
// reference count, the first word.
func (x *interpreter) isCode(m memory, addr uint64) bool {
	const name, notCounted = "code\x00", 0xffff << 32
	references, err := m.u64(addr)
	if err != nil || references == 0 || references&notCounted != 0 {
		return false
	}
	kind, err := m.pointer(addr + uint64(x.layout.offsetOf("object.type")))
	if err != nil {
		return false
	}
	text, err := m.pointer(kind + uint64(x.layout.offsetOf("type.name")))
	if err != nil {
		return false
	}
	b, err := m.readBytes(text, len(name))
	return err == nil && string(b) == name
}

// firstLine returns co_firstlineno from its word.
func (x *interpreter) firstLine(word uint64) int {
	return max(int(int32(word>>x.shift("code.firstline"))), 0)
}

// Lines implements language.FrameReader.
func (x *interpreter) Lines(f *language.Function, ip uint64, _ bool) []language.Line {
	line := language.Line{Function: f.Name, File: f.File, StartLine: f.StartLine}
	switch {
	case f.Base != hasLines:
	case ip == notStarted:
		line.Line = f.StartLine
	default:
		line.Line = language.LineAt(f.Table, ip)
	}
	return []language.Line{line}
}

// bytes returns the contents of the bytes object at addr, at most maxLines bytes, and whether that is all.
func (x *interpreter) bytes(m memory, addr uint64) (b []byte, all bool, err error) {
	size, err := m.u64(addr + uint64(x.layout.offsetOf("bytes.size")))
	if err != nil {
		return nil, false, err
	}
	b, err = m.readBytes(addr+uint64(x.layout.offsetOf("bytes.data")), int(min(size, maxLines)))
	return b, size <= maxLines, err
}

// string returns the string object at addr, at most maxText characters.
func (x *interpreter) string(m memory, addr uint64) (string, error) {
	head, err := m.readBytes(addr, int(x.layout.offsetOf("text.ascii")))
	if err != nil {
		return "", err
	}
	_, size, err := x.readText(head, maxText)
	if err != nil {
		return "", err
	}
	b, err := m.readBytes(addr, size)
	if err != nil {
		return "", err
	}
	s, _, err := x.readText(b, len(b))
	return s, err
}

// readText decodes the part of a string object that is in b. size is the size of the object in bytes, with at most most
// characters.
//
// A state word gives the size of characters (Include/cpython/unicodeobject.h): 1, 2 or 4 bytes each, after a shorter
// header if all are ASCII.
func (x *interpreter) readText(b []byte, most int) (s string, size int, err error) {
	const kindShift, kindMask, compact, ascii = 2, 7, 1 << 5, 1 << 6
	header := int(x.layout.offsetOf("text.ascii"))
	if len(b) < header {
		return "", 0, fmt.Errorf("string: %w: cut off", errImplausible)
	}
	state := binary.LittleEndian.Uint32(b[x.layout.offsetOf("text.state"):])
	length := int(min(binary.LittleEndian.Uint64(b[x.layout.offsetOf("text.length"):]), uint64(most)))
	kind := int(state >> kindShift & kindMask)
	if state&compact == 0 || kind != 1 && kind != 2 && kind != 4 || state&ascii != 0 && kind != 1 {
		return "", 0, fmt.Errorf("string: %w: state %#x", errImplausible, state)
	}
	if state&ascii == 0 {
		header += int(x.layout.offsetOf("text.compact"))
	}
	size = header + kind*length
	return decode(b[min(header, len(b)):min(size, len(b))], kind), size, nil
}

// decode decodes characters of kind bytes each. Invalid characters become U+FFFD.
func decode(b []byte, kind int) string {
	var s strings.Builder
	for ; len(b) >= kind; b = b[kind:] {
		r := rune(b[0])
		switch kind {
		case 2:
			r = rune(binary.LittleEndian.Uint16(b))
		case 4:
			r = rune(min(binary.LittleEndian.Uint32(b), utf8.MaxRune+1))
		}
		if r == 0 || utf16.IsSurrogate(r) {
			r = utf8.RuneError
		}
		s.WriteRune(r)
	}
	return s.String()
}
