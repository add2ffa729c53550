package unwind

import "github.com/headwater/headwater/ebpf/ehframe"

// aarch64ABI names the arm64 registers (DWARF for the Arm 64-bit Architecture,
// section 4.1): x29, x30, sp.
var aarch64ABI = abi{sp: 31, fp: 29, ra: 30, registers: 31, signalSP: aarch64SignalSP}

// aarch64SignalSP is where, from sp at a signal trampoline, the ucontext holds
// the saved sp: 128 bytes of siginfo, 176 up to the sigcontext, 8 of fault
// address, 31 registers (Linux, arch/arm64/kernel/signal.c, rt_sigframe).
const aarch64SignalSP = 128 + 176 + 8 + 31*8

// translateAArch64 translates a row of arm64. Whether the return address is
// signed does not matter: the code is stripped from every address.
func translateAArch64(row *ehframe.Row, signal bool) (WideRule, Reason) {
	if signal {
		return WideRule{CFA: CFASignal, CFAOff: aarch64SignalSP}, ReasonNone
	}
	var w WideRule
	if row.Rule(aarch64ABI.ra).Kind == ehframe.Undefined { // nothing above: the other rules do not matter
		return WideRule{CFA: CFASP, Rules: rules(FPSame, RAUndefined)}, ReasonNone
	}
	if reason := aarch64CFA(&w, row.CFA); reason != ReasonNone {
		return w, reason
	}
	fp, reason := aarch64ABI.framePointer(&w, row)
	if reason != ReasonNone {
		return w, reason
	}
	ra, reason := aarch64ReturnAddress(&w, fp, row)
	if reason != ReasonNone {
		return w, reason
	}
	if !aarch64ABI.stackPointer(row) {
		return w, ReasonSPRule
	}
	w.Rules = rules(fp, ra)
	return w, ReasonNone
}

// aarch64CFA translates the rule of the CFA.
func aarch64CFA(w *WideRule, cfa ehframe.CFA) Reason {
	switch cfa.Kind {
	case ehframe.CFARegister:
		return aarch64ABI.cfaRegister(w, cfa)
	case ehframe.CFAExpression:
		return ReasonCFAExpression
	}
	return ReasonCFAMissing
}

// aarch64ReturnAddress translates the rule of x30. Where FPOff is free it
// holds the slot of x30 less 8, so that the rule stays narrow.
func aarch64ReturnAddress(w *WideRule, fp FPKind, row *ehframe.Row) (RAKind, Reason) {
	rule := row.Rule(aarch64ABI.ra)
	off := rule.Offset
	switch rule.Kind {
	case ehframe.Unspecified, ehframe.SameValue:
		return RALR, ReasonNone
	case ehframe.Register:
		if rule.Reg == aarch64ABI.ra {
			return RALR, ReasonNone
		}
		if rule.Reg < aarch64ABI.registers {
			w.RAOff = int32(rule.Reg)
			return RAReg, ReasonNone
		}
		return 0, ReasonRARule
	case ehframe.Offset:
	case ehframe.Expression:
		var ok bool
		if off, ok = aarch64ABI.slot(row, rule.Expr); !ok {
			return 0, ReasonRARule
		}
	default:
		return 0, ReasonRARule
	}
	if !small(off) {
		return 0, ReasonOffsetRange
	}
	if fp == FPAtCFA && int64(w.FPOff)+8 == off {
		return RADefault, ReasonNone
	}
	if fp == FPSame || fp == FPUndefined {
		return RADefault, fit(&w.FPOff, off-8)
	}
	return RAAtCFA, fit(&w.RAOff, off)
}
