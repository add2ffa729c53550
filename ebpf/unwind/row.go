// Package unwind defines the rules that stacks are unwound with. The rules are encoded as rows of
// pages that a BPF program reads, and the package also executes them in Go.
//
// A row is a small rule, with its formula in the comment. Package unwindtable makes rows from
// executables. step.go executes rules exactly as bpf/unwind/step.h does.
package unwind

import "fmt"

// A page of rows covers 1<<shift bytes of ELF virtual addresses: page n holds the rows of
// [n<<shift, (n+1)<<shift). All pages of an executable have the same shift, within these limits;
// see PageShift in package unwindtable.
const (
	MinPageShift = 12
	MaxPageShift = 16
)

// MaxPageSize is the number of bytes of text that the largest page covers.
const MaxPageSize = 1 << MaxPageShift

// CFAKind is the kind of the rule for the canonical frame address, which is the stack pointer of
// the caller. The numbers are shared with the BPF program.
type CFAKind uint8

// The kinds of CFA rules; off is the CFAOff of the row.
const (
	CFANone        CFAKind = iota // no rule, a gap between FDEs: follow the frame pointer
	CFASP                         // CFA = sp + off
	CFAFP                         // CFA = fp + off
	CFAFPDeref                    // CFA = *(fp + off) + add     functions that realign their stack (DRAP)
	CFAPLT                        // CFA = sp + 8 + ((pc & 15) >= off ? 8 : 0)
	CFASignal                     // the caller's registers are in the ucontext; the saved sp is at sp + off
	CFAWide                       // the rule is wide rule number uint16(off) of the page
	CFAUnsupported                // the rule cannot be executed; off is the Reason
	CFASPDeref                    // CFA = *(sp + off) + add     assembly that keeps the old sp on the stack
	CFAReg                        // CFA = register + off        wide rules only
	CFASPIndexed                  // CFA = *(sp + 8*register + off) + add   wide rules only; assembly of libcrypto
	CFAFrame                      // CFA = fp + off; fp, ra = *fp, *(fp + 8); the caller may be on another stack
	CFASPFar                      // CFA = sp + 8*off                wide rules only; frames beyond 2 GiB
	CFAAbsent                     // unknown yet, as if the page were not resident: code made at run time

	// Registers that Go's runtime keeps for the thread's current goroutine; wide rules only. g is
	// the descriptor that x86-64's word at thread pointer + off, or arm64's x28, points to:
	// m = *(g + 8*Reg), curg = *(m + FPOff), sp and pc = *(curg + 8*Reg2...), lr and fp = *(curg + RAOff - 8...).
	CFAGoroutine

	// No frame, but a return to callers in the runtime's heap: only the BPF program finds them.
	CFAFrozen

	CFASPDerefTwice // CFA = *(*(sp + off) + 8*Reg2) + add    wide rules only; fibers of OCaml
)

// FPKind is the kind of the rule for the caller's frame pointer (rbp, x29).
type FPKind uint8

// The kinds of frame pointer rules; off is the FPOff of the row.
const (
	FPSame      FPKind = iota // fp is unchanged; also if CFI does not mention it
	FPAtCFA                   // fp = *(CFA + off)
	FPUndefined               // fp = 0
	FPAtFP                    // fp = *(fp + off) if that is in the frame; else fp is unchanged
	FPReg                     // fp = register Reg2              wide rules only
)

// RAKind is the kind of the rule for the return address.
type RAKind uint8

// The kinds of return address rules.
const (
	RADefault   RAKind = iota // x86-64: ra = *(CFA - 8); arm64: ra = *(CFA + FPOff + 8), independent of the FP rule
	RAUndefined               // no return address: the outermost frame
	RALR                      // ra = x30, arm64
	RAAtCFA                   // ra = *(CFA + RAOff)             wide rules only
	RAReg                     // ra = register number RAOff      wide rules only; with CFAGoroutine: its pc

	// x86-64: as RADefault, and with a rule for rbx. The dynamic loader needs it, because its lazy
	// binding has a frame with CFA = rbx + off.
	RAKeepRBX    // rbx is unchanged
	RARestoreRBX // rbx = *(CFA + RAOff)         wide rules only

	// x86-64: as RADefault, but no return address if rax is 0, in a child of the system call clone,
	// which has a new stack. Only for the leaf, where rax is known.
	RAClone

	// Frames of interpreters, where the caller's stack ends elsewhere.
	RAAtFP // ra = *(fp + RAOff)                 wide rules only
	RAAtSP // ra = *(sp + RAOff)                 wide rules only

	// As RADefault, but for the following frames the goroutine's registers in Go's runtime are not
	// valid.
	RADetached

	// x86-64: as RADefault, if a call may return to that address. For rules that come from code
	// analysis.
	RACalled
)

