package stackheight

import "github.com/headwater/headwater/ebpf/unwind/x86"

// instruction is one instruction of x86-64. Its effect has one of these kinds: None, Pad, Begin,
// Push, Pop, Add, Align, Address, Load, Store, Leave, Lose, and those of the control flow but Trap.
// Pop and Push are for 8 bytes, and Pop is not for the stack pointer.
type instruction struct {
	x86.Effect
	size   int
	writes uint16 // general registers that it writes, as of x86.Instruction.Writes
	refers int64  // distance to the start of the function that it calls or whose address it computes; 0 if none
}

// decode decodes the first instruction of code. The size is 0 if there is no valid instruction, or
// if it ends after code. calls tracks the numbers of system calls.
func decode(code []byte, calls *x86.SystemCalls) instruction {
	in, ok := x86.Decode(code)
	if !ok {
		return instruction{}
	}
	if calls.Exits(&in) {
		return instruction{size: in.Length, Effect: x86.Effect{Kind: x86.Stop}}
	}
	effect := followed(x86.StackEffect(&in))
	if in.Segment {
		effect.Base = x86.NoBase
	}
	return instruction{effect, in.Length, in.Writes(), refers(&in)}
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

// followed returns an effect in the form that the analysis follows.
func followed(e x86.Effect) x86.Effect {
	switch e.Kind {
	case x86.Trap:
		e.Kind = x86.Pad
	case x86.Copy:
		e.Kind = x86.Address
	case x86.Push, x86.Pop:
		if e.N != 8 && e.N != -8 {
			return x86.Effect{Kind: x86.Add, N: e.N}
		}
	}
	switch {
	case e.Kind == x86.Pop && e.Reg == x86.RSP:
		return x86.Effect{Kind: x86.Load, Reg: x86.RSP, Base: x86.RSP}
	case e.Kind == x86.Address && e.Reg == x86.RSP && e.Base == x86.RSP:
		return x86.Effect{Kind: x86.Add, N: e.N}
	}
	return e
}
