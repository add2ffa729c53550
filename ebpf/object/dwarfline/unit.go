package dwarfline

import (
	"debug/dwarf"
	"fmt"
)

// Unit types of DWARF 5, table 7.2.
const (
	unitCompile      = 1
	unitType         = 2
	unitSkeleton     = 4
	unitSplitCompile = 5
	unitSplitType    = 6
)

// file holds the sections of one file and the offsets of its units.
type file struct {
	*Sections
	units  []uint64 // offsets of all units in .debug_info, rising; nil before indexUnits
	splits bool     // a .dwo or .dwp file
}

// header is the header of a unit (DWARF 5 section 7.5.1).
type header struct {
	encoding
	kind     uint8
	at, end  uint64 // start and end offset in .debug_info
	first    uint64 // offset of the root entry
	abbrevAt uint64
	id       uint64 // of a skeleton or split unit in DWARF 5
}

// readHeader reads the header at an offset of .debug_info.
func (f *file) readHeader(at uint64) (header, error) {
	c := newCursor(".debug_info", f.Info, f.Order, at)
	h := header{at: at, kind: unitCompile}
	h.offsetSize = c.unitLength()
	h.end = uint64(len(c.data))
	version := c.fixed(2)
	if c.err == nil && (version < 2 || version > 5) {
		c.failWith(fmt.Sprintf("unknown DWARF version %d", version))
	}
	h.version = uint8(version)
	if version >= 5 {
		h.kind, h.addressSize = c.u8(), c.u8()
		h.abbrevAt = c.fixed(h.offsetSize)
	} else {
		h.abbrevAt = c.fixed(h.offsetSize)
		h.addressSize = c.u8()
	}
	switch h.kind {
	case unitSkeleton, unitSplitCompile:
		h.id = c.fixed(8)
	case unitType, unitSplitType:
		c.skipBytes(8 + uint64(h.offsetSize))
	}
	if c.err == nil && h.addressSize != 4 && h.addressSize != 8 {
		c.failWith(fmt.Sprintf("addresses of %d bytes", h.addressSize))
	}
	h.first = c.at
	return h, c.err
}

// unit is a unit with its root entry.
type unit struct {
	header
	*file
	abbrevs *abbrevTable
	root    entry

	addresses *file  // file with .debug_addr; for a split unit, the file of its skeleton
	ranges    *file  // file with .debug_ranges, likewise
	base      uint64 // DW_AT_low_pc, the base address of range lists
	addrBase  uint64
	strBase   uint64
	rngBase   uint64
	skeleton  *unit // skeleton of a split unit
	owned     bool  // the unit closes its file, a .dwo
}

// readUnit reads a unit's root entry. If rootOnly is set, it reads only the abbreviation of the
// root.
func readUnit(f *file, at uint64, rootOnly bool, w *work) (*unit, error) {
	h, err := f.readHeader(at)
	if err != nil {
		return nil, err
	}
	return rootOf(f, h, rootOnly, w)
}

func rootOf(f *file, h header, rootOnly bool, w *work) (*unit, error) {
	u := &unit{header: h, file: f, addresses: f, ranges: f}
	c := u.cursor(h.first)
	only := uint64(0)
	if rootOnly {
		peek := c
		only = peek.uleb()
		if only == 0 || peek.err != nil { // a unit without entries
			return u, peek.err
		}
	}
	var err error
	u.abbrevs, err = readAbbrevs(f.Abbrev, f.Order, h.abbrevAt, h.encoding, only, w)
	if err != nil {
		return nil, err
	}
	u.abbrevs.readEntry(&c, u.encoding, &u.root)
	if c.err != nil {
		return nil, c.err
	}
	u.readBases()
	return u, nil
}