// Row is the rule from one pc on, up to the next row of its page. It has 8 bytes, little endian, in
// the order of the fields.
type Row struct {
	Off    uint16  // the low 16 bits of the first pc, an ELF virtual address
	CFA    CFAKind // kind of the CFA rule
	Rules  uint8   // low nibble FPKind, high nibble RAKind
	CFAOff int16   // operand of CFA
	FPOff  int16   // operand of the FP rule
}

// WideRule is a rule that does not fit a Row: large offsets, and registers other than the stack and
// frame pointer. It has 16 bytes, little endian, in the order of the fields.
type WideRule struct {
	CFA    CFAKind // kind of the CFA rule, never CFAWide
	Reg    uint8   // CFAReg, CFASPIndexed: DWARF number; CFA..Deref..: add, in units of 8 bytes; CFAGoroutine; else 0
	Rules  uint8   // low nibble FPKind, high nibble RAKind
	Reg2   uint8   // FPReg: DWARF number; CFASPIndexed: add, in units of 8 bytes; CFASPDerefTwice, CFAGoroutine; else 0
	CFAOff int32   // operand of CFA
	FPOff  int32   // operand of the FP rule; arm64: also of RADefault
	RAOff  int32   // RAAtCFA, RAAtFP, RAAtSP, RARestoreRBX: offset; RAReg: DWARF register number; otherwise 0
}

// Rules packs the FP rule and the RA rule of a row.
func Rules(fp FPKind, ra RAKind) uint8 { return uint8(fp) | uint8(ra)<<4 }

// FP returns the frame pointer rule of r.
func (r Row) FP() FPKind { return FPKind(r.Rules & 15) }

// RA returns the return address rule of r.
func (r Row) RA() RAKind { return RAKind(r.Rules >> 4) }

// FP returns the frame pointer rule of w.
func (w WideRule) FP() FPKind { return FPKind(w.Rules & 15) }

// RA returns the return address rule of w.
func (w WideRule) RA() RAKind { return RAKind(w.Rules >> 4) }

// packWord encodes r in the BPF program's format.
func (r Row) packWord() uint64 {
	return uint64(r.Off) | uint64(r.CFA)<<16 | uint64(r.Rules)<<24 |
		uint64(uint16(r.CFAOff))<<32 | uint64(uint16(r.FPOff))<<48
}

// rowOf decodes a row.
func rowOf(word uint64) Row {
	return Row{Off: uint16(word), CFA: CFAKind(word >> 16), Rules: uint8(word >> 24), CFAOff: int16(word >> 32),
		FPOff: int16(word >> 48)}
}

// wideOf decodes a wide rule.
func wideOf(lo, hi uint64) WideRule {
	return WideRule{
		CFA: CFAKind(lo), Reg: uint8(lo >> 8), Rules: uint8(lo >> 16), Reg2: uint8(lo >> 24),
		CFAOff: int32(lo >> 32), FPOff: int32(hi), RAOff: int32(hi >> 32),
	}
}

// words encodes w in the BPF program's format.
func (w WideRule) words() [2]uint64 {
	return [2]uint64{
		uint64(w.CFA) | uint64(w.Reg)<<8 | uint64(w.Rules)<<16 | uint64(w.Reg2)<<24 | uint64(uint32(w.CFAOff))<<32,
		uint64(uint32(w.FPOff)) | uint64(uint32(w.RAOff))<<32,
	}
}

// SameRule reports whether r and o have the same rule, regardless of Off.
func (r Row) SameRule(o Row) bool {
	o.Off = r.Off
	return r == o
}

// widen returns the rule of a row that is not CFAWide as a wide rule, so that one function can
// execute both.
func (r Row) widen() WideRule {
	return WideRule{CFA: r.CFA, Rules: r.Rules, CFAOff: int32(r.CFAOff), FPOff: int32(r.FPOff)}
}

// narrow returns w as a row without an Off, and false if w does not fit.
func (w WideRule) narrow() (Row, bool) {
	r := Row{CFA: w.CFA, Rules: w.Rules, CFAOff: int16(w.CFAOff), FPOff: int16(w.FPOff)}
	return r, r.widen() == w && w.CFA != CFAReg && w.CFA != CFASPIndexed && w.CFA != CFASPFar && w.CFA != CFAGoroutine &&
		w.CFA != CFASPDerefTwice && w.FP() != FPReg &&
		(w.RA() < RAAtCFA || w.RA() == RAKeepRBX || w.RA() == RADetached || w.RA() == RACalled)
}

