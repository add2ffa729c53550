package stackheight

import "github.com/headwater/headwater/ebpf/x86"

// effect is what an instruction does to the stack pointer and the frame pointer,
// as far as the analysis follows it.
type effect uint8

const (
	nothing     effect = iota // to the two, and goes on behind itself
	pads                      // nothing at all
	begins                    // nothing: endbr64, where functions begin
	calls                     // what returns behind the instruction, or not at all
	moves                     // sp += n
	pops                      // fp = *sp; sp += n
	restores                  // fp = *(sp + n)
	saves                     // *(sp + n) = fp
	stores                    // *(sp + n) = another register
	fromFP                    // sp = fp + n
	leaves                    // sp = fp; fp = *sp; sp += 8
	toFP                      // fp = sp + n
	loadsBySP                 // sp = *(sp + n)
	loadsByFP                 // sp = *(fp + n)
	returns                   // to the caller
	jumps                     // to n bytes behind itself
	branches                  // there, or on
	leavesBy                  // a jump through a slot of the file: to another function
	jumpsAnyway               // nobody knows where to
	stops                     // does not go on
	loses                     // the stack pointer gets a value that is not followed
)

// instruction is one instruction of x86-64.
type instruction struct {
	size   int
	effect effect
	n      int64
}

// decode reads the first instruction of code. It has no size if it is none, or
// one that ends behind code.
func decode(code []byte) instruction {
	in, ok := x86.Decode(code)
	if !ok {
		return instruction{}
	}
	e, n := effectOf(&in)
	return instruction{in.Length, e, n}
}

func effectOf(in *x86.Instruction) (effect, int64) {
	switch {
	case in.Vector:
		return nothing, 0
	case in.Table == 0:
		return ofOneByte(in)
	case in.Table == 1:
		return ofTwoBytes(in)
	}
	return nothing, 0
}

// ofOneByte is the effect of opcodes of one byte.
func ofOneByte(in *x86.Instruction) (effect, int64) {
	op, word := in.Opcode, int64(8)
	if in.Short {
		word = 2
	}
	switch {
	case op < 0x40: // eight operations in six forms; the last one compares
		return writes(op < 0x38 && (op&7 == 1 && inRegister(in, x86.RSP) || op&7 == 3 && in.Reg == x86.RSP)), 0
	case op < 0x58:
		return moves, -word
	case op < 0x60:
		return popTo(in.RM, word)
	case op&0xf0 == 0x70, op >= 0xe0 && op <= 0xe3:
		return branches, in.Imm
	case op == 0x90 && in.RM == x86.RAX:
		return pads, 0
	case op >= 0x90 && op < 0x98, op >= 0xb8 && op < 0xc0: // xchg, mov
		return writes(in.RM == x86.RSP), 0
	}
	switch op {
	case 0x63, 0x69, 0x6b: // movslq, imul
		return writes(in.Reg == x86.RSP), 0
	case 0x68, 0x6a, 0x9c:
		return moves, -word
	case 0x9d:
		return moves, word
	case 0x81, 0x83:
		return arithmetic(in)
	case 0x87: // xchg
		return writes(in.Reg == x86.RSP || inRegister(in, x86.RSP)), 0
	case 0x89, 0x8b, 0x8d:
		return move(in)
	case 0x8f:
		if in.Mod == 3 {
			return popTo(in.RM, word)
		}
		return moves, word
	case 0xc1, 0xd1, 0xd3: // shifts
		return writes(inRegister(in, x86.RSP)), 0
	case 0xc2, 0xc3:
		return returns, 0
	case 0xc7:
		return writes(in.Reg&7 == 0 && inRegister(in, x86.RSP)), 0
	case 0xc8:
		return loses, 0
	case 0xc9:
		return leaves, 0
	case 0xcc:
		return pads, 0
	case 0xca, 0xcb, 0xcf, 0xf1, 0xf4: // far returns, hlt
		return stops, 0
	case 0xe8:
		if in.Imm == 0 { // pushes where it is
			return moves, -8
		}
		return calls, 0
	case 0xe9, 0xeb:
		return jumps, in.Imm
	case 0xf7: // not, neg
		return writes(inRegister(in, x86.RSP) && (in.Reg&7 == 2 || in.Reg&7 == 3)), 0
	case 0xff:
		return group5(in, word)
	}
	return nothing, 0
}

