package unwind

import (
	"debug/elf"
	"errors"
	"slices"
	"strings"

	"github.com/headwater/headwater/ebpf/gopclntab"
)

// goRows makes rows of Go's own table, which says where the stack pointer is at
// every instruction of a function, and what functions are at the end of a stack
// or change over to another one. It is in stripped programs, too, and says more
// than the .debug_frame that Go's linker makes of it.
type goRows struct {
	b      *builder
	reader *gopclntab.Reader
	steps  int // ranges of instructions looked at for this page
}

// maxGoSteps bounds the work for one page. Real ones take some thousands.
const maxGoSteps = 1 << 20

// goCode is how one machine's Go code keeps return address and frame pointer.
type goCode interface {
	// row returns the rule at instructions where the stack pointer is delta bytes
	// below where it was at the function's first one.
	row(delta int64, frame bool) (WideRule, bool)
	// saves reports whether the frame pointer is saved in the first instruction
	// from addr on, where the stack pointer has just moved by delta, or has been
	// before; after is where that is done, and set where it points to what has
	// been saved, both in bytes from addr.
	saves(c *code, addr uint64, delta int64) (after, set uint64, ok bool)
	// record returns the rule where the frame pointer points to what has been
	// saved and the stack pointer may be on another stack.
	record(delta int64) WideRule
	// loadsSP returns how many bytes of text there are up to and with the
	// instruction that puts another value in the stack pointer; -1 if it is not found.
	loadsSP(text []byte) int
	// returnRegister returns the rule for code before addr that took the return
	// address off the stack.
	returnRegister(c *code, addr uint64) (WideRule, bool)
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

// read makes b.rows the rows of the page that the table states.
func (g *goRows) read() error {
	b := g.b
	b.rows, g.steps = append(b.rows[:0], Row{}), 0
	f, first, _, err := g.reader.Find(b.lo)
	for i := first; err == nil && i < b.table.sections.Functions.Len() && g.steps < maxGoSteps; i++ {
		if f, err = g.reader.At(i); err != nil || f.Entry >= b.hi {
			break
		}
		err = g.function(&f)
	}
	if errors.Is(err, gopclntab.ErrInvalid) {
		return nil // what follows has no rules
	}
	return err
}

// goFunction is the state while the rows of one function are made.
type goFunction struct {
	*goRows
	f      *gopclntab.Func
	kind   goKind
	saved  bool // the frame pointer is saved
	frame  int64
	marked uint64 // where the frame pointer points to what is saved; 0: nowhere yet
	end    uint64 // of the rows so far
}

// function adds the rows of f.
func (g *goRows) function(f *gopclntab.Func) error {
	g.steps++
	if !f.HasSPDeltas() || f.End <= g.b.lo {
		return nil
	}
	kind, err := g.kind(f)
	if err != nil {
		return err
	}
	s := goFunction{goRows: g, f: f, kind: kind, end: f.Entry}
	err = g.reader.SPDeltas(f, func(start, end uint64, delta int64) bool {
		s.add(start, end, delta)
		s.end = end
		g.steps++
		return end < g.b.hi && g.steps < maxGoSteps
	})
	if kind == goLoadsSP {
		s.markLoad()
	}
	if s.end < g.b.hi {
		g.b.add(s.end, Row{}) // padding
	}
	return err
}

// add adds the rules of [start, end).
func (s *goFunction) add(start, end uint64, delta int64) {
	code := s.b.table.golang
	switch {
	case s.kind == goOutermost, s.kind == goLeavesStack && s.frame > 0 && delta > s.frame:
		s.put(start, WideRule{CFA: CFASP, Rules: rules(FPSame, RAUndefined)})
		return
	case delta < 0:
		w, _ := code.returnRegister(s.b.code, start) // no rule if it is not known
		s.put(start, w)
		return
	case delta > 0 && !s.saved:
		after, set, ok := code.saves(s.b.code, start, delta)
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
		w.Rules = rules(FPUndefined, w.RA())
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

// put puts a rule in force from addr on.
func (s *goFunction) put(addr uint64, w WideRule) { s.b.add(addr, s.b.rule(w, ReasonNone)) }

// markLoad ends the rows of a function without a frame where it puts another
// value in the stack pointer.
func (s *goFunction) markLoad() {
	const most = 512 // bytes, more than runtime.morestack has
	text := s.b.code.at(s.f.Entry, int(min(s.end-s.f.Entry, most)))
	n := s.b.table.golang.loadsSP(text)
	if n < 0 || s.f.Entry+uint64(n) >= s.end || s.f.Entry+uint64(n) < s.b.lo && s.end <= s.b.lo {
		return
	}
	name, err := s.reader.Name(s.f)
	w := WideRule{CFA: CFAUnsupported, CFAOff: int32(ReasonSPRule)}
	if err == nil && (name == "runtime.morestack" || name == "runtime.clone") { // on another stack for good
		w = WideRule{CFA: CFASP, Rules: rules(FPSame, RAUndefined)}
	}
	s.put(s.f.Entry+uint64(n), w)
}

// goKind is what has to be known of a function beside its stack pointer.
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

// kind tells what f is. Flags tell since Go 1.17, and since then only functions
// in assembly have them; names tell in older programs, and in which way.
func (g *goRows) kind(f *gopclntab.Func) (goKind, error) {
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
