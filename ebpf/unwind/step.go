package unwind

import (
	"debug/elf"
	"encoding/binary"
)

// Words gives access to memory.
type Words interface {
	// ReadU64 returns the little-endian word at the address addr, and false if it is unreadable.
	ReadU64(addr uint64) (uint64, bool)
}

// Stack is the stack of the thread that is walked.
type Stack interface {
	Words
	// EndsAt reports whether the stack ends at addr or shortly above it, so that a frame there can
	// be the outermost one.
	EndsAt(addr uint64) bool
}

// Memory is the memory of the thread whose stack is walked.
type Memory interface {
	Stack
	// Called reports whether a call or a signal handler may return to the address addr, see
	// [ReturnsTo].
	Called(addr uint64) bool
}

// Regs holds the registers of one frame. PC, SP and FP are always known.
type Regs struct {
	PC, SP, FP uint64
	LR         uint64     // arm64: x30, if LRKnown
	General    [16]uint64 // x86-64: by DWARF number, if Full

	Exact   bool // PC is the next instruction of the frame, not a return address: look up PC itself
	LRKnown bool // LR is valid for this frame
	RBX     bool // General[rbx] is valid for this frame, even if not Full
	Full    bool // General is valid for this frame

	ViaFP bool // the frame was found by the frame pointer, not by CFI

	// Thread leads to the goroutine of a Go thread: x86-64's thread pointer, or arm64's x28 in the
	// leaf. 0 if unknown.
	Thread uint64
	// Switches counts the switches of the walk to a lower stack, or is noMoreSwitches.
	Switches uint8
}

// Lookup returns the address whose row applies: PC, or for a return address the last byte of the
// call before it. A call that does not return may be the last instruction of its function.
func (r *Regs) Lookup() uint64 {
	if r.Exact {
		return r.PC
	}
	return r.PC - 1
}

// pacMask selects the bits of an arm64 user address that are not part of a pointer authentication
// code.
const pacMask = 1<<48 - 1

// stepper executes one rule.
type stepper struct {
	machine elf.Machine
	arm     bool
	rule    WideRule
	regs    *Regs
	mem     Memory
}

// Step replaces regs, the registers of a frame, by the registers of its caller according to rule.
// It returns Unset if there is a caller. Otherwise regs are unchanged, and the outcome is the
// reason why the walk ends. Step is equivalent to apply_rule in bpf/unwind/step.h.
func Step(machine elf.Machine, rule WideRule, regs *Regs, mem Memory) Outcome {
	s := stepper{machine, machine == elf.EM_AARCH64, rule, regs, mem}
	switch {
	case rule.CFA == CFANone:
		return s.framePointer()
	case rule.CFA == CFAFrame && rule.RA() != RAUndefined:
		return s.record()
	case rule.CFA == CFAGoroutine:
		return s.goroutine()
	case rule.CFA == CFASignal && s.arm:
		return s.signalAArch64()
	case rule.CFA == CFASignal:
		return s.signalX86()
	case rule.CFA != CFAUnsupported && rule.RA() == RAUndefined:
		return Complete
	}
	return s.checkCall()
}

// checkCall unwinds one call by CFI.
func (s *stepper) checkCall() Outcome {
	cfa, o := s.computeCFA()
	if o != Unset {
		return o
	}
	leaves := cfa < s.regs.SP
	if leaves && !s.mayLeaveStack() || cfa == s.regs.SP && !s.returnInRegister() {
		return NoProgress
	}
	ra, o := s.returnAddress(cfa)
	if o != Unset {
		return o
	}
	fp, o := s.callerFP(cfa)
	if o != Unset {
		return o
	}
	if leaves && !s.mem.Called(ra) {
		return NoProgress // the register has another use
	}
	if ra == 0 {
		// The end of a stack that a program made for itself is unknown. A zero frame pointer also
		// marks it.
		return s.endOutcome(fp == 0 || s.mem.EndsAt(cfa))
	}
	if s.rule.RA() == RACalled && !s.mem.Called(ra) {
		return NoCall
	}
	next := s.caller(ra, cfa, fp)
	if leaves && next.Switches != noMoreSwitches {
		next.Switches++
	}
	if o := s.callerRBX(&next, cfa); o != Unset {
		return o
	}
	*s.regs = next
	return Unset
}

