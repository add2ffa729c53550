package unwindtable

import (
	"bytes"
	"debug/elf"
	"math"
	"slices"

	"github.com/headwater/headwater/ebpf/unwind"
	"github.com/headwater/headwater/ebpf/unwind/gopclntab"
)

// Functions of Go's runtime that switch to the thread's own stack, where only the goroutine's
// descriptor leads back: always, or only in releases and on machines where they leave no frame
// record that leads back.
const (
	goMorestack   = "runtime.morestack" // grows a goroutine's stack
	goSystemstack = "runtime.systemstack"
	goAsmcgocall  = "runtime.asmcgocall" // calls C
)

// outermostRule is the rule at the end of a stack.
var outermostRule = unwind.WideRule{CFA: unwind.CFASP, Rules: unwind.Rules(unwind.FPSame, unwind.RAUndefined)}

// cloneRule is the rule after the system call clone, where the child has a stack of its own: the outermost frame if rax
// is 0, as in the child.
var cloneRule = unwind.WideRule{CFA: unwind.CFASP, CFAOff: 8, Rules: unwind.Rules(unwind.FPSame, unwind.RAClone)}

// systemCallX86 is x86's instruction syscall.
var systemCallX86 = []byte{0x0f, 0x05}

// away describes the parts of a function that run on another stack, and the rules there.
type away struct {
	parts  []awayPart // in ascending order
	framed bool       // the frame pointer also belongs to the other stack
	// From back to ret the stack pointer is the function's own again, but the frame pointer is not.
	back, ret uint64
	// From copied on the frame pointer has the function's own stack pointer, except from back to ret
	// if the frame pointer is saved; 0 if it never does.
	copied uint64
}

type awayPart struct {
	start, end uint64
	rule       unwind.WideRule
}

// goAbsence is the part of a function's code that runs on another stack, in bytes from the start of
// the code.
type goAbsence struct {
	from, to int
	ret      int     // offset after its return, back on its own stack
	losesFP  bool    // the frame pointer also belongs to the other stack
	copied   int     // offset after the last copy of the stack pointer to the frame pointer; 0 if none
	path     []int64 // the way back: offsets of loads from the thread's word on; the last one gives the stack pointer
}

// goPath describes how code computed the value of a register. Without loads, and with the number 0,
// the value is unknown.
type goPath struct {
	loads  []int64 // offsets of loads, each from the address loaded before; the first is of the thread's word
	number int64   // a constant in the code
}

// thenLoad returns the path of a load at an offset from the address with path p.
func (p goPath) thenLoad(offset int64) goPath {
	if len(p.loads) == 0 {
		return goPath{}
	}
	return goPath{loads: append(slices.Clip(p.loads), offset)}
}

// absenceFinder collects the effects of consecutive instructions.
type absenceFinder struct {
	goAbsence
	left   bool // switched to another stack
	called bool // called the function that it runs there
	back   bool // is back on its own stack
	over   bool // has returned
}

// setsSP records that the instruction before end sets the stack pointer.
func (a *absenceFinder) setsSP(end int, path goPath) {
	switch {
	case !a.left:
		a.left, a.from = true, end
	case a.called && !a.back:
		a.back, a.to, a.path = true, end, path.loads
	}
}

// copiesSP records that the instruction before end copies the stack pointer to the frame pointer.
func (a *absenceFinder) copiesSP(end int) {
	if !a.left {
		a.copied = end
	}
}

// returns records that the instruction before end returns.
func (a *absenceFinder) returns(end int) {
	if a.back {
		a.over, a.ret = true, end
	}
}

// absence returns the result for size bytes of code.
func (a *absenceFinder) absence(size int) (goAbsence, bool) {
	if !a.over {
		a.to, a.ret = size, size
	}
	return a.goAbsence, a.left
}

