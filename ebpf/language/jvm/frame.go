package jvm

import (
	"github.com/headwater/headwater/ebpf/unwind"
	"github.com/headwater/headwater/ebpf/unwind/x86"
)

// form is the way to compute the CFA of a frame from registers.
type form uint8

const (
	bySP        form = iota // CFA = sp + depth
	byFP                    // CFA = rbp + depth
	bySender                // CFA = register sender, the caller's sp; depth: from sp to the end of the return address
	bySavedSP               // CFA = *(sp + depth) + above, with an earlier sp saved there
	byR13                   // CFA = r13 + 8
	interpreted             // CFA = *(rbp - 8), ra = *(rbp + 8), rbp = *rbp
	unknownForm             // by rbp, if it is plausible
)

// frame is the state of a stack frame before an instruction.
type frame struct {
	form   form
	depth  int64 // bytes from sp, or rbp, up to the CFA; for an interpreted frame, bytes below rbp, see sweep.enter
	saved  int64 // bytes from the CFA down to the caller's rbp; 0 if it is still in rbp
	loaded bool  // the return address is in register ra, no longer on the stack
	ra     byte
	sender byte
	above  int64 // bytes from the saved, or copied, sp up to the CFA
	copied byte  // for bySP and byFP: 1 + the register that has a copy of sp; 0 if none
	below  int64 // for byFP: bytes from sp up to the CFA; 0 if unknown
}

// entryFrame is the frame after a call.
var entryFrame = frame{depth: wordSize}

const wordSize = 8

// noRegister is the number that stands for no register.
const noRegister = x86.NoBase

// Numbers of registers in instructions.
const (
	rax = x86.RAX
	rbx = x86.RBX
	rdx = x86.RDX
	rsp = x86.RSP
	rbp = x86.RBP
	r13 = x86.R13
)

// dwarfNumbers maps the numbers 0 to 7 of registers in instructions to DWARF numbers; all other registers have the same
// number in DWARF.
var dwarfNumbers = [8]uint8{0, 2, 1, 3, 7, 6, 4, 5}

func dwarfNumber(reg byte) uint8 {
	if int(reg) < len(dwarfNumbers) {
		return dwarfNumbers[reg]
	}
	return reg
}

// wideRule converts f to a rule of the unwinder.
func (f frame) wideRule() unwind.WideRule {
	fp, fpOff := unwind.FPSame, int32(0)
	if f.saved > 0 {
		fp, fpOff = unwind.FPAtCFA, -int32(f.saved)
	}
	ra, raOff := unwind.RADefault, int32(0)
	if f.loaded {
		ra, raOff = unwind.RAReg, int32(dwarfNumber(f.ra))
	}
	switch f.form {
	case byFP:
		return unwind.WideRule{
			CFA: unwind.CFAFP, CFAOff: int32(f.depth), Rules: unwind.Rules(fp, unwind.RADefault), FPOff: fpOff,
		}
	case bySavedSP:
		return unwind.WideRule{
			CFA: unwind.CFASPDeref, Reg: uint8(f.above / wordSize), CFAOff: int32(f.depth),
			Rules: unwind.Rules(fp, unwind.RADefault), FPOff: fpOff,
		}
	case byR13:
		return unwind.WideRule{CFA: unwind.CFAReg, Reg: r13, CFAOff: wordSize}
	case bySender:
		if f.saved > 0 { // rbp was pushed, and points to its saved value or is unchanged
			fp, fpOff = unwind.FPAtFP, 0
		}
		if !f.loaded {
			ra, raOff = unwind.RAAtSP, int32(f.depth-wordSize)
		}
		return unwind.WideRule{
			CFA: unwind.CFAReg, Reg: dwarfNumber(f.sender), Rules: unwind.Rules(fp, ra), FPOff: fpOff, RAOff: raOff,
		}
	case interpreted:
		return unwind.WideRule{
			CFA: unwind.CFAFPDeref, CFAOff: -8, Rules: unwind.Rules(unwind.FPAtFP, unwind.RAAtFP), RAOff: 8,
		}
	case unknownForm:
		return unwind.WideRule{}
	}
	return unwind.WideRule{
		CFA: unwind.CFASP, CFAOff: int32(f.depth), Rules: unwind.Rules(fp, ra), FPOff: fpOff, RAOff: raOff,
	}
}