// mayLeaveStack reports whether the rule may lead to another, lower stack. A function that runs
// another function on a separate stack, such as Rust's stacker, gcc's __morestack and functions of
// OCaml's runtime, finds its frame through a register or a saved word. The number of switches is
// limited, so that the walk ends.
func (s *stepper) mayLeaveStack() bool {
	switch s.rule.CFA {
	case CFAFP, CFAFPDeref, CFASPDeref, CFASPDerefTwice, CFAReg:
		return s.regs.Switches < maxSwitches
	}
	return false
}

// caller returns the registers of the caller. Other registers are unknown.
func (s *stepper) caller(pc, sp, fp uint64) Regs {
	next := Regs{PC: pc, SP: sp, FP: fp, Thread: s.regs.Thread, Switches: s.regs.Switches}
	if s.rule.RA() == RADetached {
		next.Switches = noMoreSwitches
	}
	return next
}

// callerRBX sets the caller's rbx if the rule has one.
func (s *stepper) callerRBX(next *Regs, cfa uint64) (o Outcome) {
	switch s.rule.RA() {
	case RAKeepRBX:
		if s.regs.Full || s.regs.RBX {
			next.General[rbx], next.RBX = s.regs.General[rbx], true
		}
	case RARestoreRBX:
		if next.General[rbx], o = s.readWord(cfa+uint64(int64(s.rule.RAOff)), 0); o != Unset {
			return o
		}
		next.RBX = true
	}
	return Unset
}

// returnInRegister reports whether the frame may have size zero: a leaf on arm64, or x86-64's
// vfork, which pops its return address. Such a rule works only for one frame, so it cannot cause an
// endless walk.
func (s *stepper) returnInRegister() bool { return s.rule.RA() == RALR || s.rule.RA() == RAReg }

// computeCFA returns the canonical frame address.
func (s *stepper) computeCFA() (uint64, Outcome) {
	off := uint64(int64(s.rule.CFAOff))
	switch s.rule.CFA {
	case CFASP:
		return s.regs.SP + off, Unset
	case CFASPFar:
		return s.regs.SP + 8*off, Unset
	case CFAFP:
		return s.regs.FP + off, Unset
	case CFAFPDeref:
		return s.readWord(s.regs.FP+off, 8*uint64(s.rule.Reg))
	case CFASPDeref:
		return s.readWord(s.regs.SP+off, 8*uint64(s.rule.Reg))
	case CFASPDerefTwice:
		at, o := s.readWord(s.regs.SP+off, 8*uint64(s.rule.Reg2))
		if o != Unset {
			return 0, o
		}
		return s.readWord(at, 8*uint64(s.rule.Reg))
	case CFAPLT:
		if s.regs.PC&15 >= off {
			return s.regs.SP + 16, Unset
		}
		return s.regs.SP + 8, Unset
	case CFAAbsent:
		return 0, PageMissing
	case CFAReg:
		if s.rule.Reg == rbx && s.regs.RBX {
			return s.regs.General[rbx] + off, Unset
		}
		v, o := s.general(s.rule.Reg)
		return v + off, o
	case CFASPIndexed:
		v, o := s.general(s.rule.Reg)
		if o != Unset {
			return 0, o
		}
		return s.readWord(s.regs.SP+8*v+off, 8*uint64(s.rule.Reg2))
	}
	return 0, UnsupportedRule
}