// readBases reads the offsets of the unit's parts in other sections. A split unit has no attributes
// for them: its parts start right after the section's header.
func (u *unit) readBases() {
	if v, ok := u.root.getField(fieldAddrBase); ok {
		u.addrBase = v.n
	}
	if u.splits && u.version >= 5 {
		u.strBase = 2 * uint64(u.offsetSize)
		u.rngBase = 2*uint64(u.offsetSize) + 4
	}
	if v, ok := u.root.getField(fieldStrOffsetsBase); ok {
		u.strBase = v.n
	}
	if v, ok := u.root.getField(fieldRnglistsBase); ok {
		u.rngBase = v.n
	}
	if v, ok := u.root.getField(fieldLowPC); ok {
		u.base, _ = u.address(v)
	}
}

// cursor returns a cursor at an offset in .debug_info, limited to the unit.
func (u *unit) cursor(at uint64) cursor {
	return newCursor(".debug_info", u.Info[:u.end], u.Order, at)
}

// address returns the address of a value, which is an address or the index of one.
func (u *unit) address(v value) (uint64, error) {
	switch v.form {
	case formAddr:
		return v.n, nil
	case formAddrx, formAddrx1, formAddrx2, formAddrx3, formAddrx4, formGNUAddrIndex:
		return u.addressAt(v.n)
	}
	return 0, &FormatError{".debug_info", u.at, fmt.Sprintf("form %#x is no address", uint16(v.form))}
}

// addressAt returns an address by its index in the unit's part of .debug_addr.
func (u *unit) addressAt(index uint64) (uint64, error) {
	at := u.addrBase + index*uint64(u.addressSize)
	if index > 1<<40 || at < u.addrBase {
		return 0, &FormatError{".debug_addr", at, "index is past the end of the section"}
	}
	c := newCursor(".debug_addr", u.addresses.Addr, u.Order, at)
	return c.fixed(u.addressSize), c.err
}

// isAddress reports whether DW_AT_high_pc is an address, not the number of bytes from DW_AT_low_pc.
func isAddress(f form) bool {
	switch f {
	case formAddr, formAddrx, formAddrx1, formAddrx2, formAddrx3, formAddrx4, formGNUAddrIndex:
		return true
	}
	return false
}

// textOf returns the string of a value. sup returns the supplementary file.
func (u *unit) textOf(v value, sup func() (*file, error)) (string, error) {
	switch v.form {
	case formString:
		return stringAt(".debug_info", u.Info[:u.end], v.n)
	case formStrp:
		return stringAt(".debug_str", u.Str, v.n)
	case formLineStrp:
		return stringAt(".debug_line_str", u.LineStr, v.n)
	case formStrx, formStrx1, formStrx2, formStrx3, formStrx4, formGNUStrIndex:
		at := u.strBase + v.n*uint64(u.offsetSize)
		if v.n > 1<<40 || at < u.strBase {
			return "", &FormatError{".debug_str_offsets", at, "index is past the end of the section"}
		}
		c := newCursor(".debug_str_offsets", u.StrOffsets, u.Order, at)
		offset := c.fixed(u.offsetSize)
		if c.err != nil {
			return "", c.err
		}
		return stringAt(".debug_str", u.Str, offset)
	case formStrpSup, formGNUStrpAlt:
		f, err := sup()
		if err != nil {
			return "", err
		}
		return stringAt(".debug_str of the supplementary file", f.Str, v.n)
	}
	return "", &FormatError{".debug_info", u.at, fmt.Sprintf("form %#x is no string", uint16(v.form))}
}

// isCode reports whether the unit may have functions with addresses: it is not a type unit or a
// partial unit.
func (u *unit) isCode() bool {
	return u.root.tag == dwarf.TagCompileUnit || u.root.tag == dwarf.TagSkeletonUnit
}

// manglesNames reports whether symbol names differ from source names in the unit's language (DWARF
// 5 table 7.17).
func (u *unit) manglesNames() bool {
	v, _ := u.root.getField(fieldLanguage)
	switch v.n {
	case 0x01, 0x02, 0x0c, 0x1d, 0x2c, // C
		0x03, 0x05, 0x06, 0x07, 0x09, 0x0f, 0x12, // Ada 83, COBOL, Fortran 77, Pascal, PL/I, UPC
		0x16, 0x8001: // Go, assembly
		return false
	}
	return true
}
