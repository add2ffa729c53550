// Package cfi unwinds stacks by call frame information as DWARF 5, 6.4 states
// it: every register, every rule, every expression. It is slow and complete, the
// reference that the rows of package unwind are checked against, with which it
// shares no code but the parser of the bytes.
//
// It knows nothing of frame pointers, of files or of processes: registers, a
// memory and a function that finds the rules of an address go in, frames come
// out. Where there is no call frame information it says so.
package cfi

import "debug/elf"

// Frame is the state of one function activation.
type Frame struct {
	PC    uint64
	Exact bool // PC is where the frame will go on, no return address: its rules are those at PC
	Regs  Registers
}

// Lookup returns the address whose rules apply: PC, or the last byte of
// the call before a return address.
func (f *Frame) Lookup() uint64 {
	if f.Exact {
		return f.PC
	}
	return f.PC - 1
}

// maxRegisters bounds the numbers of registers that are followed.
const maxRegisters = 64

// Registers are values of general registers by DWARF number. The zero value
// knows none.
type Registers struct {
	values [maxRegisters]uint64
	known  uint64 // bit mask
}

// Get returns the value of a register, and false when it is not known.
func (r *Registers) Get(number uint16) (uint64, bool) {
	if number >= maxRegisters || r.known>>number&1 == 0 {
		return 0, false
	}
	return r.values[number], true
}

// Set makes the value of a register known.
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

// Memory is the memory of the task whose stack is unwound.
type Memory interface {
	// Read fills b from the address addr, and returns false if it cannot.
	Read(addr uint64, b []byte) bool
}

// Machine is what the ABI of an instruction set says about registers.
type Machine struct {
	sp        uint16 // stack pointer: the CFA unless a rule says otherwise
	pc        uint16 // number by which expressions refer to PC
	preserved uint64 // mask of the registers that a function leaves as they were
	link      bool   // a call leaves the return address in a register, and not on the stack
	addrMask  uint64 // of the bits of a code address
	word      int    // bytes of a register and of a slot on the stack, 4 or 8
}

// truncate returns the bits of v that a register has.
func (m Machine) truncate(v uint64) uint64 {
	if m.word == 4 {
		return uint64(uint32(v))
	}
	return v
}

// MachineOf returns the Machine of an ELF machine, and false for those not known.
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
