// Package ehtest assembles call frame information for tests, and parses readelf's output about the
// call frame information of a file.
package ehtest

import "encoding/binary"

// Call frame instructions (DWARF 5, 7.24, table 7.29, and vendor extensions).
const (
	AdvanceLoc  = 0x40 // | delta
	OffsetReg   = 0x80 // | register
	RestoreReg  = 0xc0 // | register
	Nop         = 0x00
	SetLoc      = 0x01
	AdvanceLoc1 = 0x02
	AdvanceLoc2 = 0x03
	AdvanceLoc4 = 0x04

	OffsetExtended   = 0x05
	RestoreExtended  = 0x06
	Undefined        = 0x07
	SameValue        = 0x08
	Register         = 0x09
	RememberState    = 0x0a
	RestoreState     = 0x0b
	DefCFA           = 0x0c
	DefCFARegister   = 0x0d
	DefCFAOffset     = 0x0e
	DefCFAExpression = 0x0f
	Expression       = 0x10
	OffsetExtendedSF = 0x11
	DefCFASF         = 0x12
	DefCFAOffsetSF   = 0x13
	ValOffset        = 0x14
	ValOffsetSF      = 0x15
	ValExpression    = 0x16

	MIPSAdvanceLoc8           = 0x1d
	AArch64NegateRAStatePC    = 0x2c
	AArch64NegateRAState      = 0x2d
	GNUArgsSize               = 0x2e
	GNUNegativeOffsetExtended = 0x2f
)

// Asm is assembled bytes, little endian.
type Asm []byte

// Op appends an opcode or any other single byte.
func (a Asm) Op(b byte) Asm { return append(a, b) }

// U16 appends two bytes.
func (a Asm) U16(v uint16) Asm { return binary.LittleEndian.AppendUint16(a, v) }

// U32 appends four bytes.
func (a Asm) U32(v uint32) Asm { return binary.LittleEndian.AppendUint32(a, v) }

// U64 appends eight bytes.
func (a Asm) U64(v uint64) Asm { return binary.LittleEndian.AppendUint64(a, v) }

// Uleb appends an unsigned LEB128 number.
func (a Asm) Uleb(v uint64) Asm { return binary.AppendUvarint(a, v) }

// Sleb appends a signed LEB128 number.
func (a Asm) Sleb(v int64) Asm {
	for {
		c := byte(v & 0x7f)
		v >>= 7
		if v == 0 && c&0x40 == 0 || v == -1 && c&0x40 != 0 {
			return append(a, c)
		}
		a = append(a, c|0x80)
	}
}

// Block appends b after its length.
func (a Asm) Block(b Asm) Asm { return append(a.Uleb(uint64(len(b))), b...) }

// Str appends a zero-terminated string.
func (a Asm) Str(s string) Asm { return append(append(a, s...), 0) }
