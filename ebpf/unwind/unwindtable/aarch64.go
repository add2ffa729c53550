package unwindtable

import (
	"github.com/headwater/headwater/ebpf/unwind"
	"github.com/headwater/headwater/ebpf/unwind/ehframe"
)

// aarch64ABI names the arm64 registers (DWARF for the Arm 64-bit Architecture,
// section 4.1): x29, x30, sp.
var aarch64ABI = abi{sp: 31, fp: 29, ra: 30, registers: 31, signalSP: aarch64SignalSP}

// aarch64SignalSP is the offset from sp at a signal trampoline to the saved sp in the ucontext: 128
// bytes of siginfo, 176 up to the sigcontext, 8 of fault address, 31 registers (Linux,
// arch/arm64/kernel/signal.c, rt_sigframe).
const aarch64SignalSP = 128 + 176 + 8 + 31*8

// translateAArch64 translates a row of arm64. It ignores whether the return address is signed,
// because the unwinder strips the code from every address.
func translateAArch64(row *ehframe.Row, signal bool) (unwind.WideRule, unwind.Reason) {
	if signal {
		return unwind.WideRule{CFA: unwind.CFASignal, CFAOff: aarch64SignalSP}, unwind.ReasonNone
	}
	var w unwind.WideRule
	if row.Rule(aarch64ABI.ra).Kind == ehframe.Undefined { // no caller, so the other rules do not matter
		return unwind.WideRule{CFA: unwind.CFASP, Rules: unwind.Rules(unwind.FPSame, unwind.RAUndefined)},
			unwind.ReasonNone
	}
	if reason := aarch64CFA(&w, row.CFA); reason != unwind.ReasonNone {
		return w, reason
	}
	fp, reason := aarch64ABI.framePointer(&w, row)
	if reason != unwind.ReasonNone {
		return w, reason
	}
	ra, reason := aarch64ReturnAddress(&w, fp, row)
	if reason != unwind.ReasonNone {
		return w, reason
	}
	if !aarch64ABI.stackPointer(row) {
		return w, unwind.ReasonSPRule
	}
	w.Rules = unwind.Rules(fp, ra)
	return w, unwind.ReasonNone
}

// aarch64Interrupted reports whether a row of a signal frame is the one of the vdso's trampoline, whose x29 points to a
// frame record (Linux, arch/arm64/kernel/vdso/sigreturn.S).
func aarch64Interrupted(row *ehframe.Row) bool {
	return row.CFA.Kind == ehframe.CFARegister && row.CFA.Reg == aarch64ABI.fp && row.CFA.Offset == 0
}

// aarch64CFA translates the rule of the CFA.
func aarch64CFA(w *unwind.WideRule, cfa ehframe.CFA) unwind.Reason {
	switch cfa.Kind {
	case ehframe.CFARegister:
		return aarch64ABI.cfaRegister(w, cfa)
	case ehframe.CFAExpression:
		return unwind.ReasonCFAExpression
	}
	return unwind.ReasonCFAMissing
}

// aarch64ReturnAddress translates the rule of x30. If FPOff is unused, it stores the slot of x30
// minus 8 there, so that the rule stays narrow.
func aarch64ReturnAddress(w *unwind.WideRule, fp unwind.FPKind, row *ehframe.Row) (unwind.RAKind, unwind.Reason) {
	rule := row.Rule(aarch64ABI.ra)
	switch {
	case rule.Kind == ehframe.Unspecified, rule.Kind == ehframe.SameValue,
		rule.Kind == ehframe.Register && rule.Reg == aarch64ABI.ra:
		return unwind.RALR, unwind.ReasonNone
	case rule.Kind == ehframe.Register:
		return aarch64ABI.returnRegister(w, rule.Reg)
	}
	off, ok := aarch64ABI.slotOf(row, rule)
	switch {
	case !ok:
		return 0, unwind.ReasonRARule
	case !small(off):
		return 0, unwind.ReasonOffsetRange
	}
	if fp == unwind.FPAtCFA && int64(w.FPOff)+8 == off {
		return unwind.RADefault, unwind.ReasonNone
	}
	if fp == unwind.FPSame || fp == unwind.FPUndefined {
		return unwind.RADefault, fitInt32(&w.FPOff, off-8)
	}
	return unwind.RAAtCFA, fitInt32(&w.RAOff, off)
}
