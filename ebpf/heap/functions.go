package heap

import (
	"debug/elf"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/headwater/headwater/ebpf/elffile"
	"github.com/headwater/headwater/ebpf/kernel"
)

// prefixes are those that allocators give their functions where the C library has its own, too:
// jemalloc, that of Rust programs, tcmalloc, mimalloc.
var prefixes = []string{"je_", "_rjem_", "tc_", "mi_"}

// calls are the functions of allocators, without a prefix: those of C, and those of their own that some have.
var calls = map[string]kernel.HeapCall{
	"malloc": kernel.HeapMalloc, "valloc": kernel.HeapNew, "pvalloc": kernel.HeapNew, "mallocx": kernel.HeapNew,
	"mi_zalloc": kernel.HeapNew, "mi_malloc_aligned": kernel.HeapNew, "calloc": kernel.HeapCalloc,
	"aligned_alloc": kernel.HeapAligned, "memalign": kernel.HeapAligned, "posix_memalign": kernel.HeapPosixMemalign,
	"realloc": kernel.HeapRealloc, "rallocx": kernel.HeapRealloc, "reallocarray": kernel.HeapReallocArray,
	"free": kernel.HeapFree, "cfree": kernel.HeapFree, "free_sized": kernel.HeapFree,
	"free_aligned_sized": kernel.HeapFree, "dallocx": kernel.HeapFree, "sdallocx": kernel.HeapFree,
}

// callOf returns what a function of an allocator does.
func callOf(name string) (call kernel.HeapCall, ok bool) {
	name, _, _ = strings.Cut(name, "@") // the version
	for _, operator := range []string{"_Znwm", "_Znam"} {
		if strings.HasPrefix(name, operator) { // new(size), and with an alignment or std::nothrow
			return kernel.HeapNew, true
		}
	}
	for _, operator := range []string{"_ZdlPv", "_ZdaPv"} {
		if strings.HasPrefix(name, operator) { // delete(block, ...)
			return kernel.HeapFree, true
		}
	}
	if call, ok = calls[name]; ok {
		return call, true
	}
	for _, prefix := range prefixes {
		if rest, has := strings.CutPrefix(name, prefix); has {
			call, ok = calls[rest]
			return call, ok
		}
	}
	return 0, false
}

// functions returns the functions of the allocator that a file has, none if it has none: one that both gives blocks and
// takes them. C++ libraries have operators that call the allocator of another file, and so no functions here. The error
// names functions that are left out because it is not certain where they return.
func functions(f *elffile.File) (found []kernel.HeapFunction, leftOut, err error) {
	if f.Class() != elf.ELFCLASS64 {
		return nil, nil, nil
	}
	for _, table := range []elf.SectionType{elf.SHT_DYNSYM, elf.SHT_SYMTAB} {
		candidates, err := functionsOf(f, table)
		if err != nil {
			return nil, nil, err
		}
		if isAllocator(candidates) {
			return followAll(f, candidates)
		}
	}
	return nil, nil, nil
}

func isAllocator(found []candidate) bool {
	has := func(call kernel.HeapCall) bool {
		return slices.ContainsFunc(found, func(f candidate) bool {
			return f.Call == call && !strings.HasPrefix(f.Name, "_Z")
		})
	}
	return has(kernel.HeapMalloc) && has(kernel.HeapFree)
}

// candidate is a function that has the name of an allocator's.
type candidate struct {
	kernel.HeapFunction
	vaddr, size uint64
}

// functionsOf returns the functions of one symbol table whose names are those of an allocator's, each place once.
func functionsOf(f *elffile.File, table elf.SectionType) (found []candidate, err error) {
	symbols, err := f.SymbolTable(table)
	if errors.Is(err, elffile.ErrNoSection) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	names, places := symbols.AllNames(), map[uint64]bool{}
	var failed error
	err = symbols.Functions(func(s elffile.Function) bool {
		if s.Type != elf.STT_FUNC {
			return true
		}
		name, err := names.At(s.Name)
		if err != nil {
			failed = err
			return false
		}
		call, ok := callOf(string(name))
		at, loaded := fileOffset(f, s.Value)
		if ok && loaded && !places[at] {
			places[at] = true
			function := kernel.HeapFunction{Name: string(name), Call: call, Offset: at, Skip: skip(f, at)}
			function.Stepped = isStepped(f, at+function.Skip)
			found = append(found, candidate{function, s.Value, s.Size})
		}
		return true
	})
	if err = errors.Join(err, failed); err != nil {
		return nil, fmt.Errorf("look for the functions of an allocator: %w", err)
	}
	return found, nil
}

// fileOffset returns where in a file the code of an address is.
func fileOffset(f *elffile.File, vaddr uint64) (offset uint64, ok bool) {
	for _, s := range f.TextSegments() {
		if vaddr >= s.Vaddr && vaddr-s.Vaddr < s.Filesz {
			return vaddr - s.Vaddr + s.Offset, true
		}
	}
	return 0, false
}
