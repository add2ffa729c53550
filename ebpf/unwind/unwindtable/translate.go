package unwindtable

import (
	"debug/elf"
	"math"

	"github.com/headwater/headwater/ebpf/unwind"
	"github.com/headwater/headwater/ebpf/unwind/ehframe"
)

// translator translates one DWARF row into a rule, or returns the reason why it cannot. signal says
// that the row belongs to a signal frame. The rule is valid only with ReasonNone.
type translator func(row *ehframe.Row, signal bool) (unwind.WideRule, unwind.Reason)

// translatorFor returns the translator and the ABI of a machine, nil if the machine is unsupported.
func translatorFor(m elf.Machine) (translator, *abi) {
	switch m {
	case elf.EM_X86_64:
		return translateX86, &x86ABI
	case elf.EM_AARCH64:
		return translateAArch64, &aarch64ABI
	}
	return nil, nil
}

// abi describes the registers of one machine that rows use.
type abi struct {
	sp, fp, ra uint16 // DWARF numbers
	registers  uint16 // numbers below are general-purpose registers
	leaf       int64  // CFA - sp before the function moves its stack pointer
	signalSP   int16  // offset from sp of the saved sp, at a signal trampoline
}

// cfaRegister translates CFA = reg + offset.
func (a abi) cfaRegister(w *unwind.WideRule, cfa ehframe.CFA) unwind.Reason {
	switch {
	case cfa.Reg == a.sp && !small(cfa.Offset) && cfa.Offset%8 == 0:
		w.CFA = unwind.CFASPFar
		return fitInt32(&w.CFAOff, cfa.Offset/8)
	case cfa.Reg == a.sp:
		w.CFA = unwind.CFASP
	case cfa.Reg == a.fp:
		w.CFA = unwind.CFAFP
	case cfa.Reg < a.registers:
		w.CFA, w.Reg = unwind.CFAReg, uint8(cfa.Reg)
	default:
		return unwind.ReasonCFARegister
	}
	return fitInt32(&w.CFAOff, cfa.Offset)
}

// framePointer translates the rule of the frame pointer.
func (a abi) framePointer(w *unwind.WideRule, row *ehframe.Row) (unwind.FPKind, unwind.Reason) {
	rule := row.Rule(a.fp)
	switch rule.Kind {
	case ehframe.Unspecified, ehframe.SameValue:
		return unwind.FPSame, unwind.ReasonNone
	case ehframe.Undefined:
		return unwind.FPUndefined, unwind.ReasonNone
	case ehframe.Register:
		if rule.Reg == a.fp {
			return unwind.FPSame, unwind.ReasonNone
		}
		if rule.Reg < a.registers {
			w.Reg2 = uint8(rule.Reg)
			return unwind.FPReg, unwind.ReasonNone
		}
	case ehframe.Offset, ehframe.Expression:
		if off, ok := a.slotOf(row, rule); ok {
			return unwind.FPAtCFA, fitInt32(&w.FPOff, off)
		}
		if reg, off, ok := registerOffset(rule.Expr); ok && reg == a.fp {
			return unwind.FPAtFP, fitInt32(&w.FPOff, off)
		}
	}
	return 0, unwind.ReasonFPRule
}

// returnRegister translates a return address in a register.
func (a abi) returnRegister(w *unwind.WideRule, reg uint16) (unwind.RAKind, unwind.Reason) {
	if reg >= a.registers {
		return 0, unwind.ReasonRARule
	}
	w.RAOff = int32(reg)
	return unwind.RAReg, unwind.ReasonNone
}

// slotOf returns the distance from the CFA to the stack slot where a register is saved, by an offset
// or by an expression that adds a number to the CFA's register.
func (a abi) slotOf(row *ehframe.Row, rule ehframe.Rule) (int64, bool) {
	switch rule.Kind {
	case ehframe.Offset:
		return rule.Offset, true
	case ehframe.Expression:
		reg, off, ok := registerOffset(rule.Expr)
		if !ok || row.CFA.Kind != ehframe.CFARegister || reg != row.CFA.Reg || !small(off) || !small(row.CFA.Offset) {
			return 0, false
		}
		return off - row.CFA.Offset, true
	}
	return 0, false
}

// stackPointer reports whether the caller's stack pointer is the CFA, as all rules assume.
func (a abi) stackPointer(row *ehframe.Row) bool {
	switch rule := row.Rule(a.sp); rule.Kind {
	case ehframe.Unspecified:
		return true
	case ehframe.ValOffset:
		return rule.Offset == 0
	case ehframe.SameValue:
		return row.CFA.Kind == ehframe.CFARegister && row.CFA.Reg == a.sp && row.CFA.Offset == 0
	}
	return false
}

// small reports whether v fits 32 bits, so that the sum of two such values does not overflow.
func small(v int64) bool { return v == int64(int32(v)) }

// fitInt32 stores v in dst, or returns ReasonOffsetRange if it does not fit.
func fitInt32(dst *int32, v int64) unwind.Reason {
	if v < math.MinInt32 || v > math.MaxInt32 {
		return unwind.ReasonOffsetRange
	}
	*dst = int32(v)
	return unwind.ReasonNone
}
