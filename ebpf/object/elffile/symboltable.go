package elffile

import (
	"bytes"
	"debug/elf"
	"fmt"
	"math"

	"github.com/headwater/headwater/ebpf/common/limit"
	"github.com/headwater/headwater/ebpf/host/procfs"
)

// Function is a Symbol without its name, which stays in the file.
type Function struct {
	Value   uint64 // ELF virtual address
	Size    uint64 // bytes; 0 if unknown
	Name    uint32 // offset of the name, for Names.At
	Section elf.SectionIndex
	Type    elf.SymType // as in Symbol, or STT_OBJECT
	Bind    elf.SymBind
}

// SymbolTable is one symbol table of a file. It is usable until the file is closed.
type SymbolTable struct {
	file           *File
	table, strings *elf.Section
}

// SymbolTable returns the table of that type, elf.SHT_SYMTAB or elf.SHT_DYNSYM,
// or ErrNoSection.
func (f *File) SymbolTable(typ elf.SectionType) (*SymbolTable, error) {
	table := f.elf.SectionByType(typ)
	if table == nil || table.Size == 0 {
		return nil, fmt.Errorf("symbol table: %w", ErrNoSection)
	}
	strings, err := f.stringsOf(table)
	if err != nil {
		return nil, fmt.Errorf("symbol table %s: %w", table.Name, err)
	}
	return &SymbolTable{file: f, table: table, strings: strings}, nil
}

// Functions calls yield for the functions and labels that Symbols would return, in the table's
// order, until yield returns false. Unlike Symbols it includes labels that the assembler made; see
// Label.
func (t *SymbolTable) Functions(yield func(Function) bool) error {
	return t.eachFunction(t.file.isFunction, yield)
}

// Code calls yield for the symbols of Functions and for data in executable sections, whose Type is
// elf.STT_OBJECT.
func (t *SymbolTable) Code(yield func(Function) bool) error {
	return t.eachFunction(func(s *Symbol) bool { return t.file.isFunction(s) || t.file.isDataInCode(s) }, yield)
}

func (t *SymbolTable) eachFunction(wanted func(*Symbol) bool, yield func(Function) bool) error {
	err := t.file.eachSymbol(t.table, wanted, func(s *rawSymbol) bool {
		return yield(Function{Value: s.Value, Size: s.Size, Name: s.name, Section: s.Section, Type: s.Type,
			Bind: s.Bind})
	})
	if err != nil {
		return fmt.Errorf("symbol table %s: %w", t.table.Name, err)
	}
	return nil
}

// Names returns a reader of the table's names. To read the names of the whole table, use AllNames.
func (t *SymbolTable) Names() *Names { return &Names{table: t, left: math.MaxInt} }

// MaxNameBytes bounds the bytes that a reader from AllNames reads. The names of the largest
// programs have some 100 MB. Without this limit, a table whose symbols overlap in one long name
// would be unbounded.
const MaxNameBytes = 512 << 20

// AllNames returns a reader for one pass over all names of the table. Its At returns a *limit.Error
// after MaxNameBytes.
func (t *SymbolTable) AllNames() *Names { return &Names{table: t, left: MaxNameBytes} }

// Names reads names of symbols from the file. It must not be used concurrently.
type Names struct {
	table *SymbolTable
	left  int    // bytes that may still be read
	start uint64 // offset in the strings of buf[0]
	buf   []byte
}

// nameChunk is the size of one read. Most names are short, and callers look up neighbouring names
// one after another.
const nameChunk = 1 << 10

// At returns the name at offset place, or "" if the offset is outside the table. The name is cut at
// 64 KiB and is valid until the next call.
func (n *Names) At(place uint32) ([]byte, error) {
	at := uint64(place)
	if at >= n.table.strings.Size {
		return nil, nil
	}
	if err := n.Beyond(); err != nil {
		return nil, err
	}
	name, err := n.readName(at)
	n.left -= len(name)
	return name, err
}

// Beyond returns a *limit.Error if the reader has reached its limit, else nil.
func (n *Names) Beyond() error {
	if n.left <= 0 {
		return limit.Hit(limit.ELF, fmt.Errorf("names of symbols have more than %d MiB", MaxNameBytes>>20))
	}
	return nil
}

// readName returns the name at offset at.
func (n *Names) readName(at uint64) ([]byte, error) {
	if name, ok := n.heldName(at); ok {
		return name, nil
	}
	for _, length := range []uint64{nameChunk, maxSymbolName} {
		if err := n.fillWindow(at, length); err != nil {
			return nil, err
		}
		if name, ok := n.heldName(at); ok {
			return name, nil
		}
	}
	return n.buf[at-n.start:], nil
}

// heldName returns the name at offset at if buf holds it with its terminator.
func (n *Names) heldName(at uint64) ([]byte, bool) {
	if at < n.start || at-n.start >= uint64(len(n.buf)) {
		return nil, false
	}
	rest := n.buf[at-n.start:]
	end := bytes.IndexByte(rest, 0)
	if end < 0 {
		return nil, false
	}
	return rest[:end], true
}

// fillWindow reads up to length bytes from offset at on, and some bytes before it: two names of one
// address may be stored in either order.
func (n *Names) fillWindow(at, length uint64) error {
	before := min(at, nameChunk/4)
	length = before + min(length, n.table.strings.Size-at)
	if uint64(cap(n.buf)) < length {
		n.buf = make([]byte, length)
	}
	n.start, n.buf = at-before, n.buf[:length]
	n.left -= int(length)
	if err := readFullAt(n.table.file.r, n.buf, n.table.strings.Offset+n.start); err != nil {
		n.buf = n.buf[:0]
		return fmt.Errorf("read names: %w", err)
	}
	return nil
}

// Label reports whether an untyped symbol of that name is a label that the assembler made, not a
// function.
func Label(name string, typ elf.SymType) bool { return name == "" || isLocalLabel(name, typ) }

// Changed reports whether the size or modification time of the file changed since it was opened.
// Images that are not files never change.
func (f *File) Changed() bool {
	file, ok := f.r.(procfs.File)
	if !ok {
		return false
	}
	info, err := file.Stat()
	return err != nil || uint64(info.Size()) != f.size || !info.ModTime().Equal(f.modified)
}
