package x86

// Effect is the effect of an instruction on the stack and the control flow.
type Effect struct {
	Kind EffectKind
	Reg  byte  // Reg in the formula of Kind, NoBase if none
	Base byte  // Base in the formula of Kind; NoBase if the address has an index or no base register
	Wide bool  // a Store of 64 bits
	N    int64 // N in the formula of Kind
}

// EffectKind is the formula of an effect. Formulas with registers apply to all 64 bits.
type EffectKind uint8

// The effects.
const (
	None         EffectKind = iota // no effect on the stack; continues with the next instruction
	Pad                            // no effect at all: nop
	Trap                           // no effect at all, or stops: int3
	Begin                          // no effect: endbr64, at the start of functions
	Push                           // sp += N, N < 0; *sp = Reg
	Pop                            // Reg = *sp; sp += N
	Add                            // sp += N
	Align                          // sp &= N
	Copy                           // Reg = Base
	Address                        // Reg = Base + N
	Load                           // Reg = *(Base + N)
	Store                          // *(Base + N) = Reg
	Leave                          // sp = rbp; rbp = *sp; sp += 8
	Lose                           // sp gets an unknown value
	Call                           // call, which returns to the next instruction or not at all
	Return                         // returns to the caller
	Jump                           // jumps to N bytes after the start of the next instruction
	Branch                         // jumps there, or continues
	JumpBySlot                     // jumps to the address in a slot of the file: another function
	JumpAnywhere                   // jumps to an unknown address
	Stop                           // does not continue
)

// StackEffect returns the effect of an instruction on the stack. It includes writes to registers
// that can hold a copy of the stack pointer: 64-bit moves between registers and memory, and address
// computations.
func StackEffect(in *Instruction) Effect {
	switch {
	case in.Vector:
		return Effect{}
	case in.Table == 0:
		return in.oneByteEffect()
	case in.Table == 1:
		return in.twoByteEffect()
	}
	return Effect{}
}

// oneByteEffect returns the effect of one-byte opcodes.
func (in *Instruction) oneByteEffect() Effect {
	op := in.Opcode
	switch {
	case op < 0x40: // eight operations in six forms; the last operation, cmp, does not write
		return losesIf(op < 0x38 && (op&7 == 1 && in.isRegister(RSP) || op&7 == 3 && in.Reg == RSP))
	case op < 0x58:
		return in.pushEffect(in.RM)
	case op < 0x60:
		return in.popEffect(in.RM)
	case op&0xf0 == 0x70, op >= 0xe0 && op <= 0xe3:
		return Effect{Kind: Branch, N: in.Imm}
	case op == 0x90 && in.RM == RAX:
		return Effect{Kind: Pad}
	case op >= 0x90 && op < 0x98, op >= 0xb8 && op < 0xc0: // xchg, mov
		return losesIf(in.RM == RSP)
	}
	switch op {
	case 0x63, 0x69, 0x6b: // movslq, imul
		return losesIf(in.Reg == RSP)
	case 0x68, 0x6a, 0x9c:
		return in.pushEffect(NoBase)
	case 0x9d:
		return in.popEffect(NoBase)
	case 0x81, 0x83:
		return in.arithmetic()
	case 0x87: // xchg
		return losesIf(in.Reg == RSP || in.isRegister(RSP))
	case 0x89, 0x8b, 0x8d:
		return in.moveEffect()
	case 0x8f:
		if in.Mod == 3 {
			return in.popEffect(in.RM)
		}
		return in.popEffect(NoBase)
	case 0x8c, 0xc1, 0xd1, 0xd3: // mov of segment registers, shifts
		return losesIf(in.isRegister(RSP))
	case 0xc7:
		return losesIf(in.Reg&7 == 0 && in.isRegister(RSP))
	case 0xc8:
		return Effect{Kind: Lose}
	case 0xc9:
		return Effect{Kind: Leave}
	case 0xcc:
		return Effect{Kind: Trap}
	case 0xf7: // not, neg
		return losesIf(in.isRegister(RSP) && (in.Reg&7 == 2 || in.Reg&7 == 3))
	}
	return in.control()
}

// control returns the effect of one-byte opcodes that change the control flow.
func (in *Instruction) control() Effect {
	switch in.Opcode {
	case 0xc2, 0xc3:
		return Effect{Kind: Return}
	case 0xca, 0xcb, 0xcf, 0xf1, 0xf4: // far returns, hlt
		return Effect{Kind: Stop}
	case 0xe8:
		if in.Imm == 0 { // pushes its own address
			return Effect{Kind: Push, Reg: NoBase, N: -8}
		}
		return Effect{Kind: Call}
	case 0xe9, 0xeb:
		return Effect{Kind: Jump, N: in.Imm}
	case 0xff:
		return in.group5()
	}
	return Effect{}
}

