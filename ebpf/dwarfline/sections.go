package dwarfline

import (
	"encoding/binary"
	"errors"
	"fmt"
)

// Sections are the DWARF sections of one file, decompressed; those that it lacks
// are nil. They are only read, and no string made from them refers to them, so that
// they may be parts of a memory-mapped file.
//
// In a .dwo or .dwp file they are the sections whose names end in .dwo, and the
// indexes of a package.
type Sections struct {
	Order binary.ByteOrder

	Info, Abbrev          []byte
	Line, LineStr         []byte
	Str, StrOffsets, Addr []byte
	Ranges, RngLists      []byte // before and since DWARF 5
	CUIndex               []byte // .debug_cu_index of a .dwp file
	Aranges               []byte // used where units do not state their ranges

	// Close releases the memory when it is no longer read. Drop says that what
	// was read so far is not needed soon, so that mapped pages may go. Both may be nil.
	Close, Drop func()
}

func (s *Sections) drop() {
	if s != nil && s.Drop != nil {
		s.Drop()
	}
}

func (s *Sections) close() {
	if s != nil && s.Close != nil {
		s.Close()
	}
}

// SplitUnit names the file that holds the entries of a unit whose skeleton is in
// the executable (DWARF 5 section 3.1.2; -gsplit-dwarf).
type SplitUnit struct {
	Name    string // DW_AT_dwo_name, mostly relative to CompDir
	CompDir string
	ID      uint64
}

// Options say where other files are found. The zero value knows none.
type Options struct {
	// Supplementary returns the sections of the file that dwz moved common
	// entries to (.gnu_debugaltlink, .debug_sup). It is called once, when the first
	// reference into it is met.
	Supplementary func() (*Sections, error)
	// Package returns the .dwp file of the executable, nil if there is none. It
	// is called once, when the first split unit is met.
	Package func() (*Sections, error)
	// Split returns the .dwo file of a unit that the package does not have.
	Split func(SplitUnit) (*Sections, error)
	// CacheBytes is the memory for units that were hit; those used last stay. 0: DefaultCacheBytes.
	CacheBytes int
}

// DefaultCacheBytes is the default of Options.CacheBytes.
const DefaultCacheBytes = 16 << 20

// Errors that callers tell apart.
var (
	// ErrNoInfo says that there is no .debug_info, or no .debug_abbrev for it.
	ErrNoInfo = errors.New("no DWARF entries")
	// ErrTooMuchWork says that a lookup was given up since the data asks for more
	// steps than any compiler's output needs.
	ErrTooMuchWork = errors.New("DWARF data asks for too much work")
	// ErrFault says that a mapped file has become shorter while it was read.
	ErrFault = errors.New("the file was truncated while it was read")
)

// FormatError says what is wrong in the data.
type FormatError struct {
	Section string // ".debug_info"
	Offset  uint64 // in the section
	Problem string
}

func (e *FormatError) Error() string {
	return fmt.Sprintf("%s at offset %#x: %s", e.Section, e.Offset, e.Problem)
}
