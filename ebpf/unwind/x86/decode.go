// Package x86 decodes the parts of x86-64 instructions that affect the stack and the control flow:
// lengths, opcodes, operands. The formats are from the Intel manual, volume 2, chapter 2 and
// appendix A, including AVX and AVX-512, and from AMD's XOP.
package x86

import "encoding/binary"

// Instruction is one instruction.
type Instruction struct {
	Length  int
	Opcode  byte
	Table   byte // 0: one byte; 1: 0f; 2: 0f 38; 3: 0f 3a; larger: tables of vector instructions
	Vector  bool // VEX, EVEX or XOP
	Wide    bool // 64-bit operands, set by a prefix
	Short   bool // 16-bit operands, set by a prefix
	Segment bool // the memory operand is relative to fs or gs
	REX     bool // it has a REX prefix
	Repeat  byte // the last prefix of f2 and f3, which may be a part of the opcode; 0 if none
	Extra   byte // third register operand, of a prefix of vector instructions
	Reg, RM byte // of ModRM, extended by prefix bits; RM also for opcodes that contain a register
	Mod     byte // 3: RM is a register
	Base    byte // of a memory operand: a register, NoBase, or RIPBase, relative to the next instruction
	Index   bool // the memory operand has an index
	Disp    int64
	Imm     int64 // immediate, or distance of a jump
}

// Values of Base that are not registers.
const (
	NoBase  = 0xff
	RIPBase = 0xfe
)

// maxLength is the maximum length of an instruction in bytes.
const maxLength = 15

// Numbers of registers.
const (
	RAX = 0
	RDX = 2
	RBX = 3
	RSP = 4
	RBP = 5
	R13 = 13
)

// Operands after an opcode.
const (
	none    = 0
	modRM   = 1 << iota
	imm8    // or an 8-bit displacement of a jump
	imm16   //
	immZ    // 32 bits, or 16 with a prefix
	imm32   //
	immV    // as immZ; 64 bits with REX.W
	moffs   // an address
	group3  // an immediate if ModRM.reg is 0 or 1
	invalid //
)

// oneByte returns the operands of a one-byte opcode.
func oneByte(op byte) int {
	switch {
	case op < 0x40:
		switch op & 7 {
		case 0, 1, 2, 3:
			return modRM
		case 4:
			return imm8
		case 5:
			return immZ
		}
		return invalid
	case op < 0x60, op >= 0x6c && op <= 0x6f, op >= 0x90 && op <= 0x99, op >= 0x9b && op <= 0x9f, op >= 0xa4 &&
		op <= 0xa7, op >= 0xaa && op <= 0xaf:
		return none
	case op >= 0x70 && op <= 0x7f, op >= 0xb0 && op <= 0xb7, op >= 0xe0 && op <= 0xe7:
		return imm8
	case op >= 0x84 && op <= 0x8f, op >= 0xd0 && op <= 0xd3, op >= 0xd8 && op <= 0xdf:
		return modRM
	case op >= 0xb8 && op <= 0xbf:
		return immV
	case op >= 0xa0 && op <= 0xa3:
		return moffs
	}
	switch op {
	case 0x63, 0xfe, 0xff:
		return modRM
	case 0x68, 0xa9, 0xe8, 0xe9:
		return immZ
	case 0x69, 0x81, 0xc7:
		return modRM | immZ
	case 0x6b, 0x80, 0x83, 0xc0, 0xc1, 0xc6:
		return modRM | imm8
	case 0x6a, 0xa8, 0xcd, 0xeb:
		return imm8
	case 0xc2, 0xca:
		return imm16
	case 0xc8:
		return imm16 | imm8
	case 0xf6, 0xf7:
		return modRM | group3
	case 0xc3, 0xc9, 0xcb, 0xcc, 0xcf, 0xd7, 0xec, 0xed, 0xee, 0xef, 0xf1, 0xf4, 0xf5, 0xf8, 0xf9, 0xfa, 0xfb, 0xfc,
		0xfd:
		return none
	}
	return invalid
}

