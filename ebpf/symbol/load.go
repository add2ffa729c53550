package symbol

import (
	"debug/elf"
	"errors"
	"fmt"
	"strings"

	"github.com/headwater/headwater/ebpf/elffile"
)

// load opens an object and its separate debug file and prepares what names its
// code. The names are nil if nothing does.
func load(o *Object, finder *debugFinder) (*names, Status) {
	file, err := open(o)
	if err != nil {
		return nil, Status{Reason: Unreadable, Err: err}
	}
	n := &names{files: files{object: file}}
	status := Status{Reason: Named}
	if !file.HasSymtab() || !file.HasSection(debugInfo) {
		n.files.debug, n.files.debugPath = finder.find(o, file)
		status.DebugFile = n.files.debugPath
	}
	if !file.HasSymtab() && n.files.debug == nil {
		status.Reason = DebugMissing
	}
	n.sources = sources(&n.files, &status)
	if len(n.sources) == 0 {
		n.close()
		status.Reason = NoSymbols
		return nil, status
	}
	status.Bytes = n.bytesLocked()
	return n, status
}

// debugInfo is the section of DWARF that names functions.
const debugInfo = ".debug_info"

// sources returns what names the code of files, the most telling first. It adds
// to status how many symbols there are and what went wrong.
func sources(files *files, status *Status) []source {
	var all []source
	table, err := symbolTable(files)
	status.Err = errors.Join(status.Err, err)
	if table != nil {
		all = append(all, table)
		status.Symbols += len(table.ranges)
	}
	return all
}

// symbolTable reads .symtab and .dynsym of the object and of its debug file; nil
// if there is no function in them.
func symbolTable(files *files) (*table, error) {
	functions, err := functionsOf(files.object)
	if files.debug != nil {
		more, failed := functionsOf(files.debug)
		functions = append(functions, more...)
		err = errors.Join(err, failed)
	}
	if len(functions) == 0 {
		return nil, err
	}
	t, failed := newTable(functions)
	if failed != nil {
		return nil, errors.Join(err, failed)
	}
	return t, err
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
