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
	// absence returns where the code of a function is on another stack; false if it is never.
	absence(text []byte) (goAbsence, bool)
	// keepsFP returns where in memory, in bytes from where a register other than the stack pointer points to, code puts
	// the frame pointer first.
	keepsFP(text []byte) (at int64, ok bool)
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
	saved  bool   // the frame pointer is saved
	marked uint64 // where the frame pointer points to what is saved; 0: nowhere yet
	end    uint64 // of the rows so far
	away   away
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
	if s.away, err = g.away(f, kind); err != nil {
		return err
	}
	err = g.reader.SPDeltas(f, func(start, end uint64, delta int64) bool {
		s.addRange(start, end, delta)
		s.end = end
		g.steps++
		return end < g.span.hi && g.steps < maxGoSteps
	})
	if s.end < g.span.hi {
		g.add(s.end, unwind.Row{}) // padding
	}
	return err
}

// addRange adds the rules of [start, end).
func (s *goFunction) addRange(start, end uint64, delta int64) {
	code := s.table.golang
	switch {
	case s.kind == goOutermost:
		s.put(start, end, outermostRule)
		return
	case delta < 0:
		w, _ := code.returnRegister(s.code, start) // no rule if it is not known
		s.put(start, end, w)
		return
	case delta > 0 && !s.saved:
		after, set, ok := code.saves(s.code, start, delta)
		if s.saved = ok; ok {
			s.marked = start + set
			if after = min(after, end-start); after > 0 {
				w, _ := code.row(delta, false)
				s.put(start, start+after, w)
				start += after
			}
		}
	}
	w, ok := code.row(delta, s.saved)
	if ok && delta > 0 {
		switch {
		case !s.saved:
			w.Rules = unwind.Rules(unwind.FPUndefined, w.RA())
		case s.kind == goScheduler:
			w.Rules = unwind.Rules(w.FP(), unwind.RADetached)
		}
	}
	if delta > 0 && s.saved && s.kind.switches() {
		s.put(start, min(s.marked, end), w)
		record := code.record(delta)
		if s.kind == goCallback {
			record.Rules = unwind.Rules(unwind.FPSame, unwind.RADetached)
		}
		start = max(start, s.marked)
		if s.away.framed {
			s.put(start, min(s.away.back, end), record)
			s.put(max(start, s.away.back), min(s.away.ret, end), w)
			start = max(start, s.away.ret)
		}
		w = record
	}
	s.put(start, end, w)
}

// put adds the rule of [start, end), but for where the function is away.
func (s *goFunction) put(start, end uint64, w unwind.WideRule) {
	for _, a := range s.away.parts {
		if end <= a.start || start >= a.end || s.saved && !s.away.framed {
			continue
		}
		if start < a.start {
			s.add(start, s.span.row(w, unwind.ReasonNone))
		}
		s.add(max(start, a.start), s.span.row(a.rule, unwind.ReasonNone))
		start = a.end
	}
	if start < end {
		s.add(start, s.span.row(w, unwind.ReasonNone))
	}
}

// goKind is what has to be known of a function besides its stack pointer.
type goKind uint8

const (
	goPlain      goKind = iota
	goOutermost         // the end of a stack
	goSwitches          // goes to another stack and comes back
	goCallback          // goes back to a goroutine's stack, for code that the goroutine has called
	goLoadsSP           // goes to another stack for good
	goScheduler         // looks for another goroutine to run: the one before is not who called
	goOnAnyStack        // uses the stack pointer for something else
)

func (k goKind) switches() bool { return k == goSwitches || k == goCallback }

// kind returns what f is. Since Go 1.17 functions in assembly have flags, which say so;
// in older programs, and for which way, names say it.
func (g *goTable) kind(f *gopclntab.Func) (goKind, error) {
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
		return goPlain, nil // what it interrupted is the caller: its return address is a signal trampoline
	case f.Flags&gopclntab.TopFrame != 0 || slices.Contains(goOutermostNames(), name):
		return goOutermost, nil
	case strings.HasPrefix(name, "_rt0_") && !strings.Contains(name, "_lib"): // the latter are called by the loader
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

// goOutermostNames are the functions at the end of a stack (src/runtime/traceback.go
// before Go 1.17, topofstack).
func goOutermostNames() []string {
	return []string{"runtime.goexit", "runtime.mstart", "runtime.rt0_go"}
}

// goLeavingNames are the functions that go to another stack for good.
func goLeavingNames() []string {
	return []string{"gogo", "runtime.gogo", "runtime.mcall", goMorestack, "runtime.clone"}
}

// goSwitchNames are the functions that go to another stack and come back, in
// programs older than the flag SPWrite.
func goSwitchNames() []string {
	return []string{
		goSystemstack, goAsmcgocall,
		"runtime.nanotime", "runtime.nanotime1", "runtime.walltime", "runtime.walltime1", "time.now",
		"runtime.callCgoMmap", "runtime.callCgoMunmap", "runtime.callCgoSigaction", "runtime.sigfwd",
	}
}
