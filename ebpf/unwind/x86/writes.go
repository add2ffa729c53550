package x86

// r11 is the number of a register that a system call overwrites.
const r11 = 11

// Sets of registers, with a bit for each number.
const (
	setRAX = 1 << RAX
	setRCX = 1 << 1
	setRDX = 1 << RDX
	setRBX = 1 << RBX
	setRSI = 1 << 6
	setRDI = 1 << 7
	setAll = 1<<16 - 1
)

// Volatile is the set of the registers that a called function may overwrite (System V ABI, AMD64
// supplement, figure 3.4), with a bit for each number.
const Volatile uint16 = setRAX | setRCX | setRDX | setRSI | setRDI | 1<<8 | 1<<9 | 1<<10 | 1<<r11

// Prefixes that choose one of several instructions with the same opcode.
const (
	repeatNot = 0xf2
	repeat    = 0xf3
)

// Writes returns the set of the general registers that an instruction writes, fully or in part,
// with a bit for each number. A few rare instructions write fewer registers than the set has. The
// set has the stack pointer only if it is an operand, and it has no registers that a called
// function writes.
func (in *Instruction) Writes() uint16 {
	switch {
	case in.Vector:
		return in.vectorWrites()
	case in.Table == 0:
		return in.oneByteWrites()
	case in.Table == 1:
		return in.twoByteWrites()
	case in.Table == 2 && (in.Opcode == 0xf0 || in.Opcode == 0xf1 || in.Opcode == 0xf6): // movbe, crc32, adcx
		return in.regBit()
	case in.Table == 3 && in.Opcode >= 0x14 && in.Opcode <= 0x17: // pextr
		return in.rmBit()
	case in.Table == 3 && (in.Opcode == 0x61 || in.Opcode == 0x63): // pcmpestri, pcmpistri
		return setRCX
	}
	return 0
}

// regBit and rm return the set of an operand; rm is empty for a memory operand.
func (in *Instruction) regBit() uint16 { return 1 << (in.Reg & 15) }

func (in *Instruction) rmBit() uint16 {
	if in.Mod != 3 {
		return 0
	}
	return 1 << (in.RM & 15)
}

// lowBit returns the set of a register whose number is in the opcode.
func (in *Instruction) lowBit() uint16 { return 1 << (in.RM & 15) }

// partBit returns the set of an 8-bit register. Without a REX prefix 4 to 7 are bits 8 to 15 of the
// first registers.
func (in *Instruction) partBit(r byte) uint16 {
	if r >= 4 && r < 8 && !in.REX {
		r -= 4
	}
	return 1 << (r & 15)
}

func (in *Instruction) regPart() uint16 { return in.partBit(in.Reg) }

func (in *Instruction) rmPart() uint16 {
	if in.Mod != 3 {
		return 0
	}
	return in.partBit(in.RM)
}

// sized returns the set of the register-or-memory operand, of 8 bits if the opcode is even.
func (in *Instruction) sized() uint16 {
	if in.Opcode&1 == 0 {
		return in.rmPart()
	}
	return in.rmBit()
}

func (in *Instruction) oneByteWrites() uint16 {
	op := in.Opcode
	switch {
	case op < 0x40:
		return in.arithmeticWrites()
	case op >= 0x58 && op < 0x60, op >= 0xb8 && op < 0xc0: // pop, mov
		return in.lowBit()
	case op == 0x90 && in.RM == RAX: // nop
		return 0
	case op >= 0x90 && op < 0x98: // xchg
		return in.lowBit() | setRAX
	case op >= 0xb0 && op < 0xb8:
		return in.partBit(in.RM)
	case op >= 0xa4 && op < 0xa8, op >= 0xaa && op < 0xb0, op >= 0x6c && op < 0x70:
		return in.stringWrites()
	case op >= 0xe0 && op < 0xe3: // loop
		return setRCX
	}
	switch op {
	case 0x63, 0x69, 0x6b, 0x8b, 0x8d: // movslq, imul, mov, lea
		return in.regBit()
	case 0x80, 0x81, 0x82, 0x83:
		if in.Reg&7 == 7 { // cmp
			return 0
		}
		return in.sized()
	case 0x86:
		return in.regPart() | in.rmPart()
	case 0x87:
		return in.regBit() | in.rmBit()
	case 0x88, 0xc0, 0xc6, 0xd0, 0xd2:
		return in.rmPart()
	case 0x89, 0x8c, 0x8f, 0xc1, 0xd1, 0xd3:
		return in.rmBit()
	case 0xc7:
		if in.Reg&7 != 0 { // xbegin
			return setRAX
		}
		return in.rmBit()
	case 0x8a:
		return in.regPart()
	case 0x98, 0x9f, 0xa0, 0xa1, 0xcd, 0xd7, 0xe4, 0xe5, 0xec, 0xed: // and interrupts: system calls
		return setRAX
	case 0xdf: // fnstsw
		if in.Mod == 3 && in.Reg&7 == 4 && in.RM&7 == 0 {
			return setRAX
		}
	case 0x99:
		return setRDX
	case 0xc8, 0xc9:
		return 1 << RBP
	case 0xf6, 0xf7, 0xfe, 0xff:
		return in.unaryWrites()
	}
	return 0
}

