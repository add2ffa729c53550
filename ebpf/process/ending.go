package process

import (
	"debug/elf"
	"encoding/binary"
)

// endings are what code does to its first argument before it ends the process, with a zero or a byte.
var endings = [][]byte{
	{0x48, 0x31, 0xff}, // xor %rdi, %rdi
	{0x31, 0xff},       // xor %edi, %edi
	{0xbf},             // mov $status, %edi; the status follows
	{},
}

// EndsProcess reports whether the code at pc does nothing but call a function that does not return. Boost's
// make_fcontext, and PHP's, lay the address of such code on the stack of a fiber as the return address of its first
// function. No call precedes it.
func (v *View) EndsProcess(pc uint64) bool {
	m, ok := v.find(pc)
	if !ok || m.remote || v.Machine() != elf.EM_X86_64 {
		return false
	}
	words := codeWords{v.tracker.memory(v.pid)}
	var code [16]byte
	for i := range 2 {
		word, ok := words.ReadU64(pc + 8*uint64(i))
		if !ok {
			return false
		}
		binary.LittleEndian.PutUint64(code[8*i:], word)
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