// returnAddress returns the caller's pc.
func (s *stepper) returnAddress(cfa uint64) (uint64, Outcome) {
	var ra uint64
	var o Outcome
	switch s.rule.RA() {
	case RAKeepRBX, RARestoreRBX:
		if s.arm {
			return 0, UnsupportedRule
		}
		ra, o = s.readWord(cfa-8, 0)
	case RAClone:
		child, o := s.general(rax)
		switch {
		case s.arm:
			return 0, UnsupportedRule
		case o != Unset:
			return 0, o
		case child == 0:
			return 0, Complete
		}
		return s.readWord(cfa-8, 0)
	case RADefault, RADetached, RACalled:
		at := cfa - 8
		if s.arm {
			at = cfa + uint64(int64(s.rule.FPOff)) + 8
		}
		ra, o = s.readWord(at, 0)
	case RAAtCFA:
		ra, o = s.readWord(cfa+uint64(int64(s.rule.RAOff)), 0)
	case RAAtFP:
		ra, o = s.readWord(s.regs.FP+uint64(int64(s.rule.RAOff)), 0)
	case RAAtSP:
		ra, o = s.readWord(s.regs.SP+uint64(int64(s.rule.RAOff)), 0)
	case RALR:
		if !s.regs.LRKnown {
			return 0, UnsupportedRule
		}
		ra = s.regs.LR
	case RAReg:
		ra, o = s.general(uint8(s.rule.RAOff))
	default:
		return 0, UnsupportedRule
	}
	return s.strip(ra), o
}

// callerFP returns the caller's frame pointer.
func (s *stepper) callerFP(cfa uint64) (uint64, Outcome) {
	off := uint64(int64(s.rule.FPOff))
	switch s.rule.FP() {
	case FPSame:
		return s.regs.FP, Unset
	case FPUndefined:
		return 0, Unset
	case FPAtCFA:
		return s.readWord(cfa+off, 0)
	case FPAtFP:
		// GCC emits this rule for functions that realign their stack, up to their last instruction.
		// But after the frame is removed, fp is already the caller's.
		if at := s.regs.FP + off; at >= s.regs.SP && at < cfa {
			return s.readWord(at, 0)
		}
		return s.regs.FP, Unset
	case FPReg:
		return s.general(s.rule.Reg2)
	}
	return 0, UnsupportedRule
}

// maxSwitches bounds the switches of a chain of frame records to another stack.
const maxSwitches = 16

// noMoreSwitches says that the remaining frames stay on their stack, unless a rule says where they
// continue.
const noMoreSwitches = 255

// framePointer finds the caller through the frame record at the frame pointer. The record must be
// plausible: aligned, not below sp, and with a return address that follows a call. After one record
// has led to the current frame, the chain may also continue on another stack, as Go's does from a
// thread's own stack to the goroutine's stack.
func (s *stepper) framePointer() Outcome {
	fp, switches := s.regs.FP, s.regs.Switches
	switch {
	case fp == 0 && s.regs.ViaFP:
		// Zero, or a record of zeros, marks the outermost frame. But fp may have any value in the
		// first frame, and also in other frames if a caller uses the register for something else.
		return s.endOutcome(s.mem.EndsAt(s.regs.SP))
	case fp == 0 || fp%8 != 0:
		return NoRow
	case fp < s.regs.SP:
		if !s.regs.ViaFP || switches >= maxSwitches {
			return NoRow
		}
		switches++
	}
	next, ok1 := s.mem.ReadU64(fp)
	ra, ok2 := s.mem.ReadU64(fp + 8)
	if !ok1 || !ok2 {
		return NoRow
	}
	switch ra = s.strip(ra); {
	case ra == 0 && next == 0 && s.regs.ViaFP:
		return s.endOutcome(s.mem.EndsAt(fp))
	case ra == 0:
		return NoRow
	case !s.mem.Called(ra):
		return NoRow // the register may have another use, so require a plausible return address
	}
	*s.regs = Regs{PC: ra, SP: fp + 16, FP: next, ViaFP: true, Thread: s.regs.Thread, Switches: switches}
	return Unset
}

// endOutcome returns the outcome for a zero: the end of the stack, if the stack may end there.
func (s *stepper) endOutcome(plausible bool) Outcome {
	if plausible {
		return CompleteFP
	}
	return NoRow
}

