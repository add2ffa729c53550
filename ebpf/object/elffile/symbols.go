package elffile

import (
	"bytes"
	"cmp"
	"debug/elf"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/headwater/headwater/ebpf/common/limit"
)

// Limits on symbol tables. Chromium with symbols has about 1.5 million functions
// whose names take 250 MB.
const (
	maxSymbolTable = 256 << 20 // bytes of a table, data symbols included
	maxSymbols     = 4 << 20   // functions of one file
	maxSymbolNames = 512 << 20 // bytes of their names
	maxSymbolName  = 64 << 10  // bytes of one name; longer ones are cut
)

// Symbol is a function, or a label in executable code.
type Symbol struct {
	Name    string
	Value   uint64 // ELF virtual address
	Size    uint64 // bytes; 0 if unknown, as for labels in assembly
	Section elf.SectionIndex
	Type    elf.SymType // STT_FUNC, STT_GNU_IFUNC or STT_NOTYPE
	Bind    elf.SymBind
}

// Symbols returns the functions defined in .symtab, then those defined in .dynsym, in the tables'
// order: STT_FUNC, STT_GNU_IFUNC, and STT_NOTYPE labels inside executable sections, which come from
// assembly without .type. A function in both tables is returned twice, and names keep their
// versions ("memcpy@@GLIBC_2.14").
//
// The error is ErrNoSection if the file has neither table. If one table is unreadable, Symbols
// returns the functions of the other table together with the error.
func (f *File) Symbols() ([]Symbol, error) {
	var symbols []Symbol
	var errs []error
	found := false
	for _, typ := range []elf.SectionType{elf.SHT_SYMTAB, elf.SHT_DYNSYM} {
		table := f.elf.SectionByType(typ)
		if table == nil || table.Size == 0 {
			continue
		}
		found = true
		part, err := f.symbolTable(table)
		if err != nil {
			errs = append(errs, fmt.Errorf("symbol table %s: %w", table.Name, err))
			continue
		}
		if symbols == nil {
			symbols = part
		} else {
			symbols = append(symbols, part...)
		}
	}
	if !found {
		return nil, fmt.Errorf("symbol table: %w", ErrNoSection)
	}
	return symbols, errors.Join(errs...)
}

// HasSymtab reports whether the file has a .symtab, which includes the symbols of .dynsym.
func (f *File) HasSymtab() bool {
	s := f.elf.SectionByType(elf.SHT_SYMTAB)
	return s != nil && s.Size > 0
}

// SectionBounds returns the address range of the section with that index. ok is false for reserved
// indexes and for indexes past the end of the table.
func (f *File) SectionBounds(i elf.SectionIndex) (start, end uint64, ok bool) {
	if i <= elf.SHN_UNDEF || int(i) >= len(f.elf.Sections) || i >= elf.SHN_LORESERVE {
		return 0, 0, false
	}
	s := f.elf.Sections[i]
	if s.Addr+s.Size < s.Addr {
		return 0, 0, false
	}
	return s.Addr, s.Addr + s.Size, true
}

// rawSymbol is a Symbol whose name is still an offset in the string table.
type rawSymbol struct {
	Symbol
	name uint32
}

// symbolTable reads one table. It never holds the whole table or all strings: it reads both once
// from start to end and keeps only functions.
func (f *File) symbolTable(table *elf.Section) ([]Symbol, error) {
	strtab, err := f.stringsOf(table)
	if err != nil {
		return nil, err
	}
	var raw []rawSymbol
	if err := f.eachSymbol(table, f.isFunction, func(s *rawSymbol) bool {
		raw = append(raw, *s)
		return true
	}); err != nil {
		return nil, err
	}
	return f.nameSymbols(raw, strtab)
}

// stringsOf returns the string table of a symbol table, after checking that both are in the file,
// not compressed.
func (f *File) stringsOf(table *elf.Section) (*elf.Section, error) {
	if int(table.Link) >= len(f.elf.Sections) {
		return nil, fmt.Errorf("string table %d: %w", table.Link, ErrNoSection)
	}
	strtab := f.elf.Sections[table.Link]
	for _, s := range []*elf.Section{table, strtab} {
		if s.Type == elf.SHT_NOBITS || s.Flags&elf.SHF_COMPRESSED != 0 {
			return nil, fmt.Errorf("section %s: %w", s.Name, ErrNoSection)
		}
		if s.Offset > f.size || s.Size > f.size-s.Offset {
			return nil, fmt.Errorf("section %s: %w", s.Name, ErrTruncated)
		}
	}
	return strtab, nil
}

// eachSymbol reads the entries of table and yields the wanted ones. The yielded symbol is valid
// until the next one.
func (f *File) eachSymbol(table *elf.Section, wanted func(*Symbol) bool, yield func(*rawSymbol) bool) error {
	entry := uint64(elf.Sym64Size)
	if f.elf.Class == elf.ELFCLASS32 {
		entry = elf.Sym32Size
	}
	if table.Size > maxSymbolTable {
		return limit.Hit(limit.ELF, ErrTooLarge)
	}
	var s rawSymbol
	found := 0
	buf := make([]byte, min(4096*entry, table.Size-table.Size%entry))
	for off := uint64(0); off+entry <= table.Size; off += uint64(len(buf)) {
		buf = buf[:min(uint64(len(buf)), (table.Size-off)/entry*entry)]
		if err := readFullAt(f.r, buf, table.Offset+off); err != nil {
			return fmt.Errorf("read symbols: %w", err)
		}
		for b := buf; len(b) > 0; b = b[entry:] {
			s = f.decodeSymbol(b)
			if !wanted(&s.Symbol) {
				continue
			}
			if found++; found > maxSymbols {
				return limit.Hit(limit.ELF, ErrTooLarge)
			}
			if !yield(&s) {
				return nil
			}
		}
	}
	return nil
}

