package unwindtable

import (
	"bytes"
	"encoding/binary"

	"github.com/headwater/headwater/ebpf/unwind"
	"github.com/headwater/headwater/ebpf/unwind/x86"
)

// goX86 describes Go's code on x86-64 (cmd/internal/obj/x86/obj6.go, preprocess). A function with a
// frame pushes rbp next to the return address and makes rbp point there. Until Go 1.20 it first
// made the frame:
//
//	push %rbp             | sub $n,%rsp
//	mov %rsp,%rbp         | mov %rbp,n-8(%rsp)
//	sub $n,%rsp           | lea n-8(%rsp),%rbp
//	...                   | ...
//	add $n,%rsp; pop %rbp | mov n-8(%rsp),%rbp; add $n,%rsp
type goX86 struct{}

// goSaved is the offset of the saved rbp from the CFA, next to the return address.
const goSaved = -16

func (goX86) ruleOf(delta int64, frame bool) (unwind.WideRule, bool) {
	w := unwind.WideRule{CFA: unwind.CFASP}
	if fitInt32(&w.CFAOff, delta+8) != unwind.ReasonNone {
		return unwind.WideRule{CFA: unwind.CFAUnsupported, CFAOff: int32(unwind.ReasonOffsetRange)}, false
	}
	if frame && delta > 0 {
		w.Rules, w.FPOff = unwind.Rules(unwind.FPAtCFA, unwind.RADefault), goSaved
	}
	return w, true
}

func (goX86) saves(c *code, addr uint64, delta int64) (after, set uint64, ok bool) {
	const moved = 3 // bytes of mov %rsp,%rbp
	if delta == 8 && bytes.Equal(c.bytesAt(addr-1, 1+moved), []byte{0x55, 0x48, 0x89, 0xe5}) {
		return 0, moved, true
	}
	at := delta - 8 // offset of the saved rbp from rsp
	slot, n := []byte{0x48, 0x89, 0x6c, 0x24, byte(at)}, uint64(5)
	switch {
	case at == 0:
		slot, n = []byte{0x48, 0x89, 0x2c, 0x24}, 4
	case at > 127:
		slot, n = binary.LittleEndian.AppendUint32([]byte{0x48, 0x89, 0xac, 0x24}, uint32(at)), 8
	}
	return n, 2 * n, bytes.Equal(c.bytesAt(addr, len(slot)), slot) // lea is as long as mov
}

func (goX86) record(int64) unwind.WideRule { return unwind.WideRule{CFA: unwind.CFAFrame, CFAOff: 16} }

func (goX86) absence(text []byte) (goAbsence, bool) {
	var a absenceFinder
	var regs [16]goPath
	for at := 0; !a.over; {
		in, ok := x86.Decode(text[at:])
		if !ok {
			break
		}
		at += in.Length
		switch store := in.Mod != 3; {
		case in.Vector || in.Table != 0 || in.Opcode == movTo && store:
		case in.Opcode == ret:
			a.returns(at)
		case in.Opcode == callNear, in.Opcode == group5 && in.Reg&7 == 2:
			a.called = a.called || a.left && in.Opcode == group5
			regs = [16]goPath{}
		case in.Opcode == movTo && in.Reg == x86.RSP && in.RM == x86.RBP,
			in.Opcode == movFrom && in.Mod == 3 && in.RM == x86.RSP && in.Reg == x86.RBP:
			a.copiesSP(at)
		case in.Opcode == movTo && in.RM == x86.RSP:
			a.setsSP(at, regs[in.Reg])
		case in.Opcode == movFrom && in.Reg == x86.RSP:
			a.setsSP(at, loadX86(&regs, &in))
		case in.Wide && in.Opcode == movTo:
			regs[in.RM] = regs[in.Reg]
		case in.Wide && in.Opcode == movFrom:
			regs[in.Reg] = loadX86(&regs, &in)
		case in.Wide && in.Opcode == movNumber && !store:
			regs[in.RM] = goPath{number: in.Imm}
		default:
			regs[in.RM], regs[in.Reg] = goPath{}, goPath{}
		}
	}
	return a.absence(len(text))
}

// Opcodes.
const (
	movTo     = 0x89 // to a register or memory
	movFrom   = 0x8b
	movNumber = 0xc7
	ret       = 0xc3
	callNear  = 0xe8
	group5    = 0xff // calls and jumps through a register or memory
)

// loadX86 returns the path of the value that a move from a register or memory loads. The word of
// the thread that holds the current goroutine is addressed by the thread pointer, fs.
func loadX86(regs *[16]goPath, in *x86.Instruction) goPath {
	switch base := in.Base; {
	case in.Mod == 3:
		return regs[in.RM]
	case in.Index || base == x86.RIPBase:
		return goPath{}
	case base == x86.NoBase && in.Segment:
		return goPath{loads: []int64{in.Disp}}
	case base == x86.NoBase:
		return goPath{}
	case in.Segment && regs[base].number != 0:
		return goPath{loads: []int64{regs[base].number + in.Disp}}
	case in.Segment:
		return goPath{}
	default:
		return regs[base].thenLoad(in.Disp)
	}
}

func (goX86) keepsFP(text []byte) (int64, bool) {
	for at := 0; ; {
		in, ok := x86.Decode(text[at:])
		if !ok {
			return 0, false
		}
		if in.Opcode == movTo && in.Table == 0 && in.Wide && in.Mod != 3 && in.Reg == x86.RBP && in.Base < 16 &&
			in.Base != x86.RSP {
			return in.Disp, true
		}
		at += in.Length
	}
}

// returnRegister recognizes a pop of r8 to r15, the first instruction of syscall.rawVforkSyscall.
func (goX86) returnRegister(c *code, addr uint64) (unwind.WideRule, bool) {
	pop := c.bytesAt(addr-2, 2)
	if len(pop) < 2 || pop[0] != 0x41 || pop[1]&0xf8 != 0x58 {
		return unwind.WideRule{}, false
	}
	return unwind.WideRule{CFA: unwind.CFASP, Rules: unwind.Rules(unwind.FPSame, unwind.RAReg),
		RAOff: 8 + int32(pop[1]&7)}, true
}
