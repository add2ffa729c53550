package unwindtable

import (
	"bytes"
	"encoding/binary"

	"github.com/headwater/headwater/ebpf/unwind"
)

// goX86 is Go's code on x86-64 (cmd/internal/obj/x86/obj6.go, preprocess): a
// function with a frame pushes rbp next to the return address and makes it point
// there. Until Go 1.20 the frame was made first:
//
//	push %rbp             | sub $n,%rsp
//	mov %rsp,%rbp         | mov %rbp,n-8(%rsp)
//	sub $n,%rsp           | lea n-8(%rsp),%rbp
//	...                   | ...
//	add $n,%rsp; pop %rbp | mov n-8(%rsp),%rbp; add $n,%rsp
type goX86 struct{}

// goSaved is the rule of a saved rbp: it is next to the return address.
const goSaved = -16

func (goX86) row(delta int64, frame bool) (unwind.WideRule, bool) {
	w := unwind.WideRule{CFA: unwind.CFASP}
	if fit(&w.CFAOff, delta+8) != unwind.ReasonNone {
		return unwind.WideRule{CFA: unwind.CFAUnsupported, CFAOff: int32(unwind.ReasonOffsetRange)}, false
	}
	if frame && delta > 0 {
		w.Rules, w.FPOff = unwind.Rules(unwind.FPAtCFA, unwind.RADefault), goSaved
	}
	return w, true
}

func (goX86) saves(c *code, addr uint64, delta int64) (after, set uint64, ok bool) {
	const moved = 3 // bytes of mov %rsp,%rbp
	if delta == 8 && bytes.Equal(c.at(addr-1, 1+moved), []byte{0x55, 0x48, 0x89, 0xe5}) {
		return 0, moved, true
	}
	at := delta - 8 // from rsp, of the saved rbp
	slot, n := []byte{0x48, 0x89, 0x6c, 0x24, byte(at)}, uint64(5)
	switch {
	case at == 0:
		slot, n = []byte{0x48, 0x89, 0x2c, 0x24}, 4
	case at > 127:
		slot, n = binary.LittleEndian.AppendUint32([]byte{0x48, 0x89, 0xac, 0x24}, uint32(at)), 8
	}
	return n, 2 * n, bytes.Equal(c.at(addr, len(slot)), slot) // lea is as long as mov
}

func (goX86) record(int64) unwind.WideRule { return unwind.WideRule{CFA: unwind.CFAFrame, CFAOff: 16} }

// loadsSP looks for a move to rsp from memory, REX.W 8B /4, or from a register,
// REX.W 89 /r, as the runtime's own functions have it.
func (goX86) loadsSP(text []byte) int {
	for i := 0; i+4 <= len(text); i++ {
		modrm := text[i+2]
		if text[i]&^4 == 0x48 && text[i+1] == 0x89 && modrm&0xc7 == 0xc4 {
			return i + 3
		}
		if text[i]&^1 != 0x48 || text[i+1] != 0x8b || modrm>>3&7 != 4 || modrm>>6 == 3 {
			continue
		}
		n := i + 3
		if modrm&7 == 4 { // SIB
			n++
		}
		return n + []int{0, 1, 4}[modrm>>6]
	}
	return -1
}

// returnRegister knows pop of r8 to r15, which syscall.rawVforkSyscall begins with.
func (goX86) returnRegister(c *code, addr uint64) (unwind.WideRule, bool) {
	pop := c.at(addr-2, 2)
	if len(pop) < 2 || pop[0] != 0x41 || pop[1]&0xf8 != 0x58 {
		return unwind.WideRule{}, false
	}
	return unwind.WideRule{CFA: unwind.CFASP, Rules: unwind.Rules(unwind.FPSame, unwind.RAReg),
		RAOff: 8 + int32(pop[1]&7)}, true
}
