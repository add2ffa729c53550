// Package gopclntab reads the table of functions that Go's linker puts in every
// program for the runtime's own tracebacks, .gopclntab. Stripping does not
// remove it.
//
// A Table is found by Open: by section, or by its magic number in programs
// without sections. A Reader finds the function at an address by binary search
// in the file, and decodes how far the stack pointer is from the frame's end at
// every instruction of the function, and which source line it is of, through all
// functions that were inlined. Nothing is held but some windows of bytes, however
// large the table is.
//
// The format is that of Go 1.2 ("Go 1.2 Runtime Symbol Information",
// golang.org/s/go12symtab) with the changes of Go 1.16, 1.18 and 1.20, as
// cmd/link writes it (src/cmd/link/internal/ld/pcln.go) and runtime reads it
// (src/runtime/symtab.go).
package gopclntab

import (
	"encoding/binary"
	"errors"
	"fmt"
	"sync"
)

// Errors that callers act on.
var (
	// ErrNoTable says that the image has no such table, or is no Go program.
	ErrNoTable = errors.New("no table of Go functions")
	// ErrInvalid says that the bytes of the table contradict each other.
	ErrInvalid = errors.New("invalid table of Go functions")
	// ErrTextStart says that the table counts addresses from a place that could
	// not be found.
	ErrTextStart = errors.New("start of Go's text unknown")
)

// Image is an ELF image; an elffile.File is one. All addresses are ELF virtual
// addresses. Its methods may be called concurrently.
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

// magics are the first words of tables. Reading one in the wrong byte order gives
// none of them.
var magics = [...]uint32{go12: 0xfffffffb, go116: 0xfffffffa, go118: 0xfffffff0, go120: 0xfffffff1}

// headerSize is the size of the longest header: magic, two zero bytes, quantum,
// pointer size, and up to eight words.
const headerSize = 8 + 8*8

// span is a range of addresses.
type span struct{ start, end uint64 }

func (s span) size() uint64 { return s.end - s.start }

// Table is where the parts of one table are. It does not change.
type Table struct {
	image   Image
	order   binary.ByteOrder
	version version
	quantum uint64 // bytes that addresses of instructions are multiples of
	ptr     int    // bytes of a pointer
	header  uint64 // address of the table
	text    uint64 // what addresses of functions are counted from; 0 before Go 1.18
	count   int    // functions
	names   span   // their names
	units   span   // for each compilation unit, where its files' paths are; since Go 1.16
	files   span   // paths of source files
	pcs     span   // tables of values by pc
	funcs   span   // the index of functions, then what is known of each

	module sync.Once
	gofunc uint64 // what offsets of functions' data are counted from, since Go 1.18; 0: not found
}

// Open finds and checks the table of image, which must stay readable as long as
// the Table is used. The error is ErrNoTable, ErrInvalid, ErrTextStart or from
// reading.
func Open(image Image) (*Table, error) {
	t, err := find(image)
	if err != nil {
		return nil, fmt.Errorf("open .gopclntab: %w", err)
	}
	return t, nil
}

// Len returns the number of functions.
func (t *Table) Len() int { return t.count }

// parse reads the header at the start of s. The table ends with s at the latest.
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

// identify sets order and version by the first eight bytes of a table.
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

// layOut sets where the parts are. The header's words are, until Go 1.15, the
// number of functions, which the index follows; since Go 1.16 the numbers of
// functions and files, then the places of names, compilation units, files,
// values and functions; Go 1.18 put the start of the text before those.
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

// pointer decodes a word of the target's size.
func (t *Table) pointer(b []byte) uint64 {
	if t.ptr == 4 {
		return uint64(t.order.Uint32(b))
	}
	return t.order.Uint64(b)
}

// field returns the size of one of the two fields of the index's entries.
func (t *Table) field() int {
	if t.version >= go118 {
		return 4
	}
	return t.ptr
}

// base returns what offsets in the index are counted from.
func (t *Table) base() uint64 {
	if t.version == go12 {
		return t.header
	}
	return t.funcs.start
}
