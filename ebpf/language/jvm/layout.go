// Package jvm reads the code cache of the HotSpot Java VM from the memory of the process: the pieces of code, the
// layout of their frames, and their names.
//
// The VM describes its own data structures for its serviceability agent: tables of types, fields and constants, at
// symbols that start with gHotSpotVM (OpenJDK, src/hotspot/share/runtime/vmStructs.hpp). This package uses only these
// tables, so that it does not depend on a version. The data may change at any moment, or be nonsense: all of it is
// checked, and work is bounded.
package jvm

import (
	"errors"
	"fmt"
	"io"

	"github.com/headwater/headwater/ebpf/language"
)

// Errors that callers act on.
var (
	// ErrNotHotSpot reports that a library has no HotSpot description.
	ErrNotHotSpot = fmt.Errorf("no description of a HotSpot VM: %w", language.ErrUnknown)
	// ErrNotReady reports that the VM has no code cache yet.
	ErrNotReady = fmt.Errorf("no code cache: %w", language.ErrNotReady)

	errImplausible = errors.New("implausible")
)

// field is the location of a field: an offset in its object, or the ELF virtual address of a static field.
type field struct {
	at     uint64
	static bool
	typ    string // the C++ type
}

// Layout is the data structure layout of a build of HotSpot. It is the same in all processes that have mapped the same
// library.
type Layout struct {
	fields map[string]field  // by "Type::name"
	sizes  map[string]uint64 // of types, in bytes
	blobs  blobLayout
	names  nameLayout
	debug  debugLayout
	frames interpretedLayout
	perf   perfLayout

	continuations continuationLayout

	version  int  // of Java; 0 if unknown
	excluded byte // number encodings have no bytes below this, see unsigned5
}

// symbolPrefix starts the names of the symbols of the description.
const symbolPrefix = "gHotSpotVM"

const maxVersion = 1000

// MaxEntries bounds the tables; the largest has some 3,500 entries.
const MaxEntries = 1 << 15

// readLayout reads the description by the symbols of libjvm, which are ELF virtual addresses.
func readLayout(symbols map[string]uint64, bias uint64, process io.ReaderAt) (*Layout, error) {
	r := layoutReader{memory: memory{r: &cached{r: process, chunks: map[int64][]byte{}}}, symbols: symbols, bias: bias}
	l := &Layout{fields: map[string]field{}, sizes: map[string]uint64{}}
	r.structs(l)
	r.types(l)
	if r.err != nil {
		return nil, fmt.Errorf("HotSpot's description of itself: %w", r.err)
	}
	if err := l.resolve(); err != nil {
		return nil, err
	}
	if version := l.fields["Abstract_VM_Version::_vm_major_version"]; version.static {
		l.version = int(min(r.u32(version.at+bias), maxVersion))
		if l.blobs.heaps == 0 {
			l.version = 8 // it reports version 25, and has one heap
		}
		if l.version >= 20 {
			l.excluded = 1
		}
	}
	l.fields, l.sizes = nil, nil
	return l, nil
}

// layoutReader reads the tables.
type layoutReader struct {
	memory
	symbols map[string]uint64
	bias    uint64
}

// symbol returns the value of the 64-bit variable of that name.
func (r *layoutReader) symbol(name string) uint64 {
	at, ok := r.symbols[symbolPrefix+name]
	if !ok && r.err == nil {
		r.err = fmt.Errorf("%s%s: %w", symbolPrefix, name, ErrNotHotSpot)
	}
	return r.u64(at + r.bias)
}

// relocated returns a pointer into libjvm. The error is ErrNotReady if the pointer still has its value from the file,
// which the dynamic loader has not relocated yet: GNU ld writes link-time addresses there (ELF for x86-64,
// R_X86_64_RELATIVE).
func (r *layoutReader) relocated(pointer uint64) uint64 {
	if r.err == nil && pointer != 0 && pointer < r.bias {
		r.err = ErrNotReady
	}
	return pointer
}

// pointer reads a pointer into libjvm, see relocated.
func (r *layoutReader) pointer(at uint64) uint64 { return r.relocated(r.u64(at)) }

// eachEntry calls yield for the entries of a table until yield returns false.
func (r *layoutReader) eachEntry(table, entry string, yield func(at uint64) bool) {
	at, stride := r.relocated(r.symbol(table)), r.symbol(entry+"ArrayStride")
	if r.err == nil && (at == 0 || stride == 0) {
		r.err = ErrNotReady // not relocated yet
	}
	for range MaxEntries {
		if r.err != nil || !yield(at) {
			return
		}
		at += stride
	}
	if r.err == nil {
		r.err = fmt.Errorf("%s of more than %d entries: %w", table, MaxEntries, errImplausible)
	}
}

// structs reads the fields. The last entry has no type.
func (r *layoutReader) structs(l *Layout) {
	const entry = "StructEntry"
	typeName, fieldName := r.symbol(entry+"TypeNameOffset"), r.symbol(entry+"FieldNameOffset")
	typeString, static := r.symbol(entry+"TypeStringOffset"), r.symbol(entry+"IsStaticOffset")
	offset, address := r.symbol(entry+"OffsetOffset"), r.symbol(entry+"AddressOffset")
	r.eachEntry("Structs", entry, func(at uint64) bool {
		typ, name := r.pointer(at+typeName), r.pointer(at+fieldName)
		if typ == 0 || name == 0 {
			return false
		}
		f := field{at: r.u64(at + offset)}
		if text := r.pointer(at + typeString); text != 0 {
			f.typ = r.cString(text)
		}
		if r.u32(at+static) != 0 {
			f = field{at: r.pointer(at+address) - r.bias, static: true, typ: f.typ}
		}
		l.fields[r.cString(typ)+"::"+r.cString(name)] = f
		return true
	})
}

// types reads the sizes of types.
func (r *layoutReader) types(l *Layout) {
	const entry = "TypeEntry"
	typeName, size := r.symbol(entry+"TypeNameOffset"), r.symbol(entry+"SizeOffset")
	r.eachEntry("Types", entry, func(at uint64) bool {
		typ := r.pointer(at + typeName)
		if typ == 0 {
			return false
		}
		l.sizes[r.cString(typ)] = r.u64(at + size)
		return true
	})
}