// stringWrites is for string instructions, which count in rcx with a prefix.
func (in *Instruction) stringWrites() (set uint16) {
	if in.Repeat != 0 {
		set = setRCX
	}
	switch in.Opcode {
	case 0xa4, 0xa5, 0xa6, 0xa7: // movs, cmps
		return set | setRSI | setRDI
	case 0xac, 0xad: // lods
		return set | setRAX | setRSI
	case 0x6e, 0x6f: // outs
		return set | setRSI
	}
	return set | setRDI // stos, scas, ins
}

// arithmeticWrites is for opcodes below 0x40: eight operations in six forms.
func (in *Instruction) arithmeticWrites() uint16 {
	switch {
	case in.Opcode >= 0x38: // cmp
		return 0
	case in.Opcode&7 == 0:
		return in.rmPart()
	case in.Opcode&7 == 1:
		return in.rmBit()
	case in.Opcode&7 == 2:
		return in.regPart()
	case in.Opcode&7 == 3:
		return in.regBit()
	}
	return setRAX
}

func (in *Instruction) unaryWrites() uint16 {
	switch operation := in.Reg & 7; {
	case in.Opcode < 0xf8 && operation >= 4: // mul, div
		return setRAX | setRDX
	case in.Opcode < 0xf8 && operation >= 2, in.Opcode >= 0xfe && operation < 2: // not, neg, inc, dec
		return in.sized()
	}
	return 0
}

// twoByteWrites is for opcodes after 0f.
func (in *Instruction) twoByteWrites() uint16 {
	op := in.Opcode
	switch {
	case op&0xf0 == 0x40: // cmov
		return in.regBit()
	case op&0xf0 == 0x90: // set
		return in.rmPart()
	case op >= 0xc8 && op <= 0xcf: // bswap
		return in.lowBit()
	}
	switch op {
	case 0x00, 0x78, 0xa4, 0xa5, 0xab, 0xac, 0xad, 0xb3, 0xbb:
		return in.rmBit()
	case 0x01:
		return in.rmBit() | setRAX | setRBX | setRCX | setRDX
	case 0x1e, 0xae: // rdssp; rdfsbase
		if in.Repeat == repeat && in.Reg&7 < 2 {
			return in.rmBit()
		}
	case 0x05:
		return setRAX | setRCX | 1<<r11
	case 0x20, 0x21, 0x34, 0x35, 0x37: // of the kernel
		return setAll
	case 0x31, 0x32, 0x33:
		return setRAX | setRDX
	case 0x02, 0x03, 0x2c, 0x2d, 0x50, 0xaf, 0xb2, 0xb4, 0xb5, 0xb6, 0xb7, 0xb8, 0xbc, 0xbd, 0xbe, 0xbf, 0xc5, 0xd7:
		return in.regBit()
	case 0x7e: // movd; with f3 movq between vector registers
		if in.Repeat != repeat {
			return in.rmBit()
		}
	case 0xa2:
		return setRAX | setRBX | setRCX | setRDX
	case 0xb0: // cmpxchg
		return in.rmPart() | setRAX
	case 0xb1:
		return in.rmBit() | setRAX
	case 0xba:
		if in.Reg&7 > 4 { // not bt
			return in.rmBit()
		}
	case 0xc0:
		return in.regPart() | in.rmPart()
	case 0xc1:
		return in.regBit() | in.rmBit()
	case 0xc7: // cmpxchg16b, rdrand
		return in.rmBit() | setRAX | setRDX
	}
	return 0
}

// vectorWrites is for instructions with a VEX, EVEX or XOP prefix, of which few write a general
// register.
func (in *Instruction) vectorWrites() uint16 {
	op := in.Opcode
	switch in.Table {
	case 1, 5: // 5: numbers of 16 bits
		switch op {
		case 0x2c, 0x2d, 0x50, 0x78, 0x79, 0x93, 0xc5, 0xd7:
			return in.regBit()
		case 0x7e:
			if in.Repeat != repeat {
				return in.rmBit()
			}
		}
	case 2:
		switch {
		case op == 0xf3: // blsr
			return 1 << (in.Extra & 15)
		case op == 0xf6: // mulx
			return in.regBit() | 1<<(in.Extra&15)
		case op >= 0xe0 && op <= 0xef, op == 0xf2, op == 0xf5, op == 0xf7: // cmpccxadd, andn, bzhi, shlx
			return in.regBit()
		}
	case 3:
		switch {
		case op >= 0x14 && op <= 0x17:
			return in.rmBit()
		case op == 0xf0: // rorx
			return in.regBit()
		case op == 0x61, op == 0x63:
			return setRCX
		}
	case 9, 10: // bit manipulation of AMD
		if op <= 0x02 || op == 0x10 || op == 0x12 {
			return in.regBit() | in.rmBit() | 1<<(in.Extra&15)
		}
	}
	return 0
}
