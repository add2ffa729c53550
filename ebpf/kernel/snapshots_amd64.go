package kernel

import (
	"encoding/binary"

	"github.com/headwater/headwater/ebpf/unwind"
)

// Numbers of registers in a PerfSnapshot.
const (
	generalRegs = 16 // by DWARF number (System V psABI for x86-64, figure 3.36)
	pcNumber    = 16
)

// regNumbers are the DWARF numbers of the registers in a record, in the order of
// enum perf_event_x86_regs: AX, BX, CX, DX, SI, DI, BP, SP, IP, R8 to R15.
var regNumbers = [...]uint8{0, 3, 2, 1, 4, 5, 6, 7, pcNumber, 8, 9, 10, 11, 12, 13, 14, 15}

// userRegsMask has a bit for each register of regNumbers. Flags and segments are between IP and R8.
const userRegsMask = 0x1ff | 0xff<<16

// SP returns the stack pointer.
func (s *PerfSnapshot) SP() uint64 { return s.Regs[7] }

// argumentRegisters hold the first arguments of a function: rdi, rsi, rdx, rcx, r8, r9.
var argumentRegisters = [...]uint8{5, 4, 1, 2, 8, 9}

// setMachine sets the registers that only this architecture has.
func (s *PerfSnapshot) setMachine(r *unwind.Regs) {
	r.FP, r.Full = s.Regs[6], true
	copy(r.General[:], s.Regs[:])
}

// goThread returns the register that leads to the goroutine of a Go thread.
func (r *threadsThread) goThread() uint64 { return r.ThreadPointer }

// setRegs sets the registers from a struct registers of bpf/unwind/unwinder.h.
func (s *PerfSnapshot) setRegs(general [generalRegs]uint64, _, _, _ uint64) { s.Regs = general }

// leaveFunction changes the registers at an instruction that ends a function to the registers that its caller then has.
// It reports whether the stack has the return address.
func (s *PerfSnapshot) leaveFunction() bool {
	if len(s.Stack) < 8 {
		return false
	}
	s.PC, s.Stack = binary.LittleEndian.Uint64(s.Stack), s.Stack[8:]
	s.Regs[7] += 8
	return true
}