// oneByteFollows caches oneByte for each opcode. A lookup is faster than its comparisons.
var oneByteFollows = func() (table [256]uint16) {
	for op := range table {
		table[op] = uint16(oneByte(byte(op)))
	}
	return table
}()

// twoByte returns the operands of an opcode after 0f.
func twoByte(op byte) int {
	switch {
	case op >= 0x80 && op <= 0x8f:
		return immZ
	case op >= 0x30 && op <= 0x35, op == 0x37, op >= 0xc8 && op <= 0xcf:
		return none
	case op >= 0x70 && op <= 0x73:
		return modRM | imm8
	}
	switch op {
	case 0x05, 0x06, 0x07, 0x08, 0x09, 0x0b, 0x0e, 0x77, 0xa0, 0xa1, 0xa2, 0xa8, 0xa9, 0xaa:
		return none
	case 0x0f, 0xa4, 0xac, 0xba, 0xc2, 0xc4, 0xc5, 0xc6:
		return modRM | imm8
	case 0x20, 0x21, 0x22, 0x23:
		return imm8 // control and debug registers: ModRM, but never memory
	case 0x04, 0x0a, 0x0c, 0x24, 0x25, 0x26, 0x27, 0x36, 0x39, 0x3b, 0x3c, 0x3d, 0x3e, 0x3f, 0xa6, 0xa7:
		return invalid
	}
	return modRM
}

// Decode decodes the instruction at the start of b. ok is false if it is invalid or longer than b.
func Decode(b []byte) (in Instruction, ok bool) {
	d := decoder{b: b[:min(len(b), maxLength)], in: &in}
	if !d.decode() {
		return Instruction{}, false
	}
	return in, true
}

// decoder decodes one instruction.
type decoder struct {
	b       []byte
	at      int
	near    bool // 32-bit addresses
	rexR    byte
	rexX    byte
	rexB    byte
	in      *Instruction
	invalid bool
}

func (d *decoder) nextByte() byte {
	if d.at >= len(d.b) {
		d.invalid = true
		return 0
	}
	d.at++
	return d.b[d.at-1]
}

// decode decodes the instruction, and reports whether it is valid.
func (d *decoder) decode() bool {
	op := d.prefixes()
	var follows int
	switch {
	case op == 0xc5, op == 0xc4, op == 0x62, op == 0x8f && d.at < len(d.b) && d.b[d.at]&0x1f >= 8:
		follows = d.vectorPrefix(op)
	case op == 0x0f:
		follows = d.escaped()
	default:
		d.in.Opcode = op
		follows = int(oneByteFollows[op])
	}
	if follows&invalid != 0 || d.invalid {
		return false
	}
	d.in.RM = d.in.Opcode&7 | d.rexB
	if follows&modRM != 0 {
		d.operands()
	}
	if follows&group3 != 0 && d.in.Reg&7 < 2 {
		follows |= imm8
		if d.in.Opcode == 0xf7 {
			follows ^= imm8 | immZ
		}
	}
	d.immediates(follows)
	d.in.Length = d.at
	return !d.invalid
}

// prefixes reads the prefixes and returns the first byte after them.
func (d *decoder) prefixes() byte {
	op := d.nextByte()
	for n := 0; ; n++ {
		switch op {
		case 0x66:
			d.in.Short = true
		case 0x67:
			d.near = true
		case 0x64, 0x65:
			d.in.Segment = true
		case 0xf2, 0xf3:
			d.in.Repeat = op
		case 0xf0, 0x2e, 0x36, 0x3e, 0x26:
		default:
			if op&0xf0 == 0x40 {
				d.in.REX, d.in.Wide = true, op&8 != 0
				d.rexR, d.rexX, d.rexB = op<<1&8, op<<2&8, op<<3&8
				op = d.nextByte()
			}
			return op
		}
		if n == maxLength {
			d.invalid = true
			return 0
		}
		op = d.nextByte()
	}
}

