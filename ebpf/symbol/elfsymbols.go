package symbol

import (
	"debug/elf"
	"errors"
	"strings"

	"github.com/headwater/headwater/ebpf/object/elffile"
)

// symbolTables are the functions of one symbol table of a file. Usually this is one table; it is several if addresses
// are more than 4 GiB apart.
type symbolTables []*table

// maxTables bounds the tables of a file.
const maxTables = 4

// readSymbols builds the tables of a file's symbols of one type, elf.SHT_SYMTAB or elf.SHT_DYNSYM; it returns none
// without an error if the file has no such symbols. The names stay in the file, which must stay open. reach finds the
// end of functions of unknown size.
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

// stretch is the address range of one table.
type stretch struct {
	base  uint64 // address of its first symbol
	count int    // number of its symbols
	more  bool   // there are symbols after it
}

// window is the size of the address range of one table.
const window = 1 << 32

func (w *stretch) holds(addr uint64) bool { return addr >= w.base && addr-w.base < window }

// survey returns the stretch that starts at the first symbol at or after from.
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

// Ranks of symbols: functions before labels, and within each, global before weak before local. Data in code is last: it
// has no function name, and a label ends where data starts.
const (
	rankGlobal = iota
	rankWeak
	rankLocal
	rankUntyped // added to a rank
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
	golang bool // the file was built by Go's tools
}

// nameAt implements namePool.
func (n *fileNames) nameAt(place uint32) (string, bool) {
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

// nameless reports whether a symbol is not the name of a function.
func (n *fileNames) nameless(f *elffile.Function) bool {
	if f.Name == 0 || f.Name >= labelMark || f.Type != elf.STT_NOTYPE {
		return f.Name == 0 || f.Name >= labelMark
	}
	b, err := n.names.At(f.Name)
	return err != nil || elffile.Label(string(b), f.Type)
}

// namesBytes is the approximate memory of a reader of names.
const namesBytes = 2 << 10

func (n *fileNames) bytes() int { return namesBytes }

// withoutVersion removes the version from a name: "memcpy@@GLIBC_2.14".
func withoutVersion(name string) string {
	if i := strings.IndexByte(name, '@'); i > 0 {
		return name[:i]
	}
	return name
}

// lazy is a source that is made when the sources before it do not know an address.
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