// writes is the effect of an instruction that may write to the stack pointer.
func writes(sp bool) effect {
	if sp {
		return loses
	}
	return nothing
}

// inRegister reports whether the operand that may be in memory is register r.
func inRegister(in *x86.Instruction, r byte) bool { return in.Mod == 3 && in.RM == r }

// inMemory reports whether it is in memory, at a distance from register r.
func inMemory(in *x86.Instruction, r byte) bool { return in.Mod != 3 && in.Base == r && !in.Index }

func popTo(r byte, word int64) (effect, int64) {
	switch {
	case r == x86.RSP:
		return loses, 0
	case r == x86.RBP && word == 8:
		return pops, word
	}
	return moves, word
}

// arithmetic is the effect of an operation with an immediate.
func arithmetic(in *x86.Instruction) (effect, int64) {
	switch operation := in.Reg & 7; {
	case !inRegister(in, x86.RSP) || operation == 7: // compares
		return nothing, 0
	case in.Wide && operation == 0:
		return moves, in.Imm
	case in.Wide && operation == 5:
		return moves, -in.Imm
	}
	return loses, 0
}

// move is mov between registers and memory, and lea.
func move(in *x86.Instruction) (effect, int64) {
	const store, load, lea = 0x89, 0x8b, 0x8d
	memory := in.Mod != 3
	if in.Opcode == store && memory {
		switch {
		case !inMemory(in, x86.RSP):
			return nothing, 0
		case in.Reg == x86.RBP && in.Wide:
			return saves, in.Disp
		}
		return stores, in.Disp
	}
	to, from, n := in.Reg, in.RM, int64(0)
	switch {
	case in.Opcode == store:
		to, from = in.RM, in.Reg
	case memory && !inMemory(in, x86.RSP) && !inMemory(in, x86.RBP):
		from = x86.NoBase
	case memory:
		from, n = in.Base, in.Disp
	}
	loads := in.Opcode == load && memory
	switch {
	case to == x86.RSP && in.Wide && from == x86.RSP && loads:
		return loadsBySP, n
	case to == x86.RSP && in.Wide && from == x86.RBP && loads:
		return loadsByFP, n
	case to == x86.RSP && in.Wide && from == x86.RSP:
		return moves, n
	case to == x86.RSP && in.Wide && from == x86.RBP:
		return fromFP, n
	case to == x86.RSP:
		return loses, 0
	case to == x86.RBP && in.Wide && from == x86.RSP && loads:
		return restores, n
	case to == x86.RBP && in.Wide && from == x86.RSP:
		return toFP, n
	}
	return nothing, 0
}

// group5 is inc, dec, call, jmp and push of an operand.
func group5(in *x86.Instruction, word int64) (effect, int64) {
	switch in.Reg & 7 {
	case 0, 1:
		return writes(inRegister(in, x86.RSP)), 0
	case 2:
		return calls, 0
	case 4:
		if in.Mod == 0 && in.Base == x86.RIPBase {
			return leavesBy, 0
		}
		return jumpsAnyway, 0
	case 6:
		return moves, -word
	}
	return stops, 0
}

// ofTwoBytes is the effect of the opcodes behind 0f.
func ofTwoBytes(in *x86.Instruction) (effect, int64) {
	op := in.Opcode
	switch {
	case op&0xf0 == 0x80:
		return branches, in.Imm
	case op&0xf0 == 0x40: // cmov
		return writes(in.Reg == x86.RSP), 0
	case op >= 0xc8 && op <= 0xcf: // bswap
		return writes(in.RM == x86.RSP), 0
	}
	switch op {
	case 0x0b: // ud2
		return stops, 0
	case 0x1e:
		if in.Mod == 3 && in.Reg == 7 && in.RM == 2 {
			return begins, 0
		}
	case 0x1f:
		return pads, 0
	case 0xa0, 0xa8: // push and pop of %fs, %gs
		return moves, -8
	case 0xa1, 0xa9:
		return moves, 8
	case 0x02, 0x03, 0xaf, 0xb6, 0xb7, 0xb8, 0xbc, 0xbd, 0xbe, 0xbf: // imul, movzx, movsx, bit counts
		return writes(in.Reg == x86.RSP), 0
	case 0xab, 0xb1, 0xb3, 0xbb, 0xc1:
		return writes(inRegister(in, x86.RSP)), 0
	}
	return nothing, 0
}
