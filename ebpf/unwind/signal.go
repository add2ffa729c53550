package unwind

// x86Gregs are the DWARF numbers of the registers in the gregs array of an x86-64 ucontext, in
// memory order (Linux, arch/x86/include/uapi/asm/sigcontext.h): r8 to r15, rdi, rsi, rbp, rbx, rdx,
// rax, rcx, rsp. rip follows.
var x86Gregs = [...]uint8{8, 9, 10, 11, 12, 13, 14, 15, 5, 4, 6, 3, 1, 0, 2, 7}

// signalX86 continues at the code that a signal interrupted. As in a leaf frame, the pc is exact
// and all registers are known. The rule's offset leads to the saved rsp.
func (s *stepper) signalX86() Outcome {
	at := s.regs.SP + uint64(int64(s.rule.CFAOff)) - 8*uint64(len(x86Gregs)-1)
	var saved [len(x86Gregs) + 1]uint64
	if !s.readAll(at, saved[:]) {
		return UnreadableStack
	}
	next := Regs{PC: saved[len(x86Gregs)], Exact: true, Full: true, Thread: s.regs.Thread,
		Switches: s.regs.Switches}
	for i, number := range x86Gregs {
		next.General[number] = saved[i]
	}
	next.SP, next.FP = next.General[rsp], next.General[rbp]
	*s.regs = next
	return Unset
}

// signalAArch64 continues at the code that a signal interrupted. The rule's offset leads to the
// saved sp; x28, x29 and x30 are before it, pc is after it.
func (s *stepper) signalAArch64() Outcome {
	var saved [5]uint64
	if !s.readAll(s.regs.SP+uint64(int64(s.rule.CFAOff))-24, saved[:]) {
		return UnreadableStack
	}
	*s.regs = Regs{Thread: saved[0], FP: saved[1], LR: saved[2], SP: saved[3], PC: saved[4], Exact: true, LRKnown: true,
		Switches: s.regs.Switches}
	return Unset
}

// readAll reads consecutive words.
func (s *stepper) readAll(addr uint64, words []uint64) bool {
	for i := range words {
		var ok bool
		if words[i], ok = s.mem.ReadU64(addr + 8*uint64(i)); !ok {
			return false
		}
	}
	return true
}
