package heap

import (
	"bytes"
	"debug/elf"

	"github.com/headwater/headwater/ebpf/elffile"
)

// preludes are instructions of x86-64 that functions begin with, and that change no register but flags: endbr64, and
// test %rdi,%rdi, as free asks whether there is a block.
var preludes = [][]byte{{0xf3, 0x0f, 0x1e, 0xfa}, {0x48, 0x85, 0xff}}

// skip returns how many bytes of a function to pass over so that a probe of it costs little. The kernel does itself
// what few instructions do, and has the CPU step over a copy of others, which takes a second trap: several microseconds
// in a virtual machine, many times what the first one takes.
func skip(f *elffile.File, offset uint64) uint64 {
	var code [16]byte
	if f.Machine() != elf.EM_X86_64 {
		return 0
	}
	if n, _ := f.ReadAt(code[:], int64(offset)); n < len(code) { // the probe is where the function begins
		return 0
	}
	return uint64(skipped(code[:]))
}

// isStepped reports whether kernels have the CPU step over the instruction at an offset.
func isStepped(f *elffile.File, offset uint64) bool {
	var code [16]byte
	n, _ := f.ReadAt(code[:], int64(offset)) // what cannot be read costs more
	return f.Machine() != elf.EM_X86_64 || !emulated(code[:n])
}

// skipped returns how many bytes of code to pass over, 0 if that is of no use.
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

// emulated reports whether kernels do themselves what an instruction does: push, jumps and nop, see
// arch/x86/kernel/uprobes.c.
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
