package dwarfline

import (
	"encoding/binary"
	"errors"
	"fmt"
)

// Sections are the DWARF sections of one file, decompressed; missing sections are nil. The package
// only reads them and copies all strings, so they may be parts of a memory-mapped file.
//
// In a .dwo or .dwp file they are the sections whose names end in .dwo, and the index of a package.
type Sections struct {
	Order binary.ByteOrder

	Info, Abbrev          []byte
	Line, LineStr         []byte
	Str, StrOffsets, Addr []byte
	Ranges, RngLists      []byte // before and since DWARF 5
	CUIndex               []byte // .debug_cu_index of a .dwp file
	Aranges               []byte // used where units do not state their ranges

	// Close releases the memory after the last read. Drop says that the data read so far is not
	// needed soon, so mapped pages may be dropped. Both may be nil.
	Close, Drop func()
}

func (s *Sections) dropPages() {
	if s != nil && s.Drop != nil {
		s.Drop()
	}
}

func (s *Sections) close() {
	if s != nil && s.Close != nil {
		s.Close()
	}
}

// SplitUnit names the file with the entries of a unit whose skeleton is in the executable (DWARF 5
// section 3.1.2; -gsplit-dwarf).
type SplitUnit struct {
	Name    string // DW_AT_dwo_name, usually relative to CompDir
	CompDir string
	ID      uint64
}

// Options give access to other files. The zero value has none.
type Options struct {
	// Supplementary returns the sections of the file into which dwz moved common entries
	// (.gnu_debugaltlink, .debug_sup). It is called once, for the first reference into that file.
	Supplementary func() (*Sections, error)
	// Package returns the .dwp file of the executable, nil if there is none. It is called once, for
	// the first split unit.
	Package func() (*Sections, error)
	// Split returns the .dwo file of a unit that is not in the package.
	Split func(SplitUnit) (*Sections, error)
	// CacheBytes bounds the memory for the least recently used cache of units. DefaultCacheBytes if
	// 0.
	CacheBytes int
}

// DefaultCacheBytes is the default of Options.CacheBytes.
const DefaultCacheBytes = 16 << 20

// Errors that callers distinguish.
var (
	// ErrNoInfo says that .debug_info or .debug_abbrev is missing.
	ErrNoInfo = errors.New("no DWARF entries")
	// ErrTooMuchWork says that a lookup was stopped because the data requires more steps than the
	// output of any compiler.
	ErrTooMuchWork = errors.New("DWARF data asks for too much work")
	// ErrFault says that a mapped file was truncated during a read.
	ErrFault = errors.New("the file was truncated while it was read")
)

// FormatError describes malformed data.
type FormatError struct {
	Section string // ".debug_info"
	Offset  uint64 // in the section
	Problem string
}

func (e *FormatError) Error() string {
	return fmt.Sprintf("%s at offset %#x: %s", e.Section, e.Offset, e.Problem)
}
