package symbol

import (
	"debug/elf"
	"errors"
	"fmt"
	"strings"

	"github.com/headwater/headwater/ebpf/elffile"
)

// load reads the symbols of an object: .symtab and .dynsym of the file itself
// and, if it has no .symtab, those of its separate debug file. The table is nil
// if there are none.
func load(o *Object, finder *debugFinder) (*table, Status) {
	file, err := open(o)
	if err != nil {
		return nil, Status{Reason: Unreadable, Err: err}
	}
	defer file.Close()

	functions, err := functionsOf(file)
	status := Status{Reason: Named, Err: err}
	if !file.HasSymtab() {
		debug, path := finder.find(o, file)
		if debug != nil {
			more, err := functionsOf(debug)
			debug.Close()
			functions = append(functions, more...)
			status.DebugFile = path
			status.Err = errors.Join(status.Err, err)
		} else {
			status.Reason = DebugMissing
		}
	}
	if len(functions) == 0 {
		status.Reason = NoSymbols
		return nil, status
	}
	t, err := newTable(functions)
	if err != nil {
		return nil, Status{Reason: NoSymbols, Err: err}
	}
	status.Symbols, status.Bytes = len(t.ranges), t.bytes()
	return t, status
}

func open(o *Object) (*elffile.File, error) {
	if o.Open == nil {
		return nil, fmt.Errorf("open %s: no way to open it", o.Path)
	}
	return o.Open()
}

// functionsOf reads the functions of one file. A file without symbol tables has
// none, which is no error.
func functionsOf(file *elffile.File) ([]function, error) {
	symbols, err := file.Symbols()
	if errors.Is(err, elffile.ErrNoSection) && symbols == nil {
		return nil, nil
	}
	functions := make([]function, 0, len(symbols))
	for i := range symbols {
		functions = append(functions, toFunction(file, &symbols[i]))
	}
	return functions, err
}

func toFunction(file *elffile.File, s *elffile.Symbol) function {
	f := function{name: withoutVersion(s.Name), start: s.Value, end: s.Value + s.Size, limit: s.Value, rank: rankOf(s)}
	if f.end < f.start { // a size that wraps around
		f.end = f.start
	}
	if start, end, ok := file.SectionBounds(s.Section); ok && s.Value >= start && s.Value < end {
		f.limit = end
	}
	return f
}

// Ranks of symbols, see compareNames.
const (
	rankGlobal = iota
	rankWeak
	rankLocal
	rankUntyped // added: any function before any label
)

func rankOf(s *elffile.Symbol) uint8 {
	rank := uint8(rankGlobal) // and STB_GNU_UNIQUE
	switch s.Bind {
	case elf.STB_LOCAL:
		rank = rankLocal
	case elf.STB_WEAK:
		rank = rankWeak
	}
	if s.Type == elf.STT_NOTYPE {
		rank += rankUntyped
	}
	return rank
}

// withoutVersion cuts the version off a name: "memcpy@@GLIBC_2.14".
func withoutVersion(name string) string {
	if i := strings.IndexByte(name, '@'); i > 0 {
		return name[:i]
	}
	return name
}
