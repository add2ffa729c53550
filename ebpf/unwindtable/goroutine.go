package unwindtable

import (
	"math"
	"slices"

	"github.com/headwater/headwater/ebpf/gopclntab"
	"github.com/headwater/headwater/ebpf/unwind"
)

// The functions of Go's runtime that go to the thread's own stack, where only the goroutine's descriptor says where
// they came from: always, or in releases and on machines where they leave no frame record that leads back.
const (
	goMorestack   = "runtime.morestack" // makes a goroutine's stack larger
	goSystemstack = "runtime.systemstack"
	goAsmcgocall  = "runtime.asmcgocall" // calls C
)

// outermostRule is that of the end of a stack.
var outermostRule = unwind.WideRule{CFA: unwind.CFASP, Rules: unwind.Rules(unwind.FPSame, unwind.RAUndefined)}

// away is where a function is on another stack, and the rules there.
type away struct {
	parts  []awayPart // in ascending order
	framed bool       // the frame pointer, too, is then another stack's
	// From back to ret the stack pointer is the function's own again, but not yet the frame pointer.
	back, ret uint64
}

type awayPart struct {
	start, end uint64
	rule       unwind.WideRule
}

// goAbsence is where code is on another stack, in bytes from its begin.
type goAbsence struct {
	from, to int
	ret      int     // where it returns, back on its own
	losesFP  bool    // the frame pointer is another stack's as well
	path     []int64 // the way back: offsets of loads from the thread's word on, the last one gives the stack pointer
}

// goPath is how code has got the value of a register. Without loads, and the number 0, that is not known.
type goPath struct {
	loads  []int64 // offsets of loads, one from the address that the one before gave; the first is of the thread's word
	number int64   // a number that code has as such
}

// load returns what is at an offset from the address that p is.
func (p goPath) load(offset int64) goPath {
	if len(p.loads) == 0 {
		return goPath{}
	}
	return goPath{loads: append(slices.Clip(p.loads), offset)}
}

// absenceFinder gathers what code does, one instruction after the other.
type absenceFinder struct {
	goAbsence
	left   bool // for another stack
	called bool // what it was told to call
	back   bool // on its stack
	over   bool // it has returned
}

// setsSP notes that the stack pointer gets a value in the instruction before end.
func (a *absenceFinder) setsSP(end int, path goPath) {
	switch {
	case !a.left:
		a.left, a.from = true, end
	case a.called && !a.back:
		a.back, a.to, a.path = true, end, path.loads
	}
}

// returns notes that the instruction before end returns.
func (a *absenceFinder) returns(end int) {
	if a.back {
		a.over, a.ret = true, end
	}
}

// absence returns what was found in size bytes of code.
func (a *absenceFinder) absence(size int) (goAbsence, bool) {
	if !a.over {
		a.to, a.ret = size, size
	}
	return a.goAbsence, a.left
}

// away finds out where f is on another stack without a frame that leads back.
func (g *goTable) away(f *gopclntab.Func, kind goKind) (away, error) {
	if kind != goLoadsSP && kind != goSwitches {
		return away{}, nil
	}
	text := g.text(f)
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
	case "runtime.clone", "runtime.mcall":
		part.rule = outermostRule
	case goMorestack, goSystemstack, goAsmcgocall:
		if rule, ok := g.goroutineRule(f); ok {
			part.rule, part.end = rule, f.Entry+uint64(absence.to)
			a.back, a.ret = part.end, f.Entry+uint64(absence.ret)
		}
	}
	a.parts = []awayPart{part}
	if name == goAsmcgocall && !absence.losesFP {
		a.parts = append(a.parts, awayPart{max(part.end, a.ret), f.End, lost}) // for code that began on the thread's stack
	}
	return a, nil
}

// text returns the code of a function that is written in assembly.
func (g *goTable) text(f *gopclntab.Func) []byte {
	const most = 512 // bytes, more than those looked at have
	return g.code.at(f.Entry, int(min(f.End-f.Entry, most)))
}

// goroutineRule returns the rule by which f is left to where the goroutine was that the thread runs. Where the runtime
// keeps that depends on its release: its own code says it, runtime.systemstack as it returns.
func (g *goTable) goroutineRule(f *gopclntab.Func) (unwind.WideRule, bool) {
	systemstack, ok1 := g.neighbor(f, goSystemstack)
	morestack, ok2 := g.neighbor(f, goMorestack)
	if !ok1 || !ok2 {
		return unwind.WideRule{}, false
	}
	absence, _ := g.table.golang.absence(g.text(&systemstack))
	fp, ok := g.table.golang.keepsFP(g.text(&morestack))
	if !ok || len(absence.path) != 4 {
		return unwind.WideRule{}, false
	}
	thread, m, current, sched := absence.path[0], absence.path[1], absence.path[2], absence.path[3]
	const kept = 6 * 8 // from sp to fp: sp, pc, g, ctxt, lr, and in some releases another one between them
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

// neighbor returns the function with a name that is in the same file of assembly as f.
func (g *goTable) neighbor(f *gopclntab.Func, name string) (gopclntab.Func, bool) {
	const most = 96 // functions between two of that file
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
