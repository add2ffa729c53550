// Package cfi unwinds stacks with call frame information as in DWARF 5, 6.4: every register, every
// rule, every expression. It is slow and complete. It is the reference for the rows of package
// unwind, and shares only the ehframe parser with that package.
//
// The package does not use frame pointers, and it does not access files or processes. Its input is
// registers, a memory and a function that finds the rules of an address; its output is frames. It
// reports addresses without call frame information.
package cfi

import "debug/elf"

// Frame is the state of one function activation.
type Frame struct {
	PC    uint64
	Exact bool // PC is the next instruction of the frame, not a return address, so the rules at PC apply
	Regs  Registers
}

// Lookup returns the address whose rules apply: PC, or for a return address the last byte of the
// call before it.
func (f *Frame) Lookup() uint64 {
	if f.Exact {
		return f.PC
	}
	return f.PC - 1
}

// maxRegisters bounds the numbers of tracked registers.
const maxRegisters = 64

// Registers are values of general registers by DWARF number. In the zero value all registers are
// unknown.
type Registers struct {
	values [maxRegisters]uint64
	known  uint64 // bit mask
}

// Get returns the value of a register, and false if it is unknown.
func (r *Registers) Get(number uint16) (uint64, bool) {
	if number >= maxRegisters || r.known>>number&1 == 0 {
		return 0, false
	}
	return r.values[number], true
}

// Set sets the value of a register.
func (r *Registers) Set(number uint16, value uint64) {
	if number < maxRegisters {
		r.values[number] = value
		r.known |= 1 << number
	}
}

// Forget makes the value of a register unknown.
func (r *Registers) Forget(number uint16) {
	if number < maxRegisters {
		r.known &^= 1 << number
	}
}

// Memory is the memory of the thread whose stack is unwound.
type Memory interface {
	// Read fills b from the address addr, and returns false if the memory is unreadable.
	Read(addr uint64, b []byte) bool
}

// Machine describes the registers in the ABI of an instruction set.
type Machine struct {
	sp        uint16 // stack pointer: equal to the CFA unless a rule says otherwise
	pc        uint16 // register number of PC in expressions
	preserved uint64 // mask of the callee-saved registers
	link      bool   // a call leaves the return address in a register, not on the stack
	addrMask  uint64 // of the bits of a code address
	word      int    // bytes of a register and of a slot on the stack, 4 or 8
}

// truncate truncates v to the width of a register.
func (m Machine) truncate(v uint64) uint64 {
	if m.word == 4 {
		return uint64(uint32(v))
	}
	return v
}

// MachineOf returns the Machine of an ELF machine, and false if it is unsupported.
func MachineOf(m elf.Machine) (Machine, bool) {
	switch m {
	case elf.EM_X86_64: // System V psABI, 3.2.1: rbx, rbp, r12 to r15; numbers: figure 3.36
		return Machine{sp: 7, pc: 16, preserved: 1<<3 | 1<<6 | 0xf<<12, addrMask: 1<<64 - 1, word: 8}, true
	case elf.EM_AARCH64: // AAPCS64, 6.1.1: x19 to x29; return addresses may be signed above bit 48
		return Machine{sp: 31, pc: 32, preserved: 0x7ff << 19, link: true, addrMask: 1<<48 - 1, word: 8}, true
	case elf.EM_386: // System V psABI for Intel386, 2.2.3 and figure 2.14: ebx, ebp, esi, edi
		return Machine{sp: 4, pc: 8, preserved: 1<<3 | 7<<5, addrMask: 1<<32 - 1, word: 4}, true
	}
	return Machine{}, false
}
