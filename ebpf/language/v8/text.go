package v8

import (
	"fmt"
	"strings"
	"unicode/utf16"
)

// The representation of a string is in the bits of its type.
const (
	representationMask = 7
	sequential         = 0
	concatenated       = 1
	external           = 2
	sliced             = 3
	thin               = 5
	oneByte            = 8
	uncached           = 16 // of external strings: the object does not have the address of the text
)

// maxParts bounds the objects that a string consists of.
const maxParts = 64

// window is a part of a string: count characters, starting at from.
type window struct {
	v           tagged
	from, count int
}

// readText returns the first characters of a string, at most most. Characters are UTF-16 units.
func (m *reader) readText(v tagged, most int) string {
	var out strings.Builder
	m.eachPart(v, most, func(b []byte, wide bool) bool {
		if !wide {
			for _, c := range b {
				out.WriteRune(rune(c))
			}
			return true
		}
		units := make([]uint16, len(b)/2)
		for i := range units {
			units[i] = uint16(b[2*i]) | uint16(b[2*i+1])<<8
		}
		out.WriteString(string(utf16.Decode(units)))
		return true
	})
	if m.err != nil {
		return ""
	}
	return out.String()
}

// maxPiece is the maximum number of bytes of a string in one read.
const maxPiece = 64 << 10

// eachPart calls yield for the text of a string in pieces, at most most characters, until yield returns false. wide
// reports whether characters have two bytes.
func (m *reader) eachPart(v tagged, most int, yield func(b []byte, wide bool) bool) {
	todo := []window{{v, 0, most}}
	for parts := 0; len(todo) > 0 && m.err == nil; parts++ {
		w := todo[len(todo)-1]
		todo = todo[:len(todo)-1]
		if parts == maxParts {
			m.failWith(fmt.Errorf("string of more than %d parts: %w", maxParts, errImplausible))
			return
		}
		more, done := m.readPart(w, yield)
		if done {
			return
		}
		todo = append(todo, more...)
	}
}

// readPart yields the text of one object, or returns the parts that it consists of, in reverse order.
func (m *reader) readPart(w window, yield func([]byte, bool) bool) (more []window, done bool) {
	b := m.object(w.v, m.l.StringSecond+8)
	typ := m.typeOf(b)
	if m.err != nil {
		return nil, true
	}
	if typ >= m.l.TypeNonString {
		m.failWith(fmt.Errorf("object 0x%x of type %d is no string: %w", uint64(w.v), typ, errImplausible))
		return nil, true
	}
	length := int(int32(b.u32(m.l.StringLength)))
	if w.from < 0 || w.from > length {
		m.failWith(fmt.Errorf("string of %d characters from %d: %w", length, w.from, errImplausible))
		return nil, true
	}
	if w.count = min(w.count, length-w.from); w.count == 0 {
		return nil, false
	}
	switch typ & representationMask {
	case sequential:
		return nil, m.characters(uint64(w.v)&^tagMask+uint64(m.l.StringChars), w, typ&oneByte == 0, yield)
	case external:
		if typ&uncached != 0 {
			m.failWith(fmt.Errorf("external string without its address: %w", errImplausible))
			return nil, true
		}
		return nil, m.characters(uint64(b.wordAt(m.l.StringExternal)), w, typ&oneByte == 0, yield)
	case thin:
		return []window{{b.wordAt(m.l.StringActual), w.from, w.count}}, false
	case sliced:
		offset, ok := b.wordAt(m.l.StringOffset).smi()
		if !ok || offset < 0 {
			m.failWith(fmt.Errorf("part of a string from %d: %w", offset, errImplausible))
			return nil, true
		}
		return []window{{b.wordAt(m.l.StringParent), offset + w.from, w.count}}, false
	case concatenated:
		return m.halves(b, w), false
	}
	m.failWith(fmt.Errorf("string of type %d: %w", typ, errImplausible))
	return nil, true
}

// halves returns the parts of a concatenated string, in reverse order.
func (m *reader) halves(b body, w window) (more []window) {
	first, second := b.wordAt(m.l.StringFirst), b.wordAt(m.l.StringSecond)
	n := int(int32(m.object(first, m.l.StringLength+4).u32(m.l.StringLength)))
	if end := w.from + w.count; end > n {
		from := max(w.from-n, 0)
		more = append(more, window{second, from, end - n - from})
	}
	if w.from < n {
		more = append(more, window{first, w.from, min(w.count, n-w.from)})
	}
	return more
}

// characters yields the text that starts at an address.
func (m *reader) characters(at uint64, w window, wide bool, yield func([]byte, bool) bool) (done bool) {
	size := 1
	if wide {
		size = 2
	}
	at, left := at+uint64(w.from*size), w.count*size
	for left > 0 {
		b := make([]byte, min(left, maxPiece))
		m.readBytes(at, b)
		if m.err != nil || !yield(b, wide) {
			return true
		}
		at, left = at+uint64(len(b)), left-len(b)
	}
	return false
}
