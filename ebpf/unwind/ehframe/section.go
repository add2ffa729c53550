// Package ehframe reads call frame information: the entries of .eh_frame and .debug_frame, the
// binary search table of .eh_frame_hdr, and the complete rows that the call frame instructions
// produce.
//
// It reads bytes only from a Source and writes no data. No input makes it panic, and its work is
// bounded by the length of the input.
//
// The formats are from DWARF 5 section 6.4; Linux Standard Base Core 5.0 section 10.6 (.eh_frame,
// .eh_frame_hdr, pointer encodings); DWARF for the Arm 64-bit Architecture, ABI release 2024Q3
// (return address signing).
package ehframe

import (
	"encoding/binary"
	"errors"
)

// Source gives access to the bytes of a section.
type Source interface {
	// Slice returns n bytes from offset off, or fewer at the end of the section. The slice is valid
	// until the next call and must not be modified.
	Slice(off uint64, n int) ([]byte, error)
}

// Bytes is a section held in memory.
type Bytes []byte

// Slice returns n bytes from offset off, or fewer at the end of b.
func (b Bytes) Slice(off uint64, n int) ([]byte, error) {
	if off >= uint64(len(b)) || n <= 0 {
		return nil, nil
	}
	return b[off:min(uint64(len(b)), off+uint64(n))], nil
}

// Section is one section of call frame information.
type Section struct {
	Source   Source
	CIEs     Source           // another Source of the same bytes, for CIEs far from their FDEs; Source if nil
	Size     uint64           // bytes in the section
	Addr     uint64           // ELF virtual address of the first byte; 0 for .debug_frame
	TextAddr uint64           // base of text-relative pointers
	DataAddr uint64           // base of data-relative pointers: the GOT
	Order    binary.ByteOrder // of the ELF file
	AddrSize int              // 4 or 8, from the ELF class
	Debug    bool             // .debug_frame, not .eh_frame
}

// Errors that callers may want to distinguish.
var (
	ErrTruncated    = errors.New("call frame information ends early")
	ErrUnsupported  = errors.New("unsupported call frame information")
	ErrInvalid      = errors.New("invalid call frame information")
	ErrEndOfSection = errors.New("end of section")
)
