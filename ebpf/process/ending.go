package process

import "debug/elf"

// endings are the instructions that set the first argument, the exit status, before the call that ends the process.
var endings = [][]byte{
	{0x48, 0x31, 0xff}, // xor %rdi, %rdi
	{0x31, 0xff},       // xor %edi, %edi
	{0xbf},             // mov $status, %edi; the status follows
	{},
}

// EndsProcess reports whether the code at pc only calls a function that does not return. make_fcontext of Boost and of
// PHP puts the address of such code on the stack of a fiber, as the return address of the fiber's first function. No
// call precedes that code.
func (v *View) EndsProcess(pc uint64) bool {
	m, ok := v.findMapping(pc)
	if !ok || m.remote || v.Machine() != elf.EM_X86_64 {
		return false
	}
	var code [16]byte
	if _, err := v.tracker.memory(v.pid).ReadAt(code[:], int64(pc)); err != nil {
		return false
	}
	for _, start := range endings {
		rest := code[len(start):]
		if string(code[:len(start)]) != string(start) {
			continue
		}
		if len(start) == 1 {
			rest = rest[4:]
		}
		const call, halt = 0xe8, 0xf4 // call of 5 bytes, hlt
		if rest[0] == call && rest[5] == halt {
			return true
		}
	}
	return false
}
