package unwindtable

import (
	"debug/elf"
	"errors"
	"slices"
	"strings"

	"github.com/headwater/headwater/ebpf/unwind"
	"github.com/headwater/headwater/ebpf/unwind/gopclntab"
)

// goTable is a source of rows from Go's own function table. The table has the stack pointer delta
// at every instruction of a function, and identifies the functions that end a stack or switch to
// another stack. It is also in stripped programs, and contains more than the .debug_frame that Go's
// linker makes from it.
type goTable struct {
	rowList
	table  *Table
	code   *code
	reader *gopclntab.Reader
	steps  int // ranges of instructions read for this page
}

// maxGoSteps bounds the work for one page. Real pages take some thousands of steps.
const maxGoSteps = 1 << 20

// goCode describes the location of return address and frame pointer in Go's code for one machine.
type goCode interface {
	// row returns the rule for instructions where the stack pointer is delta bytes below its value
	// at the function's first instruction.
	ruleOf(delta int64, frame bool) (unwind.WideRule, bool)
	// saves reports whether the frame pointer is saved, by the instruction at addr or before it.
	// The stack pointer has just moved by delta. after is the offset where the save is complete,
	// and set the offset where the frame pointer starts to point to the saved one, both in bytes
	// from addr.
	saves(c *code, addr uint64, delta int64) (after, set uint64, ok bool)
	// record returns the rule for code where the frame pointer points to the saved frame pointer,
	// and the stack pointer may be on another stack.
	record(delta int64) unwind.WideRule
	// absence returns the part of a function that runs on another stack, and false if there is
	// none.
	absence(text []byte) (goAbsence, bool)
	// keepsFP returns the offset of the first store of the frame pointer to memory that is
	// addressed by a register other than the stack pointer.
	keepsFP(text []byte) (at int64, ok bool)
	// returnRegister returns the rule for code after an instruction before addr that popped the
	// return address.
	returnRegister(c *code, addr uint64) (unwind.WideRule, bool)
}

// goCodeFor returns the goCode of a machine, nil if the machine is unsupported.
func goCodeFor(m elf.Machine) goCode {
	switch m {
	case elf.EM_X86_64:
		return goX86{}
	case elf.EM_AARCH64:
		return goAArch64{}
	}
	return nil
}

// Rows returns the rows from the table.
func (g *goTable) Rows(s *span) ([]unwind.Row, error) {
	g.begin(s)
	g.steps = 0
	f, first, _, err := g.reader.Find(s.lo)
	for i := first; err == nil && i < g.table.sections.Functions.Len() && g.steps < maxGoSteps; i++ {
		if f, err = g.reader.At(i); err != nil || f.Entry >= s.hi {
			break
		}
		err = g.function(&f)
	}
	if errors.Is(err, gopclntab.ErrInvalid) {
		return g.rows, nil // the rest has no rules
	}
	return g.rows, err
}

// goFunction is the state while the rows of one function are made.
type goFunction struct {
	*goTable
	f      *gopclntab.Func
	kind   goKind
	saved  bool   // the frame pointer is saved
	marked uint64 // address where the frame pointer starts to point to the saved one; 0 if not reached
	end    uint64 // end of the rows so far
	away   away
	copied unwind.WideRule // where the frame pointer has the function's own stack pointer
}

// function adds the rows of f.
func (g *goTable) function(f *gopclntab.Func) error {
	g.steps++
	if !f.HasSPDeltas() || f.End <= g.span.lo {
		return nil
	}
	kind, err := g.kindOf(f)
	if err != nil {
		return err
	}
	s := goFunction{goTable: g, f: f, kind: kind, end: f.Entry}
	if s.away, err = g.switchOf(f, kind); err != nil {
		return err
	}
	err = g.reader.SPDeltas(f, func(start, end uint64, delta int64) bool {
		s.addRange(start, end, delta)
		s.end = end
		g.steps++
		return end < g.span.hi && g.steps < maxGoSteps
	})
	if s.end < g.span.hi {
		g.addAt(s.end, unwind.Row{}) // padding
	}
	return err
}

// addRange adds the rules of [start, end).
func (s *goFunction) addRange(start, end uint64, delta int64) {
	code := s.table.golang
	switch {
	case s.kind == goOutermost:
		s.putRule(start, end, outermostRule)
		return
	case delta < 0:
		w, _ := code.returnRegister(s.code, start) // the zero rule if the register is unknown
		s.putRule(start, end, w)
		return
	case delta > 0 && !s.saved:
		after, set, ok := code.saves(s.code, start, delta)
		if s.saved = ok; ok {
			s.marked = start + set
			if after = min(after, end-start); after > 0 {
				w, _ := code.ruleOf(delta, false)
				s.putRule(start, start+after, w)
				start += after
			}
		}
	}
	w, ok := code.ruleOf(delta, s.saved)
	if ok && delta > 0 {
		switch {
		case !s.saved:
			w.Rules = unwind.Rules(unwind.FPUndefined, w.RA())
		case s.kind == goScheduler:
			w.Rules = unwind.Rules(w.FP(), unwind.RADetached)
		}
	}
	if s.hasCopy() {
		s.putCopied(start, end, w)
		return
	}
	if delta > 0 && s.saved && s.kind.switches() {
		s.putRule(start, min(s.marked, end), w)
		record := code.record(delta)
		if s.kind == goCallback {
			record.Rules = unwind.Rules(unwind.FPSame, unwind.RADetached)
		}
		start = max(start, s.marked)
		if s.away.framed {
			s.putRule(start, min(s.away.back, end), record)
			s.putRule(max(start, s.away.back), min(s.away.ret, end), w)
			start = max(start, s.away.ret)
		}
		w = record
	}
	s.putRule(start, end, w)
}