// losesIf returns the effect of an instruction that writes to the stack pointer if sp is true.
func losesIf(sp bool) Effect {
	if sp {
		return Effect{Kind: Lose}
	}
	return Effect{}
}

// isRegister reports whether the register-or-memory operand is register r.
func (in *Instruction) isRegister(r byte) bool { return in.Mod == 3 && in.RM == r }

// wordSize returns the number of bytes that an instruction pushes or pops.
func (in *Instruction) wordSize() int64 {
	if in.Short && !in.Wide {
		return 2
	}
	return 8
}

func (in *Instruction) pushEffect(reg byte) Effect {
	return Effect{Kind: Push, Reg: reg, N: -in.wordSize()}
}

func (in *Instruction) popEffect(reg byte) Effect {
	return Effect{Kind: Pop, Reg: reg, N: in.wordSize()}
}

// arithmetic returns the effect of an operation with an immediate.
func (in *Instruction) arithmetic() Effect {
	const add, and, sub, compare = 0, 4, 5, 7
	operation := in.Reg & 7
	switch {
	case !in.isRegister(RSP) || operation == compare:
		return Effect{}
	case in.Wide && operation == add:
		return Effect{Kind: Add, N: in.Imm}
	case in.Wide && operation == sub:
		return Effect{Kind: Add, N: -in.Imm}
	case in.Wide && operation == and:
		return Effect{Kind: Align, N: in.Imm}
	}
	return Effect{Kind: Lose}
}

// moveEffect returns the effect of mov between registers and memory, and of lea.
func (in *Instruction) moveEffect() Effect {
	const store, lea = 0x89, 0x8d
	base := in.Base
	if in.Index || base == RIPBase {
		base = NoBase
	}
	switch {
	case in.Opcode == store && in.Mod != 3:
		return Effect{Kind: Store, Reg: in.Reg, Base: base, Wide: in.Wide, N: in.Disp}
	case in.Opcode == store && !in.Wide:
		return losesIf(in.RM == RSP)
	case in.Opcode == store:
		return Effect{Kind: Copy, Reg: in.RM, Base: in.Reg}
	case !in.Wide:
		return losesIf(in.Reg == RSP)
	case in.Mod == 3: // only mov: lea has a memory operand
		return Effect{Kind: Copy, Reg: in.Reg, Base: in.RM}
	case in.Opcode == lea:
		return Effect{Kind: Address, Reg: in.Reg, Base: base, N: in.Disp}
	}
	return Effect{Kind: Load, Reg: in.Reg, Base: base, N: in.Disp}
}

// group5 returns the effect of inc, dec, call, jmp and push with an operand.
func (in *Instruction) group5() Effect {
	switch in.Reg & 7 {
	case 0, 1:
		return losesIf(in.isRegister(RSP))
	case 2:
		return Effect{Kind: Call}
	case 4:
		if in.Mod == 0 && in.Base == RIPBase {
			return Effect{Kind: JumpBySlot}
		}
		return Effect{Kind: JumpAnywhere}
	case 6:
		if in.Mod == 3 {
			return in.pushEffect(in.RM)
		}
		return in.pushEffect(NoBase)
	}
	return Effect{Kind: Stop}
}

// twoByteEffect returns the effect of opcodes after 0f.
func (in *Instruction) twoByteEffect() Effect {
	op := in.Opcode
	switch {
	case op&0xf0 == 0x80:
		return Effect{Kind: Branch, N: in.Imm}
	case op&0xf0 == 0x40: // cmov
		return losesIf(in.Reg == RSP)
	case op >= 0xc8 && op <= 0xcf: // bswap
		return losesIf(in.RM == RSP)
	}
	switch op {
	case 0x0b: // ud2
		return Effect{Kind: Stop}
	case 0x1e:
		if in.Mod == 3 && in.Reg == 7 && in.RM == 2 {
			return Effect{Kind: Begin}
		}
	case 0x1f:
		return Effect{Kind: Pad}
	case 0xa0, 0xa8: // push of %fs, %gs
		return Effect{Kind: Push, Reg: NoBase, N: -8}
	case 0xa1, 0xa9: // pop
		return Effect{Kind: Pop, Reg: NoBase, N: 8}
	case 0x02, 0x03, 0xaf, 0xb6, 0xb7, 0xb8, 0xbc, 0xbd, 0xbe, 0xbf: // imul, movzx, movsx, bit counts
		return losesIf(in.Reg == RSP)
	case 0xab, 0xb1, 0xb3, 0xbb, 0xc1:
		return losesIf(in.isRegister(RSP))
	}
	return Effect{}
}
