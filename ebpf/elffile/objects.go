package elffile

import (
	"bytes"
	"debug/elf"
	"fmt"
	"strings"
)

// maxDynamicSymbols bounds the table that Objects reads: of libraries that are
// looked into, a few thousand.
const maxDynamicSymbols = 4 << 20 // bytes

// Objects returns the ELF virtual addresses of the data symbols in .dynsym whose names
// begin with prefix. ErrNoSection tells that there is no such table.
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
		name, _, _ := bytes.Cut(text[s.name:], []byte{0})
		if strings.HasPrefix(string(name), prefix) {
			found[string(name)] = s.Value
		}
	}
	return found, nil
}