// escaped reads an opcode after 0f and returns its operands.
func (d *decoder) escaped() int {
	d.in.Opcode, d.in.Table = d.nextByte(), 1
	switch d.in.Opcode {
	case 0x38:
		d.in.Opcode, d.in.Table = d.nextByte(), 2
		return modRM
	case 0x3a:
		d.in.Opcode, d.in.Table = d.nextByte(), 3
		return modRM | imm8
	}
	return twoByte(d.in.Opcode)
}

// vectorPrefix reads a VEX, EVEX or XOP prefix and the opcode. It ignores the upper bits of vector
// register numbers, but not the upper bits of registers in memory operands.
func (d *decoder) vectorPrefix(op byte) int {
	first := d.nextByte()
	last := first // byte with Extra, and with two bits for one of the prefixes 66, f3 and f2
	d.in.Vector, d.in.Table = true, 1
	d.rexR = ^first >> 4 & 8
	switch op {
	case 0xc4, 0x8f:
		d.in.Table = first & 0x1f
		d.rexX, d.rexB = ^first>>3&8, ^first>>2&8
		last = d.nextByte()
		d.in.Wide = last&0x80 != 0
	case 0x62:
		d.in.Table = first & 7
		d.rexX, d.rexB = ^first>>3&8, ^first>>2&8
		last = d.nextByte()
		d.in.Wide = last&0x80 != 0
		d.nextByte()
	}
	d.in.Extra = ^last >> 3 & 15
	d.in.Repeat = [...]byte{0, 0, repeat, repeatNot}[last&3]
	d.in.Opcode = d.nextByte()
	switch d.in.Table {
	case 1:
		if d.in.Opcode == 0x77 {
			return none
		}
		return modRM | twoByte(d.in.Opcode)&imm8
	case 2, 5, 6, 9:
		return modRM
	case 3, 8:
		return modRM | imm8
	case 10:
		return modRM | imm32
	}
	return invalid
}

// operands reads ModRM, SIB and displacement.
func (d *decoder) operands() {
	b := d.nextByte()
	d.in.Mod, d.in.Reg, d.in.RM = b>>6, b>>3&7|d.rexR, b&7|d.rexB
	if d.in.Mod == 3 {
		return
	}
	size := [...]int{0, 1, 4}[d.in.Mod]
	d.in.Base = d.in.RM
	switch {
	case b&7 == 4:
		sib := d.nextByte()
		d.in.Base, d.in.Index = sib&7|d.rexB, sib>>3&7|d.rexX != RSP
		if sib&7 == 5 && d.in.Mod == 0 {
			d.in.Base, size = NoBase, 4
		}
	case b&7 == 5 && d.in.Mod == 0:
		d.in.Base, size = RIPBase, 4
	}
	d.in.Disp = d.number(size)
}

func (d *decoder) immediates(follows int) {
	size := 0
	switch {
	case follows&immV != 0 && d.in.Wide, follows&moffs != 0 && !d.near:
		size = 8
	case follows&(immZ|immV) != 0 && d.in.Short && !d.in.Wide && d.in.Opcode != 0xe8 && d.in.Opcode != 0xe9 &&
		d.in.Table == 0:
		size = 2
	case follows&(immZ|imm32|immV|moffs) != 0:
		size = 4
	case follows&imm16 != 0:
		size = 2
	}
	if size > 0 {
		d.in.Imm = d.number(size)
	}
	if follows&imm8 != 0 {
		d.in.Imm = d.number(1)
	}
}

// number reads a signed number of size bytes.
func (d *decoder) number(size int) int64 {
	if d.at+size > len(d.b) {
		d.invalid = true
		return 0
	}
	b := d.b[d.at:]
	d.at += size
	switch size {
	case 1:
		return int64(int8(b[0]))
	case 2:
		return int64(int16(binary.LittleEndian.Uint16(b)))
	case 4:
		return int64(int32(binary.LittleEndian.Uint32(b)))
	case 8:
		return int64(binary.LittleEndian.Uint64(b))
	}
	return 0
}
