package symbol

import (
	"debug/elf"
	"errors"
	"strings"

	"github.com/headwater/headwater/ebpf/elffile"
)

// symbolTables are the functions of one symbol table of a file. Usually it is one
// table; it is more where addresses are 4 GiB apart.
type symbolTables []*table

// maxTables bounds them.
const maxTables = 4

// readSymbols builds the tables of a file's symbols of one type, elf.SHT_SYMTAB or
// elf.SHT_DYNSYM; none without an error if it has no such symbols. The names stay
// in the file, which must stay open. reach says where functions of unknown size end.
func readSymbols(file *elffile.File, typ elf.SectionType, reach labelReach) (symbolTables, error) {
	symbols, err := file.SymbolTable(typ)
	if errors.Is(err, elffile.ErrNoSection) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	all := symbols.AllNames()
	pool := &fileNames{names: all, golang: file.IsGo()}
	defer func() { pool.names = symbols.Names() }() // for lookups
	var tables symbolTables
	for from, more := uint64(0), true; more && len(tables) < maxTables; {
		w, err := survey(symbols, from)
		if err != nil || w.count == 0 {
			return tables, err
		}
		t, err := readWindow(file, symbols, pool, w)
		if err != nil {
			return tables, err
		}
		t.reach = reach
		if len(t.ranges) > 0 {
			tables = append(tables, t)
		}
		from, more = w.base+window, w.more
	}
	return tables, all.Beyond()
}

// stretch is the addresses that one table covers.
type stretch struct {
	base  uint64 // of its first symbol
	count int    // symbols in it
	more  bool   // there are symbols behind it
}

// window is how many addresses one table covers.
const window = 1 << 32

func (w *stretch) holds(addr uint64) bool { return addr >= w.base && addr-w.base < window }

// survey returns the stretch from the first address at or behind from that has a
// symbol.
func survey(symbols *elffile.SymbolTable, from uint64) (w stretch, err error) {
	last := uint64(0)
	w.base = 1<<64 - 1
	err = symbols.Code(func(f elffile.Function) bool {
		if f.Value >= from {
			w.base, last = min(w.base, f.Value), max(last, f.Value)
			w.count++
		}
		return true
	})
	if err != nil || w.count == 0 || w.holds(last) {
		return w, err
	}
	w.count, w.more = 0, true
	err = symbols.Code(func(f elffile.Function) bool {
		if w.holds(f.Value) {
			w.count++
		}
		return true
	})
	return w, err
}

func readWindow(file *elffile.File, symbols *elffile.SymbolTable, pool *fileNames, w stretch) (*table, error) {
	entries := make([]entry, 0, w.count)
	err := symbols.Code(func(f elffile.Function) bool {
		if !w.holds(f.Value) || len(entries) == w.count || f.Type != elf.STT_OBJECT && pool.nameless(&f) {
			return true
		}
		entries = append(entries, toEntry(file, &f, w.base))
		return true
	})
	if err != nil {
		return nil, err
	}
	return newTable(w.base, entries, pool), nil
}

func toEntry(file *elffile.File, f *elffile.Function, base uint64) entry {
	e := entry{start: uint32(f.Value - base), name: f.Name, rank: rankOf(f), label: f.Size == 0}
	size := f.Size
	if e.label {
		if start, end, ok := file.SectionBounds(f.Section); ok && f.Value >= start && f.Value < end {
			size = end - f.Value
		}
	}
	if f.Type == elf.STT_OBJECT {
		e.name, e.rank = 0, rankData
	}
	if f.Value+size < f.Value { // a size that wraps around
		size = 0
		e.label = true
	}
	e.size = uint32(min(size, 1<<32-1))
	return e
}

// Ranks of symbols: any function before any label, and among them global before
// weak before local. Data in code comes last: it has no name of a function, and labels end where it begins.
const (
	rankGlobal = iota
	rankWeak
	rankLocal
	rankUntyped // added
	rankData    = 2 * rankUntyped
)

func rankOf(f *elffile.Function) uint8 {
	rank := uint8(rankGlobal) // and STB_GNU_UNIQUE
	switch f.Bind {
	case elf.STB_LOCAL:
		rank = rankLocal
	case elf.STB_WEAK:
		rank = rankWeak
	}
	if f.Type == elf.STT_NOTYPE {
		rank += rankUntyped
	}
	return rank
}

// frames implements source.
func (ts symbolTables) frames(at uint64) []Frame {
	for _, t := range ts {
		if frames := t.frames(at); frames != nil {
			return frames
		}
	}
	return nil
}

func (ts symbolTables) bytes() int {
	bytes := 0
	for _, t := range ts {
		bytes += t.bytes()
	}
	return bytes
}

// count returns the number of ranges with a name.
func (ts symbolTables) count() int {
	count := 0
	for _, t := range ts {
		for _, r := range t.ranges {
			if r.name&^labelMark != 0 {
				count++
			}
		}
	}
	return count
}

// fileNames is a pool of names that stay in their file.
type fileNames struct {
	names  *elffile.Names
	golang bool // Go's tools made the file
}

// name implements namePool.
func (n *fileNames) name(place uint32) (string, bool) {
	b, err := n.names.At(place)
	if err != nil || len(b) == 0 {
		return "", false
	}
	name := validUTF8(withoutVersion(string(b)))
	if n.golang {
		name = withoutTypeArguments(strings.TrimSuffix(name, ".abi0"))
	}
	return name, true
}

// nameless reports whether a symbol is no function's name after all.
func (n *fileNames) nameless(f *elffile.Function) bool {
	if f.Name == 0 || f.Name >= labelMark || f.Type != elf.STT_NOTYPE {
		return f.Name == 0 || f.Name >= labelMark
	}
	b, err := n.names.At(f.Name)
	return err != nil || elffile.Label(string(b), f.Type)
}

// namesBytes is about the memory of a reader of names.
const namesBytes = 2 << 10

func (n *fileNames) bytes() int { return namesBytes }

// withoutVersion cuts the version off a name: "memcpy@@GLIBC_2.14".
func withoutVersion(name string) string {
	if i := strings.IndexByte(name, '@'); i > 0 {
		return name[:i]
	}
	return name
}

// lazy is a source that is made when the ones before it did not know an address.
type lazy struct {
	make   func() source // may return nil
	made   bool
	source source
}

func (l *lazy) frames(at uint64) []Frame {
	if !l.made {
		l.made, l.source = true, l.make()
	}
	if l.source == nil {
		return nil
	}
	return l.source.frames(at)
}

func (l *lazy) bytes() int {
	if l.source == nil {
		return 0
	}
	return l.source.bytes()
}
