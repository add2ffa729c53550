package unwind_test

import (
	"debug/elf"
	"fmt"

	"github.com/headwater/headwater/ebpf/unwind"
)

// stack is the memory of a thread: words by address.
type stack map[uint64]uint64

// ReadU64 implements unwind.Words.
func (s stack) ReadU64(addr uint64) (uint64, bool) {
	word, ok := s[addr]
	return word, ok
}

// EndsAt implements unwind.Memory.
func (s stack) EndsAt(addr uint64) bool { return addr >= 0x7ff0 }

// Called implements unwind.Memory.
func (s stack) Called(addr uint64) bool { return addr == 0x401234 }

// A function has pushed rbp. Its caller's frame is 16 bytes above the stack pointer:
// the return address at CFA-8, the caller's rbp at CFA-16.
func ExampleStep() {
	rule := unwind.WideRule{
		CFA: unwind.CFASP, CFAOff: 16,
		Rules: unwind.Rules(unwind.FPAtCFA, unwind.RADefault), FPOff: -16,
	}
	memory := stack{0x7000: 0x7fe0, 0x7008: 0x401234}
	regs := unwind.Regs{PC: 0x402000, SP: 0x7000, FP: 0x7000, Exact: true}

	outcome := unwind.Step(elf.EM_X86_64, rule, &regs, memory)
	fmt.Printf("%v: pc %#x, sp %#x, rbp %#x\n", outcome, regs.PC, regs.SP, regs.FP)

	// Apply the same rule again: the memory there is unreadable.
	fmt.Println(unwind.Step(elf.EM_X86_64, rule, &regs, memory))
	// Output:
	// unset: pc 0x401234, sp 0x7010, rbp 0x7fe0
	// unreadable_stack
}
