package unwind

import (
	"debug/elf"
	"fmt"
)

// Columns returns the rule of w as three formulas with the machine's register names: the CFA, the
// caller's frame pointer and the return address. The notation is readelf's: c is the CFA, c-16 the
// word stored there, s an unchanged value, u undefined. For a rule that cannot be executed, the
// first column has the reason.
func (w WideRule) Columns(m elf.Machine) (cfa, fp, ra string) {
	n := namesOf(m)
	switch w.CFA {
	case CFANone:
		return "-", "-", "-"
	case CFAUnsupported:
		return "unsupported:" + Reason(w.CFAOff).String(), "-", "-"
	case CFASignal:
		return fmt.Sprintf("*(%s%+d)", n.sp, w.CFAOff), "signal", "signal"
	case CFAFrame:
		return fmt.Sprintf("%s%+d", n.fp, w.CFAOff), fmt.Sprintf("*(%s)", n.fp), fmt.Sprintf("*(%s+8)", n.fp)
	}
	if w.RA() == RAUndefined {
		return "-", "-", "u"
	}
	return w.cfaColumn(n), w.fpColumn(n), w.raColumn(n)
}

// names holds a machine's register names.
type names struct {
	sp, fp, lr, pc string
	general        func(number int) string
	pushed         bool // calls push the return address
}

func namesOf(m elf.Machine) names {
	if m == elf.EM_AARCH64 {
		return names{"sp", "x29", "x30", "pc", func(n int) string { return fmt.Sprintf("x%d", n) }, false}
	}
	return names{"rsp", "rbp", "", "rip", x86Name, true}
}

// x86Name returns the name of a general register by its DWARF number.
func x86Name(n int) string {
	first := [...]string{"rax", "rdx", "rcx", "rbx", "rsi", "rdi", "rbp", "rsp"}
	if n < len(first) {
		return first[n]
	}
	return fmt.Sprintf("r%d", n)
}

func (w WideRule) cfaColumn(n names) string {
	switch w.CFA {
	case CFASP:
		return fmt.Sprintf("%s%+d", n.sp, w.CFAOff)
	case CFASPFar:
		return fmt.Sprintf("%s%+d", n.sp, 8*int64(w.CFAOff))
	case CFAFP:
		return fmt.Sprintf("%s%+d", n.fp, w.CFAOff)
	case CFAFPDeref:
		return fmt.Sprintf("*(%s%+d)%+d", n.fp, w.CFAOff, 8*int(w.Reg))
	case CFASPDeref:
		return fmt.Sprintf("*(%s%+d)%+d", n.sp, w.CFAOff, 8*int(w.Reg))
	case CFAPLT:
		return fmt.Sprintf("%s+8+8*(%s&15>=%d)", n.sp, n.pc, w.CFAOff)
	case CFAReg:
		return fmt.Sprintf("%s%+d", n.general(int(w.Reg)), w.CFAOff)
	case CFASPDerefTwice:
		return fmt.Sprintf("*(*(%s%+d)%+d)%+d", n.sp, w.CFAOff, 8*int(w.Reg2), 8*int(w.Reg))
	case CFASPIndexed:
		return fmt.Sprintf("*(%s+8*%s%+d)%+d", n.sp, n.general(int(w.Reg)), w.CFAOff, 8*int(w.Reg2))
	}
	return fmt.Sprintf("kind %d", w.CFA)
}

func (w WideRule) fpColumn(n names) string {
	switch w.FP() {
	case FPSame:
		return "s"
	case FPAtCFA:
		return fmt.Sprintf("c%+d", w.FPOff)
	case FPUndefined:
		return "u"
	case FPAtFP:
		return fmt.Sprintf("*(%s%+d)", n.fp, w.FPOff)
	case FPReg:
		return n.general(int(w.Reg2))
	}
	return fmt.Sprintf("kind %d", w.FP())
}

func (w WideRule) raColumn(n names) string {
	switch w.RA() {
	case RAKeepRBX, RARestoreRBX, RAClone, RACalled:
		return "c-8"
	case RADefault:
		if n.pushed {
			return "c-8"
		}
		return fmt.Sprintf("c%+d", w.FPOff+8)
	case RALR:
		return n.lr
	case RAAtCFA:
		return fmt.Sprintf("c%+d", w.RAOff)
	case RAReg:
		return n.general(int(w.RAOff))
	}
	return fmt.Sprintf("kind %d", w.RA())
}
