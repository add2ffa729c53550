package unwindtable

import (
	"github.com/headwater/headwater/ebpf/unwind"
	"github.com/headwater/headwater/ebpf/unwind/ehframe"
)

// x86ABI names the x86-64 registers (System V ABI, AMD64 supplement, figure
// 3.36).
var x86ABI = abi{sp: 7, fp: 6, ra: 16, registers: 16, leaf: 8, signalSP: x86SignalSP}

// x86SignalSP is the offset from rsp at a signal trampoline to the saved rsp in the ucontext: 40
// bytes of flags, link and stack, then the gregs array (Linux,
// arch/x86/include/uapi/asm/sigcontext.h).
const x86SignalSP = 160

// rbx is the DWARF number of rbx.
const rbx = 3

// translateX86 translates a row of x86-64.
func translateX86(row *ehframe.Row, signal bool) (unwind.WideRule, unwind.Reason) {
	if signal {
		return translateX86Signal(row)
	}
	var w unwind.WideRule
	ra, reason := x86ReturnAddress(&w, row)
	if reason != unwind.ReasonNone {
		return w, reason
	}
	if ra == unwind.RAUndefined { // no caller, so the other rules do not matter
		return unwind.WideRule{CFA: unwind.CFASP, Rules: unwind.Rules(unwind.FPSame, unwind.RAUndefined)},
			unwind.ReasonNone
	}
	if reason := x86CFA(&w, row.CFA); reason != unwind.ReasonNone {
		return w, reason
	}
	fp, reason := x86ABI.framePointer(&w, row)
	if reason != unwind.ReasonNone {
		return w, reason
	}
	if !x86ABI.stackPointer(row) {
		return w, unwind.ReasonSPRule
	}
	if (w.CFA == unwind.CFASPIndexed || w.CFA == unwind.CFASPDerefTwice) && fp == unwind.FPReg { // both need Reg2
		return w, unwind.ReasonFPRule
	}
	w.Rules = unwind.Rules(fp, ra)
	return w, unwind.ReasonNone
}

// followRBX adds the rule of rbx to a rule.
func followRBX(w *unwind.WideRule, row *ehframe.Row) {
	if w.RA() != unwind.RADefault || w.CFA == unwind.CFASignal {
		return
	}
	switch rule := row.Rule(rbx); rule.Kind {
	case ehframe.Unspecified, ehframe.SameValue:
		w.Rules = unwind.Rules(w.FP(), unwind.RAKeepRBX)
	case ehframe.Offset:
		if small(rule.Offset) {
			w.Rules, w.RAOff = unwind.Rules(w.FP(), unwind.RARestoreRBX), int32(rule.Offset)
		}
	}
}

// x86ReturnAddress translates the rule of the return address column.
func x86ReturnAddress(w *unwind.WideRule, row *ehframe.Row) (unwind.RAKind, unwind.Reason) {
	rule := row.Rule(x86ABI.ra)
	switch rule.Kind {
	case ehframe.Unspecified:
		return 0, unwind.ReasonRAMissing
	case ehframe.Undefined:
		return unwind.RAUndefined, unwind.ReasonNone
	case ehframe.Register:
		return x86ABI.returnRegister(w, rule.Reg)
	}
	off, ok := x86ABI.slotOf(row, rule)
	switch {
	case !ok:
		return 0, unwind.ReasonRARule
	case off == -8:
		return unwind.RADefault, unwind.ReasonNone
	}
	return unwind.RAAtCFA, fitInt32(&w.RAOff, off)
}

// x86CFA translates the rule of the CFA.
func x86CFA(w *unwind.WideRule, cfa ehframe.CFA) unwind.Reason {
	switch cfa.Kind {
	case ehframe.CFARegister:
		return x86ABI.cfaRegister(w, cfa)
	case ehframe.CFAExpression:
		return x86CFAExpression(w, cfa.Expr)
	}
	return unwind.ReasonCFAMissing
}

