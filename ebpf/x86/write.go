package x86

// MayWrite reports whether an instruction may write to a general register other than the stack pointer, apart from what
// a call does. It may say so of some that do not.
func (in *Instruction) MayWrite(reg byte) bool {
	switch {
	case in.Vector:
		return in.vectorMayWrite(reg)
	case in.Table == 0:
		return in.oneByteMayWrite(reg)
	case in.Table == 1:
		return in.twoByteMayWrite(reg)
	}
	return in.Reg == reg || in.isRegister(reg)
}

// vectorMayWrite is MayWrite of VEX, EVEX and XOP. Those of bit manipulation have a register that is not decoded.
func (in *Instruction) vectorMayWrite(reg byte) bool {
	const andn, lastBits, rorx = 0xf2, 0xf7, 0xf0
	switch {
	case in.Table == 2:
		return in.Opcode >= andn && in.Opcode <= lastBits
	case in.Table == 3 && in.Opcode == rorx:
		return in.Reg == reg
	case in.Table == 3:
		return in.Opcode >= 0x14 && in.Opcode <= 0x17 && in.isRegister(reg) // extracts
	case in.Table != 1:
		return true
	}
	switch in.Opcode {
	case 0x2c, 0x2d, 0x50, 0x78, 0x79, 0x7e, 0x93, 0xc5, 0xd7: // moves and conversions to general registers
		return in.Reg == reg || in.isRegister(reg)
	}
	return false
}

// oneByteMayWrite is MayWrite of opcodes of one byte. Those of eight bits count as if of the whole register.
func (in *Instruction) oneByteMayWrite(reg byte) bool {
	const compare = 7
	op := in.Opcode
	switch {
	case op < 0x38 && op&7 < 6:
		return op&4 != 0 && reg == RAX || op&6 == 0 && in.isByteOr(reg) || op&6 == 2 && in.names(in.Reg, reg)
	case op < 0x40:
		return false // compares
	case op >= 0x58 && op < 0x60, op >= 0x90 && op < 0x98, op >= 0xb0 && op < 0xc0:
		return in.RM == reg || op < 0x98 && op >= 0x90 && reg == RAX || op >= 0xb0 && op < 0xb8 && isByteOf(in.RM, reg)
	case op >= 0x80 && op <= 0x83:
		return in.Reg&7 != compare && in.isByteOr(reg)
	case op == 0x86, op == 0x87: // xchg
		return in.isByteOr(reg) || in.names(in.Reg, reg)
	case op == 0x88, op == 0x89, op == 0x8c, op == 0x8f, op == 0xc0, op == 0xc1, op == 0xc6, op == 0xc7,
		op >= 0xd0 && op <= 0xd3, op == 0xfe, op == 0xff, op == 0xf6, op == 0xf7:
		return in.isByteOr(reg) || (op == 0xf6 || op == 0xf7) && (reg == RAX || reg == RDX)
	case op == 0x8a:
		return in.names(in.Reg, reg)
	case op == 0x63, op == 0x69, op == 0x6b, op == 0x8b, op == 0x8d:
		return in.Reg == reg
	case op >= 0x50 && op < 0x58, op == 0x68, op == 0x6a, op >= 0x70 && op < 0x80, op == 0x84, op == 0x85, op == 0xe8,
		op == 0xe9, op == 0xeb, op == 0xc3, op == 0xc2, op == 0xcc, op >= 0xd8 && op <= 0xdf:
		return false
	}
	return !isKept(reg) // instructions of strings, of ports and of flags
}

// isKept reports whether no instruction without operands writes to a register.
func isKept(reg byte) bool { return reg >= 12 || reg == RBX }

// names reports whether an operand is a register, or may be the second byte of it: of operations of eight bits, whose
// opcodes are even.
func (in *Instruction) names(operand, reg byte) bool {
	return operand == reg || in.Opcode&1 == 0 && isByteOf(operand, reg)
}

// isByteOf reports whether the number of an operand of eight bits may be that of a byte of a register.
func isByteOf(operand, reg byte) bool { return operand&^4 == reg }

// isByteOr reports whether the operand that may be in memory is a register, or a byte of it.
func (in *Instruction) isByteOr(reg byte) bool { return in.Mod == 3 && in.names(in.RM, reg) }

// twoByteMayWrite is MayWrite of the opcodes after 0f.
func (in *Instruction) twoByteMayWrite(reg byte) bool {
	op := in.Opcode
	switch {
	case op&0xf0 == 0x80, op == 0x05, op == 0x0b, op == 0x0d, op == 0x18, op == 0x1e, op == 0x1f: // branches, prefetches
		return false
	case op == 0xa2, op == 0xa1, op == 0xa9: // cpuid, pop of %fs
		return op == 0xa2
	}
	return in.Reg == reg || in.isRegister(reg) || in.RM == reg && op >= 0xc8 && op <= 0xcf ||
		op&0xf0 == 0x90 && in.Mod == 3 && (in.RM == reg || isByteOf(in.RM, reg))
}
