package stackheight

import "github.com/headwater/headwater/ebpf/x86"

// effect is the effect of an instruction on the stack pointer and the frame pointer, as far as the
// analysis follows it.
type effect uint8

const (
	nothing     effect = iota // no effect on the two; continues with the next instruction
	pads                      // no effect at all
	begins                    // no effect: endbr64, at the start of functions
	calls                     // a call, which returns to the next instruction or not at all
	moves                     // sp += n
	pushes                    // sp += n, n < 0; *sp = fp
	pops                      // fp = *sp; sp += n
	restores                  // fp = *(sp + n)
	saves                     // *(sp + n) = fp
	stores                    // *(sp + n) = another register
	fromFP                    // sp = fp + n
	leaves                    // sp = fp; fp = *sp; sp += 8
	toFP                      // fp = sp + n
	loadsBySP                 // sp = *(sp + n)
	loadsByFP                 // sp = *(fp + n)
	returns                   // returns to the caller
	jumps                     // jumps to n bytes after itself
	branches                  // jumps to n bytes after itself, or continues
	leavesBy                  // jumps through a slot of the file, to another function
	jumpsAnyway               // jumps to an unknown address
	stops                     // does not continue
	loses                     // sets the stack pointer to an unknown value
)

// instruction is one instruction of x86-64.
type instruction struct {
	size   int
	effect effect
	n      int64
	refers int64 // distance to the start of the function that it calls or whose address it computes; 0 if none
}

// decode decodes the first instruction of code. The size is 0 if there is no valid instruction, or
// if it ends after code. calls tracks the numbers of system calls.
func decode(code []byte, calls *x86.SystemCalls) instruction {
	in, ok := x86.Decode(code)
	if !ok {
		return instruction{}
	}
	if calls.Exits(&in) {
		return instruction{size: in.Length, effect: stops}
	}
	if isPlain(&in) {
		return instruction{size: in.Length, refers: refers(&in)}
	}
	e, n := followed(x86.StackEffect(&in))
	return instruction{in.Length, e, n, refers(&in)}
}

// refers returns the distance from an instruction to the function that it calls or whose address it
// computes, 0 if it does neither.
func refers(in *x86.Instruction) int64 {
	const lea, call = 0x8d, 0xe8
	switch {
	case in.Table != 0 || in.Vector:
	case in.Opcode == call:
		return in.Imm
	case in.Opcode == lea && in.Base == x86.RIPBase && in.Mod != 3:
		return in.Disp
	}
	return 0
}

// isPlain reports whether an instruction is a frequent move or computation that uses neither the
// stack pointer nor the frame pointer. It then has no effect here. isPlain may return false for
// other instructions without effect.
func isPlain(in *x86.Instruction) bool {
	const test, lea = 0x84, 0x8d // between them are xchg and mov; below 0x40 is arithmetic
	common := in.Opcode < 0x40 || in.Opcode >= test && in.Opcode <= lea
	return common && in.Table == 0 && !in.Vector && !isPointer(in.Reg) && !isPointer(in.RM)
}

// isPointer reports whether a register is the stack pointer or the frame pointer. In RM their
// numbers also stand for other addressing modes.
func isPointer(r byte) bool { return r == x86.RSP || r == x86.RBP }

// followed converts an x86.Effect to an effect on the stack pointer and the frame pointer.
func followed(e x86.Effect) (effect, int64) {
	switch e.Kind {
	case x86.None:
		return nothing, 0
	case x86.Pad, x86.Trap:
		return pads, 0
	case x86.Begin:
		return begins, 0
	case x86.Push:
		if e.Reg == x86.RBP && e.N == -8 {
			return pushes, e.N
		}
		return moves, e.N
	case x86.Add:
		return moves, e.N
	case x86.Pop:
		return popped(e)
	case x86.Copy, x86.Address:
		return assigned(e)
	case x86.Load:
		return loaded(e)
	case x86.Store:
		return stored(e)
	case x86.Leave:
		return leaves, 0
	case x86.Call:
		return calls, 0
	case x86.Return:
		return returns, 0
	case x86.Jump:
		return jumps, e.N
	case x86.Branch:
		return branches, e.N
	case x86.JumpBySlot:
		return leavesBy, 0
	case x86.JumpAnywhere:
		return jumpsAnyway, 0
	case x86.Stop:
		return stops, 0
	}
	return loses, 0 // Align, Lose
}

func popped(e x86.Effect) (effect, int64) {
	switch {
	case e.Reg == x86.RSP:
		return loses, 0
	case e.Reg == x86.RBP && e.N == 8:
		return pops, e.N
	}
	return moves, e.N
}

// assigned converts a copy of a register, or of a register plus a distance, to another register.
func assigned(e x86.Effect) (effect, int64) {
	switch {
	case e.Reg == x86.RSP && e.Base == x86.RSP:
		return moves, e.N
	case e.Reg == x86.RSP && e.Base == x86.RBP:
		return fromFP, e.N
	case e.Reg == x86.RSP:
		return loses, 0
	case e.Reg == x86.RBP && e.Base == x86.RSP:
		return toFP, e.N
	}
	return nothing, 0
}

// loaded converts a load of a register from memory.
func loaded(e x86.Effect) (effect, int64) {
	switch {
	case e.Reg == x86.RSP && e.Base == x86.RSP:
		return loadsBySP, e.N
	case e.Reg == x86.RSP && e.Base == x86.RBP:
		return loadsByFP, e.N
	case e.Reg == x86.RSP:
		return loses, 0
	case e.Reg == x86.RBP && e.Base == x86.RSP:
		return restores, e.N
	}
	return nothing, 0
}

// stored converts a store of a register to memory.
func stored(e x86.Effect) (effect, int64) {
	switch {
	case e.Base != x86.RSP:
		return nothing, 0
	case e.Reg == x86.RBP && e.Wide:
		return saves, e.N
	}
	return stores, e.N
}