// switchOf returns the parts of f that run on another stack without a frame that leads back.
func (g *goTable) switchOf(f *gopclntab.Func, kind goKind) (away, error) {
	if kind != goLoadsSP && kind != goSwitches {
		return away{}, nil
	}
	text := g.textOf(f)
	absence, ok := g.table.golang.absence(text)
	if !ok {
		return away{}, nil
	}
	name, err := g.reader.Name(f)
	if err != nil {
		return away{}, err
	}
	a := away{framed: kind == goLoadsSP || absence.losesFP}
	lost := unwind.WideRule{CFA: unwind.CFAUnsupported, CFAOff: int32(unwind.ReasonSPRule)}
	part := awayPart{f.Entry + uint64(absence.from), f.End, lost}
	switch name {
	case "runtime.clone":
		part.rule = outermostRule
		call := bytes.Index(text[:absence.from], systemCallX86)
		if g.table.sections.Machine == elf.EM_X86_64 && call >= 0 {
			a.parts = append(a.parts, awayPart{f.Entry + uint64(call+len(systemCallX86)), part.start, cloneRule})
		}
	case "runtime.mcall":
		part.rule = outermostRule
	case goMorestack, goSystemstack, goAsmcgocall:
		if rule, ok := g.goroutineRule(f); ok {
			part.rule, part.end = rule, f.Entry+uint64(absence.to)
			a.back, a.ret = part.end, f.Entry+uint64(absence.ret)
		}
	default:
		if absence.copied > 0 && kind == goSwitches {
			a.copied = f.Entry + uint64(absence.copied)
			a.back, a.ret = f.Entry+uint64(absence.to), f.Entry+uint64(absence.ret)
		}
	}
	a.parts = append(a.parts, part)
	if name == goAsmcgocall && !absence.losesFP {
		a.parts = append(a.parts, awayPart{max(part.end, a.ret), f.End, lost}) // code started on the thread's stack
	}
	return a, nil
}

// textOf returns the start of the code of a function in assembly.
func (g *goTable) textOf(f *gopclntab.Func) []byte {
	const most = 512 // more bytes than the functions of interest have
	return g.code.bytesAt(f.Entry, int(min(f.End-f.Entry, most)))
}

// goroutineRule returns the rule that leads from f to the saved registers of the thread's current
// goroutine. Their location depends on the release. It comes from the runtime's own code:
// runtime.systemstack loads them to return.
func (g *goTable) goroutineRule(f *gopclntab.Func) (unwind.WideRule, bool) {
	systemstack, ok1 := g.neighbor(f, goSystemstack)
	morestack, ok2 := g.neighbor(f, goMorestack)
	if !ok1 || !ok2 {
		return unwind.WideRule{}, false
	}
	absence, _ := g.table.golang.absence(g.textOf(&systemstack))
	fp, ok := g.table.golang.keepsFP(g.textOf(&morestack))
	if !ok || len(absence.path) != 4 {
		return unwind.WideRule{}, false
	}
	thread, m, current, sched := absence.path[0], absence.path[1], absence.path[2], absence.path[3]
	const kept = 6 * 8 // from sp to fp: sp, pc, g, ctxt, lr; some releases have one more word between them
	if thread != int64(int32(thread)) || m <= 0 || current <= 0 || current > math.MaxInt16 || sched <= 0 ||
		fp < sched+kept-8 || fp > sched+kept || (m|current|sched|fp)%8 != 0 || m/8 > math.MaxUint8 ||
		sched/8 > math.MaxUint8 {
		return unwind.WideRule{}, false
	}
	w := unwind.WideRule{CFA: unwind.CFAGoroutine, Reg: uint8(m / 8), Reg2: uint8(sched / 8), CFAOff: int32(thread),
		FPOff: int32(current), RAOff: int32(fp)}
	if f.Entry == morestack.Entry {
		w.Rules = unwind.Rules(unwind.FPSame, unwind.RAReg)
	}
	return w, true
}

// neighbor returns the function with the given name in the assembly file of f.
func (g *goTable) neighbor(f *gopclntab.Func, name string) (gopclntab.Func, bool) {
	const most = 96 // maximum number of functions between two functions of that file
	_, at, _, err := g.reader.Find(f.Entry)
	for i := max(at-most, 0); err == nil && i < min(at+most, g.table.sections.Functions.Len()); i++ {
		var n gopclntab.Func
		var called string
		if n, err = g.reader.At(i); err != nil {
			break
		}
		if called, err = g.reader.Name(&n); err == nil && called == name {
			return n, true
		}
	}
	return gopclntab.Func{}, false
}
