package heap

import (
	"debug/elf"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/headwater/headwater/ebpf/kernel"
	"github.com/headwater/headwater/ebpf/object/elffile"
)

// prefixes are the prefixes of allocator functions where the C library also has its own: of jemalloc, of jemalloc in
// Rust programs, of tcmalloc and of mimalloc.
var prefixes = []string{"je_", "_rjem_", "tc_", "mi_"}

// calls are the functions of allocators, without a prefix: the functions of C, and jemalloc's own.
var calls = map[string]kernel.HeapCall{
	"malloc": kernel.HeapMalloc, "valloc": kernel.HeapNew, "pvalloc": kernel.HeapNew, "mallocx": kernel.HeapNew,
	"calloc": kernel.HeapCalloc, "aligned_alloc": kernel.HeapAligned, "memalign": kernel.HeapAligned,
	"posix_memalign": kernel.HeapPosixMemalign,
	"realloc":        kernel.HeapRealloc, "rallocx": kernel.HeapRealloc, "reallocarray": kernel.HeapReallocArray,
	"free": kernel.HeapFree, "cfree": kernel.HeapFree, "free_sized": kernel.HeapFree,
	"free_aligned_sized": kernel.HeapFree, "dallocx": kernel.HeapFree, "sdallocx": kernel.HeapFree,
}

// mimalloc are the functions of mimalloc that C and C++ do not have: Rust's crate, Python and databases call them. With
// a heap before the other arguments, their names start with mi_heap_. Functions that return a block in its place, such
// as mi_expand, are left out.
var mimalloc = map[string]kernel.HeapCall{
	"malloc_small": kernel.HeapNew, "malloc_aligned": kernel.HeapNew, "malloc_aligned_at": kernel.HeapNew,
	"zalloc": kernel.HeapNew, "zalloc_small": kernel.HeapNew, "zalloc_aligned": kernel.HeapNew,
	"zalloc_aligned_at": kernel.HeapNew, "mallocn": kernel.HeapCalloc, "calloc_aligned": kernel.HeapCalloc,
	"calloc_aligned_at": kernel.HeapCalloc,
	"realloc_aligned":   kernel.HeapRealloc, "realloc_aligned_at": kernel.HeapRealloc, "reallocf": kernel.HeapRealloc,
	"rezalloc": kernel.HeapRealloc, "rezalloc_aligned": kernel.HeapRealloc, "rezalloc_aligned_at": kernel.HeapRealloc,
	"reallocn": kernel.HeapReallocArray, "recalloc": kernel.HeapReallocArray,
	"recalloc_aligned": kernel.HeapReallocArray, "recalloc_aligned_at": kernel.HeapReallocArray,
	"aligned_recalloc": kernel.HeapReallocArray, "aligned_offset_recalloc": kernel.HeapReallocArray,
	"new": kernel.HeapNew, "new_nothrow": kernel.HeapNew, "new_aligned": kernel.HeapNew,
	"new_aligned_nothrow": kernel.HeapNew, "new_n": kernel.HeapCalloc, "new_realloc": kernel.HeapRealloc,
	"new_reallocn": kernel.HeapReallocArray, "alloc_new": kernel.HeapNew, "alloc_new_n": kernel.HeapCalloc,
	"free_size": kernel.HeapFree, "free_size_aligned": kernel.HeapFree, "free_aligned": kernel.HeapFree,
}

// ofHeap returns the call with a heap before its arguments.
var ofHeap = map[kernel.HeapCall]kernel.HeapCall{
	kernel.HeapMalloc: kernel.HeapAligned, kernel.HeapNew: kernel.HeapAligned, kernel.HeapCalloc: kernel.HeapOfCalloc,
	kernel.HeapRealloc: kernel.HeapOfRealloc, kernel.HeapReallocArray: kernel.HeapOfReallocArray,
}

// callOf returns the call that the name of an allocator function stands for.
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
	if rest, has := strings.CutPrefix(name, "mi_heap_"); has {
		if strings.HasPrefix(rest, "new") { // a function that makes a heap; mi_heap_alloc_new makes blocks
			return 0, false
		}
		if call, ok = mimalloc[rest]; !ok {
			call, ok = calls[rest]
		}
		call, is := ofHeap[call]
		return call, ok && is
	}
	if rest, has := strings.CutPrefix(name, "mi_"); has {
		if call, ok = mimalloc[rest]; ok {
			return call, ok
		}
	}
	for _, prefix := range prefixes {
		if rest, has := strings.CutPrefix(name, prefix); has {
			call, ok = calls[rest]
			return call, ok
		}
	}
	return 0, false
}

// functions returns the functions of the allocator of a file, none if it has no allocator, which must both give and
// take blocks. C++ libraries have operators that call the allocator of another file, and so no functions here. The
// error names functions that are left out because it is not certain where they return.
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
	takes := func(f candidate) bool { return f.Call == kernel.HeapFree && !isOperator(f.Name) }
	return slices.ContainsFunc(found, candidate.gives) && slices.ContainsFunc(found, takes)
}

// gives reports whether most blocks of an allocator may come from a function: malloc, or its substitute where the
// linker has left out unused functions.
func (c candidate) gives() bool {
	own := slices.ContainsFunc(prefixes, func(prefix string) bool { return strings.HasPrefix(c.Name, prefix) })
	return c.Call == kernel.HeapMalloc || own && c.Call != kernel.HeapFree
}

func isOperator(name string) bool { return strings.HasPrefix(name, "_Z") }

// candidate is a function with the name of an allocator function.
type candidate struct {
	kernel.HeapFunction
	vaddr, size uint64
}

// functionsOf returns the functions of one symbol table with the names of allocator functions, each place once.
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
			function := kernel.HeapFunction{Name: string(name), Call: call, Offset: at, Skip: skipPrologue(f, at)}
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

// fileOffset returns the offset in a file of the code at an address.
func fileOffset(f *elffile.File, vaddr uint64) (offset uint64, ok bool) {
	for _, s := range f.TextSegments() {
		if vaddr >= s.Vaddr && vaddr-s.Vaddr < s.Filesz {
			return vaddr - s.Vaddr + s.Offset, true
		}
	}
	return 0, false
}
