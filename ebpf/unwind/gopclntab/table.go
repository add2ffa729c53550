// Package gopclntab reads .gopclntab, the function table that Go's linker puts into every program
// for the runtime's own tracebacks. Stripping does not remove it.
//
// Open finds a Table by its section, or by its magic number in programs without sections. A Reader
// finds the function at an address by binary search in the file. For every instruction of the
// function it decodes the distance of the stack pointer from the end of the frame, and the source
// line, including all inlined functions. A Reader holds only a few small windows of the file,
// however large the table is.
//
// The format is from Go 1.2 ("Go 1.2 Runtime Symbol Information", golang.org/s/go12symtab) with the
// changes of Go 1.16, 1.18 and 1.20, as cmd/link writes it (src/cmd/link/internal/ld/pcln.go) and
// runtime reads it (src/runtime/symtab.go).
package gopclntab

import (
	"encoding/binary"
	"errors"
	"fmt"
	"sync"
)

// Errors that callers distinguish.
var (
	// ErrNoTable says that the image has no such table, or is not a Go program.
	ErrNoTable = errors.New("no table of Go functions")
	// ErrInvalid says that the bytes of the table contradict each other.
	ErrInvalid = errors.New("invalid table of Go functions")
	// ErrTextStart says that the base of the table's addresses was not found.
	ErrTextStart = errors.New("start of Go's text unknown")
)

// Image is an ELF image. *elffile.File implements it. All addresses are ELF virtual addresses. Its
// methods may be called concurrently.
type Image interface {
	// IsGo reports whether the Go tool chain made the image.
	IsGo() bool
	// HasSections reports whether there is a section table.
	HasSections() bool
	// SectionRange returns the addresses [start, end) of a section.
	SectionRange(name string) (start, end uint64, ok bool)
	// LoadRanges returns the ranges [start, end) that are loaded from the file.
	LoadRanges() [][2]uint64
	// ReadVaddr fills p with the bytes at vaddr, before relocation.
	ReadVaddr(p []byte, vaddr uint64) error
	// RelativeRelocations yields the words that become value plus the load bias.
	RelativeRelocations(yield func(at, value uint64) bool) error
}

// version is the layout of a table, named after the first release that had it.
type version int

const (
	go12 version = iota
	go116
	go118
	go120
)

// magics are the first words of tables, by version. In the wrong byte order they match none.
var magics = [...]uint32{go12: 0xfffffffb, go116: 0xfffffffa, go118: 0xfffffff0, go120: 0xfffffff1}

// headerSize is the size of the longest header: magic, two zero bytes, quantum, pointer size, and
// up to eight words.
const headerSize = 8 + 8*8

// span is a range of addresses.
type span struct{ start, end uint64 }

func (s span) size() uint64 { return s.end - s.start }

// Table holds the locations of the parts of one table. It is immutable.
type Table struct {
	image   Image
	order   binary.ByteOrder
	version version
	quantum uint64 // alignment of instruction addresses in bytes
	ptr     int    // bytes of a pointer
	header  uint64 // address of the table
	text    uint64 // base of function addresses; 0 before Go 1.18
	count   int    // number of functions
	names   span   // names of functions
	units   span   // for each compilation unit, the offsets of its files' paths; since Go 1.16
	files   span   // paths of source files
	pcs     span   // value tables by pc
	funcs   span   // index of functions, then their records

	module sync.Once
	gofunc uint64 // base of the offsets of functions' data, since Go 1.18; 0 if not found
}

// Open finds and checks the table of image, which must stay readable as long as the Table is used.
// The error is ErrNoTable, ErrInvalid, ErrTextStart or a read error.
func Open(image Image) (*Table, error) {
	t, err := findTable(image)
	if err != nil {
		return nil, fmt.Errorf("open .gopclntab: %w", err)
	}
	return t, nil
}

// Len returns the number of functions.
func (t *Table) Len() int { return t.count }

// parse reads the header at the start of s. The table may extend to the end of s.
func parse(image Image, s span) (*Table, error) {
	if s.size() < headerSize {
		return nil, ErrInvalid
	}
	b := make([]byte, headerSize)
	if err := image.ReadVaddr(b, s.start); err != nil {
		return nil, err
	}
	t := &Table{image: image, header: s.start, quantum: uint64(b[6]), ptr: int(b[7])}
	if !t.identify(b) {
		return nil, ErrInvalid
	}
	if !t.layOut(b, s.end) {
		return nil, ErrInvalid
	}
	return t, nil
}

// identify sets order and version from the first eight bytes of a table.
func (t *Table) identify(b []byte) bool {
	if b[4] != 0 || b[5] != 0 || t.quantum != 1 && t.quantum != 2 && t.quantum != 4 || t.ptr != 4 && t.ptr != 8 {
		return false
	}
	for _, order := range []binary.ByteOrder{binary.LittleEndian, binary.BigEndian} {
		for v, magic := range magics {
			if order.Uint32(b) == magic {
				t.order, t.version = order, version(v)
				return true
			}
		}
	}
	return false
}

// layOut sets the locations of the parts. Until Go 1.15 the header has one word, the number of
// functions, followed by the index. Since Go 1.16 it has the numbers of functions and files, then
// the offsets of names, compilation units, files, values and functions. Go 1.18 added the start of
// the text before these offsets.
func (t *Table) layOut(b []byte, end uint64) bool {
	word := func(i int) uint64 { return t.pointer(b[8+i*t.ptr:]) }
	part := func(i int) span {
		start := t.header + word(i)
		if start < t.header || start > end {
			start = end
		}
		return span{start, end}
	}
	switch t.version {
	case go12:
		whole := span{t.header, end}
		t.names, t.files, t.pcs, t.funcs = whole, whole, whole, span{t.header + 8 + uint64(t.ptr), end}
	case go116:
		t.names, t.units, t.files, t.pcs, t.funcs = part(2), part(3), part(4), part(5), part(6)
	default:
		t.text = word(2) // Go 1.26 leaves it 0
		t.names, t.units, t.files, t.pcs, t.funcs = part(3), part(4), part(5), part(6), part(7)
	}
	count := word(0)
	if count == 0 || t.funcs.size() < uint64(t.field()) ||
		count > (t.funcs.size()-uint64(t.field()))/uint64(2*t.field()) {
		return false
	}
	t.count = int(count)
	return true
}

// pointer decodes a word of pointer size.
func (t *Table) pointer(b []byte) uint64 {
	if t.ptr == 4 {
		return uint64(t.order.Uint32(b))
	}
	return t.order.Uint64(b)
}

// field returns the size of a field in the index. An entry of the index has two fields.
func (t *Table) field() int {
	if t.version >= go118 {
		return 4
	}
	return t.ptr
}

// textBase returns the base of the record offsets in the index.
func (t *Table) textBase() uint64 {
	if t.version == go12 {
		return t.header
	}
	return t.funcs.start
}
