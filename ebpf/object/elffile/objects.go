package elffile

import (
	"bytes"
	"debug/elf"
	"fmt"
	"slices"

	"github.com/headwater/headwater/ebpf/common/limit"
)

// Limits on the reads of Objects. The libraries that it reads have a few thousand symbols.
const (
	maxDynamicSymbols = 4 << 20 // bytes of the table, and of its names
	maxObjectName     = 256     // bytes of a name; longer ones are cut
)

// maxPrefixedNames bounds the size in bytes of the string table that FunctionRange searches.
const maxPrefixedNames = 64 << 20

// FunctionRange returns the address range of the functions in .symtab whose names start with
// prefix: the lowest address and the end of the last function. prefix must not be empty. ok is
// false if there are no such functions. FunctionRange allocates no symbols and no names: a table of
// 150,000 symbols takes some milliseconds and 256 KiB.
func (f *File) FunctionRange(prefix string) (low, high uint64, ok bool, err error) {
	table := f.elf.SectionByType(elf.SHT_SYMTAB)
	if table == nil || table.Size == 0 {
		return 0, 0, false, nil
	}
	names, err := f.stringsOf(table)
	if err != nil {
		return 0, 0, false, fmt.Errorf("symbol table: %w", err)
	}
	named, err := f.occurrences(names.SectionHeader, []byte(prefix))
	if err != nil {
		return 0, 0, false, fmt.Errorf("symbol table: %w", err)
	}
	err = f.eachSymbol(table, f.isFunction, func(s *rawSymbol) bool {
		if _, found := slices.BinarySearch(named, s.name); !found {
			return true
		}
		if !ok || s.Value < low {
			low = s.Value
		}
		high, ok = max(high, s.Value+max(s.Size, 1)), true
		return true
	})
	if err != nil {
		return 0, 0, false, fmt.Errorf("symbol table: %w", err)
	}
	return low, high, ok, nil
}

// occurrences returns the offsets of text in a table of names, in rising order.
func (f *File) occurrences(names elf.SectionHeader, text []byte) (at []uint32, err error) {
	const chunk = 256 << 10
	if names.Size > maxPrefixedNames {
		return nil, limit.Hit(limit.ELF, ErrTooLarge)
	}
	buf := make([]byte, min(chunk, names.Size))
	for off := uint64(0); off+uint64(len(text)) <= names.Size; off += uint64(len(buf) - len(text) + 1) {
		buf = buf[:min(uint64(len(buf)), names.Size-off)]
		if err := readFullAt(f.r, buf, names.Offset+off); err != nil {
			return nil, err
		}
		for from := 0; ; {
			i := bytes.Index(buf[from:], text)
			if i < 0 {
				break
			}
			at = append(at, uint32(off)+uint32(from+i))
			from += i + 1
		}
	}
	return at, nil
}

// Objects returns the ELF virtual addresses of the data symbols in .dynsym whose names start with
// prefix. The error is ErrNoSection if there is no .dynsym.
func (f *File) Objects(prefix string) (map[string]uint64, error) {
	table := f.elf.SectionByType(elf.SHT_DYNSYM)
	if table == nil || table.Size == 0 || f.elf.Class != elf.ELFCLASS64 {
		return nil, fmt.Errorf("dynamic symbols: %w", ErrNoSection)
	}
	names, err := f.stringsOf(table)
	if err != nil {
		return nil, fmt.Errorf("dynamic symbols: %w", err)
	}
	symbols, err := f.readRange(table.Offset, table.Size, maxDynamicSymbols)
	if err != nil {
		return nil, fmt.Errorf("dynamic symbols: %w", err)
	}
	text, err := f.readRange(names.Offset, names.Size, maxDynamicSymbols)
	if err != nil {
		return nil, fmt.Errorf("dynamic symbols: %w", err)
	}
	found := map[string]uint64{}
	for ; len(symbols) >= elf.Sym64Size; symbols = symbols[elf.Sym64Size:] {
		s := f.decodeSymbol(symbols)
		if s.Type != elf.STT_OBJECT || s.Section == elf.SHN_UNDEF || uint64(s.name) >= uint64(len(text)) {
			continue
		}
		rest := text[s.name:]
		if bytes.HasPrefix(rest, []byte(prefix)) {
			name, _, _ := bytes.Cut(rest[:min(len(rest), maxObjectName)], []byte{0})
			found[string(name)] = s.Value
		}
	}
	return found, nil
}
