package unwindtable

import (
	"debug/elf"
	"errors"
	"slices"
	"strings"

	"github.com/headwater/headwater/ebpf/gopclntab"
	"github.com/headwater/headwater/ebpf/unwind"
)

// goTable makes rows of Go's own table, which says where the stack pointer is at
// every instruction of a function, and what functions are at the end of a stack
// or change over to another one. It is in stripped programs, too, and says more
// than the .debug_frame that Go's linker makes of it. It is a source of rows.
type goTable struct {
	rowList
	table  *Table
	code   *code
	reader *gopclntab.Reader
	steps  int // ranges of instructions looked at for this page
}

// maxGoSteps bounds the work for one page. Real ones take some thousands.
const maxGoSteps = 1 << 20

// goCode is how one machine's Go code keeps return address and frame pointer.
type goCode interface {
	// row returns the rule at instructions where the stack pointer is delta bytes
	// below where it was at the function's first one.
	row(delta int64, frame bool) (unwind.WideRule, bool)
	// saves reports whether the frame pointer is saved in the first instruction
	// from addr on, where the stack pointer has just moved by delta, or has been
	// before; after is where that is done, and set where it points to what has
	// been saved, both in bytes from addr.
	saves(c *code, addr uint64, delta int64) (after, set uint64, ok bool)
	// record returns the rule where the frame pointer points to what has been
	// saved and the stack pointer may be on another stack.
	record(delta int64) unwind.WideRule
	// loadsSP returns how many bytes of text there are up to and with the
	// instruction that puts another value in the stack pointer; -1 if it is not found.
	loadsSP(text []byte) int
	// returnRegister returns the rule for code before addr that took the return
	// address off the stack.
	returnRegister(c *code, addr uint64) (unwind.WideRule, bool)
}

// goCodeFor returns how Go's code is for a machine, nil if that is not known.
func goCodeFor(m elf.Machine) goCode {
	switch m {
	case elf.EM_X86_64:
		return goX86{}
	case elf.EM_AARCH64:
		return goAArch64{}
	}
	return nil
}

// Rows returns the rows that the table states.
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
		return g.rows, nil // what follows has no rules
	}
	return g.rows, err
}

// goFunction is the state while the rows of one function are made.
type goFunction struct {
	*goTable
	f      *gopclntab.Func
	kind   goKind
	saved  bool // the frame pointer is saved
	frame  int64
	marked uint64 // where the frame pointer points to what is saved; 0: nowhere yet
	end    uint64 // of the rows so far
}

// function adds the rows of f.
func (g *goTable) function(f *gopclntab.Func) error {
	g.steps++
	if !f.HasSPDeltas() || f.End <= g.span.lo {
		return nil
	}
	kind, err := g.kind(f)
	if err != nil {
		return err
	}
	s := goFunction{goTable: g, f: f, kind: kind, end: f.Entry}
	err = g.reader.SPDeltas(f, func(start, end uint64, delta int64) bool {
		s.addRange(start, end, delta)
		s.end = end
		g.steps++
		return end < g.span.hi && g.steps < maxGoSteps
	})
	if kind == goLoadsSP || kind == goSwitches && !s.saved {
		s.markLoad()
	}
	if s.end < g.span.hi {
		g.add(s.end, unwind.Row{}) // padding
	}
	return err
}

// addRange adds the rules of [start, end).
func (s *goFunction) addRange(start, end uint64, delta int64) {
	code := s.table.golang
	switch {
	case s.kind == goOutermost, s.kind == goLeavesStack && s.frame > 0 && delta > s.frame:
		s.put(start, unwind.WideRule{CFA: unwind.CFASP, Rules: unwind.Rules(unwind.FPSame, unwind.RAUndefined)})
		return
	case delta < 0:
		w, _ := code.returnRegister(s.code, start) // no rule if it is not known
		s.put(start, w)
		return
	case delta > 0 && !s.saved:
		after, set, ok := code.saves(s.code, start, delta)
		if s.saved = ok; ok {
			s.frame, s.marked = delta, start+set
			if after = min(after, end-start); after > 0 {
				w, _ := code.row(delta, false)
				s.put(start, w)
				start += after
			}
		}
	}
	if start == end {
		return
	}
	w, ok := code.row(delta, s.saved)
	if ok && delta > 0 && !s.saved {
		w.Rules = unwind.Rules(unwind.FPUndefined, w.RA())
	}
	if delta > 0 && s.saved && s.kind.switches() {
		if start < s.marked {
			s.put(start, w)
		}
		start, w = max(start, s.marked), code.record(delta)
	}
	if start < end {
		s.put(start, w)
	}
}

