package process

import (
	"debug/elf"

	"github.com/headwater/headwater/ebpf/unwind"
)

// Each x86-64 process has a page at a fixed address, with three functions for programs that are older than the vdso
// (Linux, arch/x86/entry/vsyscall/vsyscall_64.c). The kernel emulates the functions, so samples only show their starts.
const (
	vsyscallPage = 0xffffffffff600000
	vsyscallSize = 1024 // of a function
)

var vsyscallFunctions = [...]string{"gettimeofday", "time", "getcpu"}

// VSyscallFile is the name of that page in /proc/PID/maps.
const VSyscallFile = "[vsyscall]"

// VSyscall returns the name of the function at an address in the vsyscall page, or false for all other addresses.
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