// ReturnsTo reports whether a call or a signal handler may return to addr, according to the code
// there.
func ReturnsTo(machine elf.Machine, addr uint64, code Words) bool {
	if FollowsCall(machine, addr, code) {
		return true
	}
	v, _ := code.ReadU64(addr)
	if machine == elf.EM_AARCH64 {
		return v == 0xd4000001_d2801168 // mov x8, #139; svc #0
	}
	return v == 0x0f000000_0fc0c748 || v<<8 == 0x050f0000_000fb800 // mov $15, %rax or %eax; syscall
}

// FollowsCall reports whether the instruction before addr may be a call, as before a return
// address.
func FollowsCall(machine elf.Machine, addr uint64, mem Words) bool {
	arm := machine == elf.EM_AARCH64
	v, ok := mem.ReadU64(addr - 8)
	if inPage := addr % 4096; !ok && !arm && inPage > 0 && inPage < 8 {
		// The previous page may be missing: use zeros for its bytes.
		v, ok = mem.ReadU64(addr - inPage)
		v <<= 64 - 8*inPage
	}
	if !ok || arm && addr%4 != 0 {
		return false
	}
	if arm {
		code := uint32(v >> 32)
		return code&0xfc00_0000 == 0x9400_0000 || code&0xffff_fc1f == 0xd63f_0000 // bl, blr
	}
	var code [8]byte // code[8-n] is n bytes before addr
	binary.LittleEndian.PutUint64(code[:], v)
	const call, group = 0xe8, 0xff // e8 and four bytes; ff /2
	switch low := code[7] & 7; {
	case code[3] == call:
		return true
	case code[6] == group && code[7]&0xf8 == 0xd0, // register
		code[6] == group && code[7]&0xf8 == 0x10 && low != 4 && low != 5: // (register)
		return true
	case code[5] == group && code[6]&0xf8 == 0x50 && code[6]&7 != 4, // 8 bits of offset
		code[5] == group && code[6] == 0x14, code[4] == group && code[5] == 0x54: // base and index
		return true
	case code[2] == group && (code[3]&0xf8 == 0x90 || code[3] == 0x15) && code[3] != 0x94, // 32 bits of offset
		code[1] == group && code[2] == 0x94, code[1] == group && code[2] == 0x14 && code[3]&7 == 5:
		return true
	}
	return false
}

// record finds the caller through the frame record at the frame pointer, which is known to be
// valid. The caller may be on another, lower stack, because the rule is for functions that switch
// stacks. A zero frame pointer marks the end.
func (s *stepper) record() Outcome {
	fp := s.regs.FP
	if fp == 0 {
		return CompleteFP
	}
	next, ok1 := s.mem.ReadU64(fp)
	ra, ok2 := s.mem.ReadU64(fp + 8)
	if !ok1 || !ok2 {
		return UnreadableStack
	}
	if ra = s.strip(ra); ra == 0 {
		return CompleteFP
	}
	*s.regs = s.caller(ra, fp+uint64(int64(s.rule.CFAOff)), next)
	return Unset
}

// DWARF numbers of registers of x86-64.
const (
	rax = 0
	rbx = 3
	rbp = 6
	rsp = 7
)

// general returns the general register with DWARF number reg.
func (s *stepper) general(reg uint8) (uint64, Outcome) {
	if !s.regs.Full || int(reg) >= len(s.regs.General) {
		return 0, UnsupportedRule
	}
	return s.regs.General[reg], Unset
}

// readWord returns the word at addr plus add.
func (s *stepper) readWord(addr, add uint64) (uint64, Outcome) {
	v, ok := s.mem.ReadU64(addr)
	if !ok {
		return 0, UnreadableStack
	}
	return v + add, Unset
}

// strip removes the pointer authentication code from a return address.
func (s *stepper) strip(ra uint64) uint64 {
	if s.arm {
		return ra & pacMask
	}
	return ra
}
