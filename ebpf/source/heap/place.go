package heap

import (
	"bytes"
	"debug/elf"

	"github.com/headwater/headwater/ebpf/object/elffile"
)

// preludes are instructions of x86-64 with which functions start, and that change no register except flags: endbr64,
// and test %rdi,%rdi, by which free checks whether there is a block.
var preludes = [][]byte{{0xf3, 0x0f, 0x1e, 0xfa}, {0x48, 0x85, 0xff}}

// skipPrologue returns how many bytes of a function to pass over so that a probe of it costs little. The kernel
// emulates a few instructions, and has the CPU single-step a copy of the other ones, which takes a second trap: several
// microseconds in a virtual machine, many times the cost of the first trap.
func skipPrologue(f *elffile.File, offset uint64) uint64 {
	var code [16]byte
	if f.Machine() != elf.EM_X86_64 {
		return 0
	}
	if n, _ := f.ReadAt(code[:], int64(offset)); n < len(code) { // the probe is at the start of the function
		return 0
	}
	return uint64(skipped(code[:]))
}

// isStepped reports whether kernels have the CPU single-step the instruction at an offset.
func isStepped(f *elffile.File, offset uint64) bool {
	var code [16]byte
	n, _ := f.ReadAt(code[:], int64(offset)) // unreadable code counts as single-stepped
	return f.Machine() != elf.EM_X86_64 || !emulated(code[:n])
}

// skipped returns how many bytes of code to pass over, 0 if that does not help.
func skipped(code []byte) (n int) {
	for {
		before := n
		for _, p := range preludes {
			if bytes.HasPrefix(code[n:], p) {
				n += len(p)
			}
		}
		if emulated(code[n:]) {
			return n
		}
		if n == before {
			return 0
		}
	}
}

// emulated reports whether kernels emulate an instruction: push, jumps and nop, see arch/x86/kernel/uprobes.c.
func emulated(code []byte) bool {
	if len(code) < 2 {
		return false
	}
	push := func(op byte) bool { return op >= 0x50 && op <= 0x57 }
	switch op := code[0]; {
	case push(op), op == 0x41 && push(code[1]): // push %rax to %r15
		return true
	case op >= 0x70 && op <= 0x7f, op == 0x0f && code[1] >= 0x80 && code[1] <= 0x8f: // a jump with a condition
		return true
	}
	return code[0] == 0xe9 || code[0] == 0xeb || code[0] == 0x90
}
