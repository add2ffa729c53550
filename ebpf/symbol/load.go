package symbol

import (
	"debug/elf"
	"errors"
	"fmt"

	"github.com/headwater/headwater/ebpf/object/elffile"
)

// loadNames opens an object and its separate debug file and prepares the sources of its names, or of the starts of its
// functions. The names are nil if there is no source.
func loadNames(o *Object, finder *debugFinder) (*names, Status) {
	file, err := openObject(o)
	if err != nil {
		return nil, Status{Reason: Unreadable, Err: err}
	}
	n := &names{files: files{object: file}, starts: newStarts(file)}
	status := Status{Reason: Named}
	if !file.HasSymtab() || !file.HasSection(debugInfo) {
		w := wantedOf(o, file)
		debug, slow := finder.Find(w)
		n.files.debug, n.files.debugPath, status.own = debug.File, debug.Path, debug.Own
		if n.files.debug == nil && !file.HasSymtab() && !file.IsGo() {
			n.files.debug, n.files.debugPath, status.Fetch = finder.fetch(w)
		}
		status.Err = slow
		if status.DebugFile = n.files.debugPath; n.files.debug == nil &&
			(slow != nil || !file.HasSymtab() && !file.IsGo()) {
			status.missing = &w
		}
	}
	n.sources = addDWARF(sources(&n.files, labels{n.starts, file}, &status), o, &n.files, finder)
	if len(n.sources) == 0 {
		status.Reason = NoSymbols
	}
	if len(n.sources) == 0 && n.starts == nil {
		n.close()
		return nil, status
	}
	status.Bytes = n.bytesLocked()
	return n, status
}

func openObject(o *Object) (*elffile.File, error) {
	if o.Open == nil {
		return nil, fmt.Errorf("open %s: no way to open it", o.Path)
	}
	return o.Open()
}

// debugInfo is the DWARF section with the names of functions.
const debugInfo = ".debug_info"

// sources returns the sources of names for files, the most detailed first. It adds the number of symbols and the errors
// to status. reach finds the end of functions of unknown size.
func sources(files *files, reach labelReach, status *Status) []source {
	var all []source
	failed := func(err error) { status.Err = errors.Join(status.Err, err) }

	program, err := newGolang(files.object)
	failed(err)
	if program != nil {
		all = append(all, program)
		status.Symbols += program.len()
		// Go's table is complete: all other symbols are of linked C code.
		return append(all, &lazy{make: func() source { return lateSymbols(files.object, reach) }})
	}
	full := files.object
	if files.debug != nil && !full.HasSymtab() {
		full = files.debug
	}
	symbols, err := readSymbols(full, elf.SHT_SYMTAB, reach)
	failed(err)
	if len(symbols) > 0 {
		all = append(all, symbols)
		status.Symbols += symbols.count()
		// Exported symbols are also in .symtab, unless they were removed there.
		all = append(all, &lazy{make: func() source { return exported(files.object, reach) }})
		return append(all, &lazy{make: func() source { return stubsOf(files.object, all) }})
	}
	status.Reason = DebugMissing
	mini, count, err := miniDebug(files.object, reach)
	failed(err)
	if mini != nil {
		all = append(all, mini)
		status.Symbols += count
		status.Reason = Named
	}
	symbols, err = readSymbols(files.object, elf.SHT_DYNSYM, reach)
	failed(err)
	if len(symbols) > 0 {
		all = append(all, symbols)
		status.Symbols += symbols.count()
	}
	if len(all) > 0 {
		return append(all, &lazy{make: func() source { return stubsOf(files.object, all) }})
	}
	if stubs := stubsOf(files.object, nil); stubs != nil {
		all = append(all, stubs)
	}
	return all
}

// stubsOf returns the source of the names of a file's stubs, or nil if there are none. On errors stubs have no names,
// as in files without sections.
func stubsOf(file *elffile.File, sources []source) source {
	named, _ := stubs(file, func(at uint64) []Frame {
		for _, s := range sources {
			if frames := s.frames(at); len(frames) > 0 {
				return frames
			}
		}
		return nil
	})
	return named
}

// lateSymbols returns the symbols of a file whose functions are named by a different source, or nil if there are none.
func lateSymbols(file *elffile.File, reach labelReach) source {
	if symbols, _ := readSymbols(file, elf.SHT_SYMTAB, reach); len(symbols) > 0 {
		return symbols
	}
	return exported(file, reach)
}

// exported returns the symbols that a file exports, or nil if there are none.
func exported(file *elffile.File, reach labelReach) source {
	if symbols, _ := readSymbols(file, elf.SHT_DYNSYM, reach); len(symbols) > 0 {
		return symbols
	}
	return nil
}
