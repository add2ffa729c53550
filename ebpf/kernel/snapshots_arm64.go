package kernel

import "github.com/headwater/headwater/ebpf/unwind"

// Numbers of registers in a PerfSnapshot.
const (
	generalRegs = 32 // by DWARF number (DWARF for the Arm 64-bit Architecture, 4.1): x0 to x30, sp
	pcNumber    = 32
)

// regNumbers are the DWARF numbers of the registers in a record, in the order of
// enum perf_event_arm_regs, which is the same.
var regNumbers = [...]uint8{
	0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17, 18, 19, 20, 21, 22, 23, 24, 25, 26, 27, 28, 29, 30,
	31, pcNumber,
}

// userRegsMask has a bit for each register of regNumbers.
const userRegsMask = 1<<33 - 1

// SP returns the stack pointer.
func (s *PerfSnapshot) SP() uint64 { return s.Regs[31] }

// argumentRegisters hold the first arguments of a function: x0 to x5.
var argumentRegisters = [...]uint8{0, 1, 2, 3, 4, 5}

// setMachine sets the registers that only this architecture has.
func (s *PerfSnapshot) setMachine(r *unwind.Regs) {
	r.FP, r.LR, r.LRKnown = s.Regs[29], s.Regs[30], true
}

// goThread returns the register that leads to the goroutine of a Go thread.
func (r *threadsThread) goThread() uint64 { return r.Regs.X28 }

// setRegs sets the registers from a struct registers of bpf/unwind/unwinder.h, whose general registers are empty here.
func (s *PerfSnapshot) setRegs(_ [16]uint64, sp, fp, lr uint64) {
	s.Regs[29], s.Regs[30], s.Regs[31] = fp, lr, sp
}

// leaveFunction changes the registers at an instruction that ends a function to the registers that its caller then has.
// The return address may be signed, in the bits above an address.
func (s *PerfSnapshot) leaveFunction() bool {
	const addressBits = 1<<48 - 1
	s.PC = s.Regs[30] & addressBits
	return true
}