// maxAbove is the maximum number of words that a rule can add to a saved stack pointer.
const maxAbove = 1<<8 - 1

// maxDepth bounds frames: HotSpot's limit for a method's stack is far lower.
const maxDepth = 1 << 24

// after returns f after an instruction with effect e, which neither jumps nor returns. kind determines the meaning of a
// lost stack pointer.
func (f frame) after(e x86.Effect, kind kind) frame {
	switch e.Kind {
	case x86.Push:
		return f.afterPush(e.Reg)
	case x86.Pop:
		if e.Reg == rsp && f.form == bySavedSP && f.depth == 0 {
			return frame{depth: f.above, saved: f.saved}
		}
		return f.afterPop(e.Reg)
	case x86.Leave:
		return f.leave()
	case x86.Add, x86.Align:
		return f.adjust(e, kind)
	case x86.Address:
		if e.Reg == rsp {
			return f.address(e, kind)
		}
	case x86.Store:
		if e.Wide {
			return f.store(e)
		}
	case x86.Load:
		return f.afterLoad(e)
	case x86.Copy:
		return f.afterMove(e.Reg, e.Base, kind)
	case x86.Lose:
		f.below = 0
	case x86.Call:
		if f.form == byFP {
			f.copied = 0
		}
	}
	return f
}

// moved returns a byFP frame after a number of bytes was added to sp.
func (f frame) moved(bytes int64) frame {
	if f.below > 0 {
		f.below = max(0, f.below-bytes)
	}
	return f
}

func (f frame) afterPush(reg byte) frame {
	if f.form == interpreted {
		return f
	}
	switch {
	case f.loaded && reg == f.ra && f.form == bySP && f.depth == 0:
		return entryFrame
	case f.loaded && reg == f.ra && f.form == bySender:
		// The return address is on the stack again, below the room that the adapter or the interpreter has made.
		f.depth += wordSize
		return f
	case f.form == byR13 && reg == r13:
		return frame{form: bySavedSP, above: wordSize}
	case f.form == bySP && f.copied != 0 && f.copied == reg+1 && f.above/wordSize <= maxAbove:
		return frame{form: bySavedSP, above: f.above, saved: f.saved}
	case f.form == byR13:
		return f
	case f.form == byFP:
		return f.moved(-wordSize)
	case reg == rbp && f.form == bySP && f.saved == 0 && !f.loaded:
		f.saved = f.depth + wordSize
	}
	f.depth += wordSize
	return f
}

func (f frame) afterPop(reg byte) frame {
	if f.form == interpreted {
		return f
	}
	switch {
	case f.form == byFP && reg == rbp:
		return frame{depth: f.depth - wordSize}
	case f.form == byR13:
		return f
	case f.form == byFP:
		return f.moved(wordSize)
	case f.form == bySP && f.depth == f.saved && reg == rbp:
		f.saved = 0
	case (f.form == bySP || f.form == bySender) && f.depth == wordSize && !f.loaded && reg != noRegister:
		// the return address
		f.loaded, f.ra = true, reg
	}
	f.depth -= wordSize
	return f.checked()
}

func (f frame) leave() frame {
	switch {
	case f.form == interpreted && f.sender == noRegister:
		return entryFrame
	case f.form == interpreted:
		return frame{form: bySender, sender: f.sender, depth: wordSize}
	case f.form == byFP:
		return frame{depth: f.depth - wordSize}
	case f.form == bySP && f.saved == 2*wordSize: // rbp still has the value of sp that was copied to it
		return entryFrame
	}
	return f
}

// adjust handles sub, add and and of the stack pointer.
func (f frame) adjust(e x86.Effect, kind kind) frame {
	switch {
	case f.form == interpreted || f.form == byR13:
		return f
	case f.form == byFP && e.Kind == x86.Align:
		f.below = 0
		return f
	case f.form == byFP:
		return f.moved(e.N)
	}
	if e.Kind == x86.Align {
		if kind == exception && f.form == bySP && e.N < 0 && f.depth%-e.N == 0 {
			return f // the CFA belongs to a compiled frame, and is aligned
		}
		return f.withoutRule(kind)
	}
	f.depth -= e.N
	return f.checked()
}