// put adds the rule from addr on.
func (s *goFunction) put(addr uint64, w unwind.WideRule) {
	s.add(addr, s.span.row(w, unwind.ReasonNone))
}

// markLoad ends the rows of a function without a frame where it puts another
// value in the stack pointer. Who called runtime.morestack, and runtime.systemstack before Go 1.21,
// is in the goroutine's descriptor alone, where rows cannot look: stacks say that they end there.
func (s *goFunction) markLoad() {
	const most = 512 // bytes, more than runtime.morestack has
	text := s.code.at(s.f.Entry, int(min(s.end-s.f.Entry, most)))
	n := s.table.golang.loadsSP(text)
	if n < 0 || s.f.Entry+uint64(n) >= s.end || s.f.Entry+uint64(n) < s.span.lo && s.end <= s.span.lo {
		return
	}
	name, err := s.reader.Name(s.f)
	w := unwind.WideRule{CFA: unwind.CFAUnsupported, CFAOff: int32(unwind.ReasonSPRule)}
	if err == nil && name == "runtime.clone" { // on another stack for good
		w = unwind.WideRule{CFA: unwind.CFASP, Rules: unwind.Rules(unwind.FPSame, unwind.RAUndefined)}
	}
	s.put(s.f.Entry+uint64(n), w)
}

// goKind is what has to be known of a function besides its stack pointer.
type goKind uint8

const (
	goPlain       goKind = iota
	goOutermost          // the end of a stack
	goSwitches           // goes to another stack and comes back
	goLeavesStack        // goes to another stack, to call what does not return
	goLoadsSP            // goes to another stack, without a frame of its own
	goOnAnyStack         // uses the stack pointer for something else
)

func (k goKind) switches() bool { return k == goSwitches || k == goLeavesStack }

// kind returns what f is. Since Go 1.17 functions in assembly have flags, which say so;
// in older programs, and for which way, names say it.
func (g *goTable) kind(f *gopclntab.Func) (goKind, error) {
	if f.HasFlags && f.Flags == 0 {
		return goPlain, nil
	}
	name, err := g.reader.Name(f)
	if err != nil {
		return goPlain, err
	}
	switch {
	case name == "runtime.sigtramp" || name == "runtime.cgoSigtramp":
		return goPlain, nil // what it interrupted is the caller: its return address is a signal trampoline
	case f.Flags&gopclntab.TopFrame != 0 || slices.Contains(goOutermostNames(), name):
		return goOutermost, nil
	case strings.HasPrefix(name, "_rt0_") && !strings.Contains(name, "_lib"): // the latter are called by the loader
		return goOutermost, nil
	case name == "runtime.mcall":
		return goLeavesStack, nil
	case slices.Contains(goFramelessNames(), name):
		return goLoadsSP, nil
	case f.Flags&gopclntab.SPWrite == 0 && !slices.Contains(goSwitchNames(), name):
		return goPlain, nil
	case strings.HasPrefix(name, "runtime.") || strings.HasPrefix(name, "time."):
		return goSwitches, nil
	}
	return goOnAnyStack, nil
}

// goOutermostNames are the functions at the end of a stack (src/runtime/traceback.go
// before Go 1.17, topofstack).
func goOutermostNames() []string {
	return []string{"runtime.goexit", "runtime.mstart", "runtime.rt0_go"}
}

// goFramelessNames are the functions that change the stack pointer and have no
// frame of their own.
func goFramelessNames() []string {
	return []string{"gogo", "runtime.gogo", "runtime.morestack", "runtime.clone"}
}

// goSwitchNames are the functions that go to another stack and come back, in
// programs older than the flag SPWrite.
func goSwitchNames() []string {
	return []string{
		"runtime.systemstack", "runtime.asmcgocall", "runtime.cgocallback", "runtime.cgocallback_gofunc",
		"runtime.nanotime", "runtime.nanotime1", "runtime.walltime", "runtime.walltime1", "time.now",
		"runtime.callCgoMmap", "runtime.callCgoMunmap", "runtime.callCgoSigaction", "runtime.sigfwd",
	}
}