// hasCopy reports whether the function keeps its stack pointer in the frame pointer, other than to
// make its frame.
func (s *goFunction) hasCopy() bool {
	return s.away.copied != 0 && (!s.saved || s.marked != s.away.copied)
}

// putCopied adds the rules of [start, end) of a function that keeps its stack pointer in the frame
// pointer. own is the rule where the function is on its own stack.
func (s *goFunction) putCopied(start, end uint64, own unwind.WideRule) {
	a := &s.away
	if start < a.copied && a.copied <= end && own.CFA == unwind.CFASP {
		s.copied = own
		s.copied.CFA = unwind.CFAFP
		if !s.saved {
			s.copied.Rules = unwind.Rules(unwind.FPUndefined, own.RA())
		}
	}
	returning := s.copied
	if s.saved {
		returning = own
	}
	for _, part := range []awayPart{
		{0, a.copied, own}, {a.copied, a.back, s.copied}, {a.back, a.ret, returning}, {a.ret, end, s.copied},
	} {
		if from, to := max(start, part.start), min(end, part.end); from < to {
			s.addAt(from, s.span.rowOf(part.rule, unwind.ReasonNone))
		}
	}
}

// putRule adds the rule of [start, end), except for parts where the function is on another stack.
func (s *goFunction) putRule(start, end uint64, w unwind.WideRule) {
	for _, a := range s.away.parts {
		if end <= a.start || start >= a.end || s.saved && !s.away.framed {
			continue
		}
		if start < a.start {
			s.addAt(start, s.span.rowOf(w, unwind.ReasonNone))
		}
		s.addAt(max(start, a.start), s.span.rowOf(a.rule, unwind.ReasonNone))
		start = a.end
	}
	if start < end {
		s.addAt(start, s.span.rowOf(w, unwind.ReasonNone))
	}
}

// goKind is the kind of a function, which the stack pointer deltas do not contain.
type goKind uint8

const (
	goPlain      goKind = iota
	goOutermost         // the end of a stack
	goSwitches          // switches to another stack and back
	goCallback          // switches back to a goroutine's stack, for code called by the goroutine
	goLoadsSP           // switches to another stack for good
	goScheduler         // finds another goroutine to run; the previous goroutine is not the caller
	goOnAnyStack        // uses the stack pointer for other purposes
)

func (k goKind) switches() bool { return k == goSwitches || k == goCallback }

// kindOf returns the kind of f. Since Go 1.17 functions in assembly have flags for it. Older
// programs, and details that the flags do not contain, need the names.
func (g *goTable) kindOf(f *gopclntab.Func) (goKind, error) {
	name, err := g.reader.Name(f)
	if err != nil {
		return goPlain, err
	}
	switch {
	case name == "runtime.schedule":
		return goScheduler, nil
	case f.HasFlags && f.Flags == 0:
		return goPlain, nil
	case name == "runtime.sigtramp" || name == "runtime.cgoSigtramp":
		return goPlain, nil // its return address is a signal trampoline, which leads to the interrupted code
	case f.Flags&gopclntab.TopFrame != 0 || slices.Contains(goOutermostNames(), name):
		return goOutermost, nil
	case strings.HasPrefix(name, "_rt0_") && !strings.Contains(name, "_lib"): // the loader calls the _lib functions
		return goOutermost, nil
	case slices.Contains(goLeavingNames(), name):
		return goLoadsSP, nil
	case name == "runtime.cgocallback" || name == "runtime.cgocallback_gofunc":
		return goCallback, nil
	case f.Flags&gopclntab.SPWrite == 0 && !slices.Contains(goSwitchNames(), name):
		return goPlain, nil
	case strings.HasPrefix(name, "runtime.") || strings.HasPrefix(name, "time."):
		return goSwitches, nil
	}
	return goOnAnyStack, nil
}

// goOutermostNames are the functions at the end of a stack (src/runtime/traceback.go before Go
// 1.17, topofstack).
func goOutermostNames() []string {
	return []string{"runtime.goexit", "runtime.mstart", "runtime.rt0_go"}
}

// goLeavingNames are the functions that switch to another stack for good.
func goLeavingNames() []string {
	return []string{"gogo", "runtime.gogo", "runtime.mcall", goMorestack, "runtime.clone"}
}

// goSwitchNames are the functions that switch to another stack and back, in programs older than the
// flag SPWrite.
func goSwitchNames() []string {
	return []string{
		goSystemstack, goAsmcgocall,
		"runtime.nanotime", "runtime.nanotime1", "runtime.walltime", "runtime.walltime1", "time.now",
		"runtime.callCgoMmap", "runtime.callCgoMunmap", "runtime.callCgoSigaction", "runtime.sigfwd",
	}
}