// address handles lea to the stack pointer.
func (f frame) address(e x86.Effect, kind kind) frame {
	switch {
	case f.form == interpreted || f.form == byR13:
		return f
	case f.form == byFP && e.Base == rsp:
		return f.moved(e.N)
	case f.form == byFP:
		f.below = 0
		return f
	case e.Base == rsp:
		f.depth -= e.N
		return f.checked()
	}
	return f.withoutRule(kind)
}

// store handles a move of 64 bits to memory.
func (f frame) store(e x86.Effect) frame {
	switch {
	case e.Base != rsp:
	case e.Reg == r13 && f.form == byR13:
		return frame{form: bySavedSP, depth: e.N, above: wordSize}
	case e.Reg+1 == f.copied && f.form == byFP && f.below == 0 && f.above/wordSize <= maxAbove:
		// A stub that has aligned its stack may use rbp for other data, as SHA-512 does.
		return frame{form: bySavedSP, depth: e.N, above: f.above, saved: f.saved}
	case e.Reg == rbp && f.form == bySP && f.saved == 0 && !f.loaded && e.N < f.depth-wordSize:
		f.saved = f.depth - e.N
	}
	return f
}

// afterLoad handles a move of 64 bits from memory.
func (f frame) afterLoad(e x86.Effect) frame {
	onStack := e.Base == rsp
	switch {
	case e.Reg == rbp && onStack && f.form == bySP && f.saved == f.depth-e.N:
		f.saved = 0
	case e.Reg == r13 && onStack && f.form == bySavedSP && e.N == f.depth:
		return frame{form: byR13}
	case e.Reg == rsp && onStack && f.form == bySavedSP && e.N == f.depth:
		return frame{depth: f.above, saved: f.saved}
	case f.copied == e.Reg+1:
		f.copied = 0
	case e.Base == rbp && e.N == -wordSize && f.form == interpreted:
		f.sender = e.Reg // the caller's stack pointer
	}
	return f
}

// afterMove handles a move of 64 bits between registers.
func (f frame) afterMove(to, from byte, kind kind) frame {
	switch {
	case to == rbp && from == rsp:
		switch {
		case f.form == bySP && f.saved == f.depth && f.saved > 0:
			f.form, f.below = byFP, f.depth
		case f.form == bySender && kind == interpreterEntry:
			f.saved = wordSize
		}
	case to == r13 && from == rsp && f.form == bySP && f.loaded && f.depth == 0:
		f.form, f.sender = bySender, r13
	case to != rsp && from == rsp && f.form == bySP && kind == compiled:
		if f.copied == 0 || f.above == f.depth { // otherwise the first copy will be restored
			f.copied, f.above = to+1, f.depth
		}
	case to != rsp && from == rsp && f.form == byFP && f.below > 0:
		f.copied, f.above = to+1, f.below
	case to != rsp && f.copied == to+1:
		f.copied = 0
	case to == rsp && f.form == byFP:
		f.below = 0
	case to == r13 && from == rsp && f == entryFrame && kind == adapter:
		return frame{form: byR13}
	case to == rsp && from == r13 && f.form == byR13:
		return entryFrame
	case to == rsp && f.form == bySender && f.loaded && from == f.sender:
		return frame{loaded: true, ra: f.ra} // CFA = sp
	case to == rsp && f.form != interpreted:
		return f.withoutRule(kind)
	}
	return f
}

// withoutRule returns the frame after its stack pointer is lost. The interpreter and the adapters called from it have
// the caller's stack pointer in r13. Compiled code loses it only just before a fatal stop, and the handler to which the
// VM redirects a frame that continues in the interpreter follows immediately.
func (f frame) withoutRule(kind kind) frame {
	if kind == compiled && f.form == bySP {
		return f
	}
	if kind == adapter || kind == interpreterEntry {
		f.form, f.sender = bySender, r13
		if !f.loaded { // the return address is in rax, and will be pushed again
			f.loaded, f.ra = true, rax
		}
		return f
	}
	return frame{form: unknownForm}
}

// checked returns f, or an unknown frame if its depth is impossible.
func (f frame) checked() frame {
	if f.form == byR13 {
		return f
	}
	if f.depth < 0 || f.depth > maxDepth {
		return frame{form: unknownForm}
	}
	return f
}
