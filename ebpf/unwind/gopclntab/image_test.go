package gopclntab

import (
	"encoding/binary"
	"io"
)

// memory is an Image of bytes at address base, without sections unless named.
type memory struct {
	base     uint64
	data     []byte
	sections map[string][2]uint64
	relative [][2]uint64
	foreign  bool // not made by Go
}

func (m *memory) IsGo() bool        { return !m.foreign }
func (m *memory) HasSections() bool { return m.sections != nil }

func (m *memory) SectionRange(name string) (start, end uint64, ok bool) {
	s, ok := m.sections[name]
	return s[0], s[1], ok
}

func (m *memory) LoadRanges() [][2]uint64 {
	return [][2]uint64{{m.base, m.base + uint64(len(m.data))}}
}

func (m *memory) ReadVaddr(p []byte, vaddr uint64) error {
	if vaddr < m.base || vaddr-m.base > uint64(len(m.data)) || copy(p, m.data[vaddr-m.base:]) < len(p) {
		return io.ErrUnexpectedEOF
	}
	return nil
}

func (m *memory) RelativeRelocations(yield func(at, value uint64) bool) error {
	for _, r := range m.relative {
		if !yield(r[0], r[1]) {
			break
		}
	}
	return nil
}

// assembler writes tables in the layouts of all releases, based on their description in the Go
// sources of that time.
type assembler struct {
	version version
	order   binary.ByteOrder
	ptr     int
	quantum byte
	text    uint64
	noText  bool // leave the start of the text out
}

// source is one function to assemble.
type source struct {
	name   string
	offset uint64 // from the start of the text
	values []byte // pairs of numbers, without the end
	flags  Flags
}

func (a *assembler) word(v uint64) []byte {
	b := make([]byte, 8)
	if a.ptr == 4 {
		a.order.PutUint32(b, uint32(v))
		return b[:4]
	}
	a.order.PutUint64(b, v)
	return b
}

func (a *assembler) u32(v uint32) []byte {
	b := make([]byte, 4)
	a.order.PutUint32(b, v)
	return b
}

// index encodes a field of the index of functions.
func (a *assembler) index(v uint64) []byte {
	if a.version >= go118 {
		return a.u32(uint32(v))
	}
	return a.word(v)
}

func (a *assembler) entry(f source) uint64 {
	if a.version >= go118 {
		return f.offset
	}
	return a.text + f.offset
}

// record encodes the record of one function.
func (a *assembler) record(f source, name, pcsp int) []byte {
	b := a.index(a.entry(f))
	for _, v := range []int{name, 0, 0, pcsp, 0, 0, 0} {
		b = append(b, a.u32(uint32(v))...)
	}
	if a.version >= go116 {
		b = append(b, a.u32(0)...)
	}
	if a.version >= go120 {
		b = append(b, a.u32(7)...)
	}
	return append(b, 0, byte(f.flags), 0, 0)
}

// table assembles functions; end is the offset of the end of the text.
func (a *assembler) table(functions []source, end uint64) []byte {
	names, values := []byte("go:buildid\x00"), []byte{0}
	var nameAt, valueAt []int
	for _, f := range functions {
		nameAt, valueAt = append(nameAt, len(names)), append(valueAt, len(values))
		names = append(append(names, f.name...), 0)
		values = append(append(values, f.values...), 0)
	}
	header := append(a.u32(magics[a.version]), 0, 0, a.quantum, byte(a.ptr))
	header = append(header, a.word(uint64(len(functions)))...)
	words := map[version]int{go12: 0, go116: 6, go118: 7, go120: 7}[a.version] // after the count
	namesAt := len(header) + words*a.ptr
	valuesAt := namesAt + len(names)
	indexAt := (valuesAt + len(values) + 7) &^ 7
	base := indexAt // base of the offsets of functions
	if a.version == go12 {
		namesAt, valuesAt, indexAt, base = 0, 0, len(header), 0
		behind := len(header) + (2*len(functions)+1)*a.ptr + 4
		for i := range functions {
			nameAt[i] += behind
			valueAt[i] += behind + len(names)
		}
	}
	switch a.version {
	case go116:
		for _, v := range []int{1, namesAt, 0, 0, valuesAt, indexAt} {
			header = append(header, a.word(uint64(v))...)
		}
	case go118, go120:
		header = append(header, a.word(1)...)
		text := a.text
		if a.noText {
			text = 0
		}
		header = append(header, a.word(text)...)
		for _, v := range []int{namesAt, 0, 0, valuesAt, indexAt} {
			header = append(header, a.word(uint64(v))...)
		}
	}
	parts := append(append([]byte(nil), names...), values...)
	indexSize := (2*len(functions) + 1) * len(a.index(0))
	recordsAt := indexAt - base + indexSize // relative to base
	if a.version == go12 {
		recordsAt += 4 + len(parts)
	}
	var index, records []byte
	for i, f := range functions {
		index = append(append(index, a.index(a.entry(f))...), a.index(uint64(recordsAt+len(records)))...)
		records = append(records, a.record(f, nameAt[i], valueAt[i])...)
	}
	index = append(index, a.index(a.entry(source{offset: end}))...)
	if a.version == go12 {
		return append(append(append(append(header, index...), 0, 0, 0, 0), parts...), records...)
	}
	out := append(header, parts...)
	out = append(out, make([]byte, indexAt-len(out))...)
	return append(append(out, index...), records...)
}
