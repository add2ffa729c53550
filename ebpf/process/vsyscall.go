package process

import (
	"debug/elf"

	"github.com/headwater/headwater/ebpf/unwind"
)

// The kernel has a page at one address in every process of x86-64, with three functions for programs that are older
// than the vdso (Linux, arch/x86/entry/vsyscall/vsyscall_64.c). It emulates them: a program is seen at their starts.
const (
	vsyscallPage = 0xffffffffff600000
	vsyscallSize = 1024 // of a function
)

var vsyscallFunctions = [...]string{"gettimeofday", "time", "getcpu"}

// VSyscallFile is what /proc/PID/maps calls that page.
const VSyscallFile = "[vsyscall]"

// VSyscall returns the name of the function at an address in the vsyscall page, false for all other addresses.
func VSyscall(addr uint64) (name string, ok bool) {
	i := (addr - vsyscallPage) / vsyscallSize
	if addr < vsyscallPage || i >= uint64(len(vsyscallFunctions)) {
		return "", false
	}
	return vsyscallFunctions[i], true
}

// atVSyscall reports whether addr is in the vsyscall page of a process.
func (v *View) atVSyscall(addr uint64) bool {
	_, ok := VSyscall(addr)
	return ok && v.Machine() == elf.EM_X86_64
}

// atStart is the rule at the first instruction of a function of x86-64: the return address is the top of the stack.
var atStart = unwind.WideRule{CFA: unwind.CFASP, CFAOff: 8}
