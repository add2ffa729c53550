package unwindtable

import (
	"encoding/binary"

	"github.com/headwater/headwater/ebpf/unwind"
)

// goAArch64 describes Go's code on arm64 (cmd/internal/obj/arm64/obj7.go, preprocess). A function
// with a frame keeps x30 at sp, and the caller's x29 below it. x29 points to the saved x29:
//
//	str x30,[sp,#-n]!  | sub x20,sp,#n
//	stur x29,[sp,#-8]  | stp x29,x30,[x20,#-8]
//	                   | mov sp,x20
//	sub x29,sp,#8      | sub x29,sp,#8
type goAArch64 struct{}

// Instructions.
const (
	armStoreFP = 0xf81f83fd // stur x29, [sp, #-8]
	armStore2  = 0xa93ffa9d // stp x29, x30, [x20, #-8]
	armMoveSP  = 0x9100001f // mov sp, x0
	armMove    = 0xaa0003e0 // mov x0, x0
	armLoad    = 0xf9400000 // ldr x0, [x0]
	armKeepFP  = 0xf900001d // str x29, [x0]
	armRet     = 0xd65f03c0
	armCall    = 0x94000000 // bl
	armCallReg = 0xd63f0000 // blr x0

	armAnyReg    = 31 << 5 // the first source register
	armAnyOffset = 0xfff << 10
)

// Registers.
const (
	armGoroutine = 28 // register of the current goroutine
	armFP        = 29
)

func (goAArch64) ruleOf(delta int64, frame bool) (unwind.WideRule, bool) {
	w := unwind.WideRule{CFA: unwind.CFASP, Rules: unwind.Rules(unwind.FPSame, unwind.RALR)}
	if delta == 0 {
		return w, true
	}
	if fitInt32(&w.CFAOff, delta) != unwind.ReasonNone || fitInt32(&w.FPOff, -delta-8) != unwind.ReasonNone {
		return unwind.WideRule{CFA: unwind.CFAUnsupported, CFAOff: int32(unwind.ReasonOffsetRange)}, false
	}
	w.Rules = unwind.Rules(unwind.FPSame, unwind.RADefault) // *(CFA + FPOff + 8) = *sp
	if frame {
		w.Rules = unwind.Rules(unwind.FPAtCFA, unwind.RADefault)
	}
	return w, true
}

func (goAArch64) saves(c *code, addr uint64, _ int64) (after, set uint64, ok bool) {
	if armAt(c, addr) == armStoreFP {
		return 4, 8, true
	}
	return 0, 4, armAt(c, addr-8) == armStore2
}

func (goAArch64) record(delta int64) unwind.WideRule {
	w := unwind.WideRule{CFA: unwind.CFAFrame}
	if fitInt32(&w.CFAOff, delta+8) != unwind.ReasonNone {
		return unwind.WideRule{CFA: unwind.CFAUnsupported, CFAOff: int32(unwind.ReasonOffsetRange)}
	}
	return w
}

func (goAArch64) absence(text []byte) (goAbsence, bool) {
	var a absenceFinder
	goroutine := goPath{loads: []int64{0}}
	regs := [32]goPath{armGoroutine: goroutine}
	for at := 0; at+4 <= len(text) && !a.over; at += 4 {
		code := binary.LittleEndian.Uint32(text[at:])
		to, from, offset := code&31, code>>5&31, int64(code&armAnyOffset>>10)*8
		switch {
		case code == armRet:
			a.returns(at + 4)
		case code&^armAnyReg == armMoveSP:
			a.setsSP(at+4, regs[from])
		case code&^(armAnyOffset|armAnyReg|31) == armLoad:
			a.losesFP = a.losesFP || a.left && !a.called && to == armFP
			regs[to] = regs[from].thenLoad(offset)
		case code&^(31<<16|31) == armMove:
			regs[to] = regs[code>>16&31]
		case code&^0x3ffffff == armCall: // a call of a function that keeps the goroutine register
			regs = [32]goPath{armGoroutine: regs[armGoroutine]}
		case code&^armAnyReg == armCallReg:
			a.called = a.left
			regs = [32]goPath{armGoroutine: goroutine}
		}
	}
	return a.absence(len(text))
}

func (goAArch64) keepsFP(text []byte) (int64, bool) {
	for at := 0; at+4 <= len(text); at += 4 {
		if code := binary.LittleEndian.Uint32(text[at:]); code&^(armAnyOffset|armAnyReg) == armKeepFP {
			return int64(code&armAnyOffset>>10) * 8, true
		}
	}
	return 0, false
}

func (goAArch64) returnRegister(*code, uint64) (unwind.WideRule, bool) {
	return unwind.WideRule{}, false
}

// armAt returns the instruction at addr, 0 if there is none.
func armAt(c *code, addr uint64) uint32 {
	b := c.bytesAt(addr, 4)
	if b == nil {
		return 0
	}
	return binary.LittleEndian.Uint32(b)
}