// decodeSymbol decodes an entry (ELF gABI, "Symbol Table").
func (f *File) decodeSymbol(b []byte) (s rawSymbol) {
	bo := f.elf.ByteOrder
	s.name = bo.Uint32(b)
	var info byte
	if f.elf.Class == elf.ELFCLASS32 {
		s.Value, s.Size = uint64(bo.Uint32(b[4:])), uint64(bo.Uint32(b[8:]))
		info, s.Section = b[12], elf.SectionIndex(bo.Uint16(b[14:]))
	} else {
		s.Value, s.Size = bo.Uint64(b[8:]), bo.Uint64(b[16:])
		info, s.Section = b[4], elf.SectionIndex(bo.Uint16(b[6:]))
	}
	s.Type, s.Bind = elf.ST_TYPE(info), elf.ST_BIND(info)
	return s
}

func (f *File) isFunction(s *Symbol) bool {
	if s.Section == elf.SHN_UNDEF || s.Section == elf.SHN_ABS || s.Section == elf.SHN_COMMON {
		return false
	}
	switch s.Type {
	case elf.STT_FUNC, elf.STT_GNU_IFUNC:
		return true
	case elf.STT_NOTYPE:
		return f.inCode(s)
	}
	return false
}

func (f *File) isDataInCode(s *Symbol) bool { return s.Type == elf.STT_OBJECT && f.inCode(s) }

// inCode reports whether a symbol is in an executable section.
func (f *File) inCode(s *Symbol) bool {
	start, end, ok := f.SectionBounds(s.Section)
	return ok && f.elf.Sections[s.Section].Flags&elf.SHF_EXECINSTR != 0 && s.Value >= start && s.Value < end
}

// nameSymbols looks up the names in the order of the string table, so that it reads the table once
// through a small window. All names share one string.
func (f *File) nameSymbols(raw []rawSymbol, strtab *elf.Section) ([]Symbol, error) {
	order := make([]uint32, len(raw))
	for i := range order {
		order[i] = uint32(i)
	}
	slices.SortFunc(order, func(a, b uint32) int { return cmp.Compare(raw[a].name, raw[b].name) })

	w := &window{r: f.r, off: strtab.Offset, size: strtab.Size}
	var pool strings.Builder
	type span struct{ start, end uint32 }
	spans := make([]span, len(raw))
	for i, n := range order {
		if i > 0 && raw[n].name == raw[order[i-1]].name {
			spans[n] = spans[order[i-1]]
			continue
		}
		name, err := w.cstring(uint64(raw[n].name))
		if err != nil {
			return nil, fmt.Errorf("read names: %w", err)
		}
		if pool.Len()+len(name) > maxSymbolNames {
			return nil, fmt.Errorf("names: %w", limit.Hit(limit.ELF, ErrTooLarge))
		}
		start := pool.Len()
		pool.Write(name)
		spans[n] = span{uint32(start), uint32(pool.Len())}
	}

	names := pool.String()
	symbols := make([]Symbol, 0, len(raw))
	for i := range raw {
		s := raw[i].Symbol
		s.Name = names[spans[i].start:spans[i].end]
		if s.Name != "" && !isLocalLabel(s.Name, s.Type) {
			symbols = append(symbols, s)
		}
	}
	return symbols, nil
}

// isLocalLabel reports whether an untyped symbol is a label that the assembler made, not a
// function: ".L1", or a mapping symbol "$x", "$d.1" of the Arm and RISC-V ABIs.
func isLocalLabel(name string, typ elf.SymType) bool {
	return typ == elf.STT_NOTYPE && (strings.HasPrefix(name, ".L") || name[0] == '$')
}

// window reads strings of a string table at rising offsets.
type window struct {
	r         io.ReaderAt
	off, size uint64 // the table in the file
	start     uint64 // offset in the table of buf[0]
	buf       []byte
}

// cstring returns the string at offset at, without its terminator, or "" if the offset is outside
// the table. The result is valid until the next call.
func (w *window) cstring(at uint64) ([]byte, error) {
	if at >= w.size {
		return nil, nil
	}
	for range 2 {
		if at >= w.start && at-w.start < uint64(len(w.buf)) {
			rest := w.buf[at-w.start:]
			if end := bytes.IndexByte(rest, 0); end >= 0 {
				return rest[:min(end, maxSymbolName)], nil
			}
			if len(rest) >= maxSymbolName || w.start+uint64(len(w.buf)) >= w.size {
				return rest[:min(len(rest), maxSymbolName)], nil
			}
		}
		if err := w.fillFrom(at); err != nil {
			return nil, err
		}
	}
	return nil, nil
}

// fillFrom moves the window so that it starts at offset at.
func (w *window) fillFrom(at uint64) error {
	size := min(w.size-at, 4*maxSymbolName)
	if uint64(cap(w.buf)) < size {
		w.buf = make([]byte, size)
	}
	w.start, w.buf = at, w.buf[:size]
	if err := readFullAt(w.r, w.buf, w.off+at); err != nil {
		w.buf = w.buf[:0]
		return err
	}
	return nil
}