// x86CFAExpression translates the known forms of CFA expressions: lazy-binding stubs (.plt),
// realigned stacks, and assembly that saves rsp.
func x86CFAExpression(w *unwind.WideRule, expr []byte) unwind.Reason {
	if threshold, ok := x86PLT(expr); ok {
		w.CFA, w.CFAOff = unwind.CFAPLT, int32(threshold)
		return unwind.ReasonNone
	}
	if index, off, ok := x86Indexed(expr); ok {
		w.CFA, w.Reg, w.Reg2 = unwind.CFASPIndexed, index, 1
		return fitInt32(&w.CFAOff, off)
	}
	if reg, off, ok := registerOffset(expr); ok {
		return x86ABI.cfaRegister(w, ehframe.CFA{Reg: reg, Offset: off})
	}
	if off, addFirst, add, ok := x86DerefTwice(expr); ok {
		w.CFA, w.Reg2, w.Reg = unwind.CFASPDerefTwice, addFirst, add
		return fitInt32(&w.CFAOff, off)
	}
	reg, off, add, ok := derefRegister(expr)
	if !ok || add%8 != 0 || add > 8*255 {
		return unwind.ReasonCFAExpression
	}
	switch reg {
	case x86ABI.sp:
		w.CFA = unwind.CFASPDeref
	case x86ABI.fp:
		w.CFA = unwind.CFAFPDeref
	default:
		return unwind.ReasonCFAExpression
	}
	w.Reg = uint8(add / 8)
	return fitInt32(&w.CFAOff, off)
}

// x86PLT matches the CFA of the linkers' .plt sections, whose 16-byte entries
// push one word before jumping:
//
//	rsp + 8 + ((rip & 15) >= threshold) << 3
//
// The threshold depends on the kind of stub: 11 for classic stubs, 9 or 10 with IBT.
func x86PLT(expr []byte) (threshold uint8, ok bool) {
	e := match(expr)
	sp, spOff := e.takeRegister()
	ip, ipOff := e.takeRegister()
	mask := e.takeLiteral()
	threshold = e.takeOp(opAnd).takeLiteral()
	shift := e.takeOp(opGe).takeLiteral()
	e.takeOp(opShl).takeOp(opPlus)
	ok = e.done() && sp == x86ABI.sp && spOff == 8 && ip == x86ABI.ra && ipOff == 0 && mask == 15 && shift == 3
	return threshold, ok
}

// x86Indexed matches the CFA of libcrypto's Montgomery multiplication, which stores the old stack
// pointer after an array on the stack:
//
//	*(rsp + off + index * 8) + 8
func x86Indexed(expr []byte) (index uint8, off int64, ok bool) {
	e := match(expr)
	sp, off := e.takeRegister()
	reg, regOff := e.takeRegister()
	size := e.takeLiteral()
	add := e.takeOp(opMul).takeOp(opPlus).takeOp(opDeref).takePlus()
	ok = e.done() && sp == x86ABI.sp && reg < x86ABI.registers && regOff == 0 && size == 8 && add == 8
	return uint8(reg), off, ok
}

// x86DerefTwice matches the CFA of OCaml's caml_runstack, which finds the stack of the caller through the descriptor of
// the fiber that it runs:
//
//	*(*(rsp + off) + addFirst) + add
//
// The numbers that are added are in units of 8 bytes.
func x86DerefTwice(expr []byte) (off int64, addFirst, add uint8, ok bool) {
	e := match(expr)
	sp, off := e.takeRegister()
	first := e.takeOp(opDeref).takePlus()
	second := e.takeOp(opDeref).takePlus()
	fits := func(add uint64) bool { return add%8 == 0 && add <= 8*255 }
	ok = e.done() && sp == x86ABI.sp && fits(first) && fits(second)
	return off, uint8(first / 8), uint8(second / 8), ok
}

// x86Called reports whether a call has pushed the return address of a row. A signal's frame has the interrupted pc in
// the ucontext.
func x86Called(row *ehframe.Row) bool {
	rule := row.Rule(x86ABI.ra)
	return rule.Kind == ehframe.Offset && rule.Offset == -8
}

// translateX86Signal recognizes the layout of glibc's __restore_rt: CFA = *(rsp + 160), rbp at rsp
// + 120, rip at rsp + 168.
func translateX86Signal(row *ehframe.Row) (unwind.WideRule, unwind.Reason) {
	reg, off, add, ok := derefRegister(row.CFA.Expr)
	ok = ok && row.CFA.Kind == ehframe.CFAExpression && reg == x86ABI.sp && add == 0 && off == x86SignalSP &&
		x86Saved(row, x86ABI.fp, off-40) && x86Saved(row, x86ABI.ra, off+8)
	if !ok {
		return unwind.WideRule{}, unwind.ReasonSignalFrame
	}
	return unwind.WideRule{CFA: unwind.CFASignal, CFAOff: x86SignalSP}, unwind.ReasonNone
}

// x86Saved reports whether row has the register saved at rsp + want.
func x86Saved(row *ehframe.Row, number uint16, want int64) bool {
	rule := row.Rule(number)
	reg, off, ok := registerOffset(rule.Expr)
	return ok && rule.Kind == ehframe.Expression && reg == x86ABI.sp && off == want
}