// Unsupported returns a row, without an Off, for a rule that has no translation.
func Unsupported(reason Reason) Row { return Row{CFA: CFAUnsupported, CFAOff: int16(reason)} }

// Reason returns the reason why the rule of r cannot be executed, ReasonNone if it can.
func (r Row) Reason() Reason {
	if r.CFA != CFAUnsupported {
		return ReasonNone
	}
	return Reason(r.CFAOff)
}

// String returns the rule of w as a formula.
func (w WideRule) String() string {
	switch w.CFA {
	case CFANone:
		return "no rule"
	case CFAUnsupported:
		return "unsupported: " + Reason(w.CFAOff).String()
	case CFAFrame:
		return fmt.Sprintf("cfa=fp%+d fp=*(fp) ra=*(fp+8)", w.CFAOff) + w.raString()
	case CFAGoroutine:
		return w.goroutineString()
	case CFAAbsent:
		return "not known yet"
	case CFAFrozen:
		return "callers in the heap"
	case CFASignal:
		return fmt.Sprintf("signal frame, sp at sp%+d", w.CFAOff)
	}
	return w.cfaString() + w.fpString() + w.raString()
}

// goroutineString describes the goroutine whose registers are used, the location of its sp and fp,
// and the source of its pc.
func (w WideRule) goroutineString() string {
	pc := "*sp"
	if w.RA() == RAReg {
		pc = "kept"
	}
	return fmt.Sprintf("goroutine=*(*(g+%d)+%d) of g=*(tp%+d) sp=*(goroutine+%d) fp=*(goroutine+%d) ra=%s",
		8*int(w.Reg), w.FPOff, w.CFAOff, 8*int(w.Reg2), w.RAOff, pc)
}

func (w WideRule) cfaString() string {
	switch w.CFA {
	case CFASP:
		return fmt.Sprintf("cfa=sp%+d", w.CFAOff)
	case CFASPFar:
		return fmt.Sprintf("cfa=sp%+d", 8*int64(w.CFAOff))
	case CFAFP:
		return fmt.Sprintf("cfa=fp%+d", w.CFAOff)
	case CFAFPDeref:
		return fmt.Sprintf("cfa=*(fp%+d)%+d", w.CFAOff, 8*int(w.Reg))
	case CFASPDeref:
		return fmt.Sprintf("cfa=*(sp%+d)%+d", w.CFAOff, 8*int(w.Reg))
	case CFAPLT:
		return fmt.Sprintf("cfa=sp+8+(pc&15>=%d)*8", w.CFAOff)
	case CFAReg:
		return fmt.Sprintf("cfa=r%d%+d", w.Reg, w.CFAOff)
	case CFASPIndexed:
		return fmt.Sprintf("cfa=*(sp+8*r%d%+d)%+d", w.Reg, w.CFAOff, 8*int(w.Reg2))
	case CFASPDerefTwice:
		return fmt.Sprintf("cfa=*(*(sp%+d)%+d)%+d", w.CFAOff, 8*int(w.Reg2), 8*int(w.Reg))
	}
	return fmt.Sprintf("cfa=kind %d", w.CFA)
}

func (w WideRule) fpString() string {
	switch w.FP() {
	case FPSame:
		return ""
	case FPAtCFA:
		return fmt.Sprintf(" fp=*(cfa%+d)", w.FPOff)
	case FPUndefined:
		return " fp=undefined"
	case FPAtFP:
		return fmt.Sprintf(" fp=*(fp%+d)", w.FPOff)
	case FPReg:
		return fmt.Sprintf(" fp=r%d", w.Reg2)
	}
	return fmt.Sprintf(" fp=kind %d", w.FP())
}

func (w WideRule) raString() string {
	switch w.RA() {
	case RADefault, RAKeepRBX, RACalled:
		return ""
	case RADetached:
		return " detached"
	case RARestoreRBX:
		return fmt.Sprintf(" rbx=*(cfa%+d)", w.RAOff)
	case RAUndefined:
		return " ra=undefined"
	case RAClone:
		return " ra=*(cfa-8) unless rax=0"
	case RAAtFP:
		return fmt.Sprintf(" ra=*(fp%+d)", w.RAOff)
	case RAAtSP:
		return fmt.Sprintf(" ra=*(sp%+d)", w.RAOff)
	case RALR:
		return " ra=lr"
	case RAAtCFA:
		return fmt.Sprintf(" ra=*(cfa%+d)", w.RAOff)
	case RAReg:
		return fmt.Sprintf(" ra=r%d", w.RAOff)
	}
	return fmt.Sprintf(" ra=kind %d", w.RA())
}
