package process

import (
	"slices"
	"strings"
	"time"

	"github.com/headwater/headwater/ebpf/common/limit"
	"github.com/headwater/headwater/ebpf/language"
	"github.com/headwater/headwater/ebpf/language/chain"
	"github.com/headwater/headwater/ebpf/unwind"
)

// Interpretation is the interpreter of one process.
type Interpretation struct {
	*Interpreter // nil while unknown
	exe          unwind.ExeID
	library      language.Interpreted
	bias         uint64     // of its file
	code         []*JITCode // of the process
	pid          uint32
	doubt        *doubt
	unloads      *unloads
	makers       []string // names of runtimes that generate code
}

// Interpretation returns the interpreter of the process, or false if it has none.
func (v *View) Interpretation() (Interpretation, bool) {
	i := v.interpretation
	if i == nil {
		return Interpretation{}, false
	}
	return Interpretation{v.interpreter, i.exe.ID, i.library, i.bias, v.code, v.pid, i.doubt, i.unloads, v.makers}, true
}

// ReadChain reads the frames that the interpreter keeps of a thread of the process, leaf first, and returns how they
// end. There are none if the interpreter keeps no chain.
func (i *Interpretation) ReadChain(tid uint32, threadPointer uint64, m chain.Memory,
	use func(words []uint64, cookie uint64)) language.ChainEnd {
	if i.Interpreter == nil || i.runs == nil || i.runs.Spec().Chain == nil {
		return language.ChainNone
	}
	return chain.Walk(i.runs.Spec().Chain, chain.Thread{Pointer: threadPointer, ID: tid, Bias: i.bias}, m, use)
}

// Makers returns the runtimes that may have generated code in no file, joined by "or": "numba". It is "" if none is
// known, or the interpreter itself says what its code is.
func (i *Interpretation) Makers() string {
	_, makes := i.library.(language.Making)
	if makes && len(i.makers) == 1 {
		return ""
	}
	return strings.Join(i.makers, " or ")
}

// Made returns the number of the placeholder frame for generated code without a known function, or false if such code
// is shown as in any other process. The Interpreter is known.
func (i *Interpretation) Made() (unwind.CodeID, bool) {
	own, ok := i.Interpreter.Made()
	makers := i.Makers()
	if makers == "" || ok && i.HasSlots() {
		return own, ok
	}
	if _, makes := i.library.(language.Making); ok && !makes {
		makers = strings.TrimSuffix(strings.Trim(i.unnamed.Frame, "[]"), " code") + " or " + makers
	}
	return i.Text("[code made by " + makers + "]"), true
}

// File returns the executable that contains the interpreter.
func (i *Interpretation) File() unwind.ExeID { return i.exe }

// Evaluates reports whether a native frame runs functions of the language.
func (i *Interpretation) Evaluates(exe unwind.ExeID, vaddr uint64) bool {
	if exe == i.exe {
		return holds(i.library.Evaluation(), vaddr)
	}
	at := slices.IndexFunc(i.code, func(c *JITCode) bool { return c.Exe() == exe })
	return at >= 0 && i.code[at].Evaluates(vaddr)
}

// Enters reports whether a leaf frame at vaddr may not have pushed its own frames yet, or may have popped them already.
// known is false if the library does not list such addresses.
func (i *Interpretation) Enters(vaddr uint64) (enters, known bool) {
	ranges := i.library.Entering()
	return holds(ranges, vaddr), len(ranges) > 0
}

// Switches returns how code of an executable switches the chain of a thread.
func (i *Interpretation) Switches(e *Executable) language.Switch {
	if by, ok := i.library.(language.Switching); ok && e != nil {
		return by.Switches(e.Path)
	}
	return language.NoSwitch
}

func holds(ranges []language.Range, vaddr uint64) bool {
	for _, r := range ranges {
		if r.Holds(vaddr) {
			return true
		}
	}
	return false
}

// Is reports whether a sample of the process may have frames of the interpreter of: it is the process's interpreter or,
// while that is unknown, an interpreter of the same library.
func (i *Interpretation) Is(of *Interpreter) bool {
	return i.Interpreter == of || i.Interpreter == nil && of.library == i.library
}

// Rests reports whether functions of the process are not looked up for some time. Either the process has needed too
// many reads for minutes, or its code objects keep changing, as in processes that overwrite the memory of functions.
func (i *Interpretation) Rests(t *Tracker) bool {
	now := time.Now()
	return i.doubt.rests(now) || t.exes.interpreters.reads.mustRest(i.pid, now)
}

// Judge suspends lookups of the process's functions if its samples keep showing wrong code objects.
func (i *Interpretation) Judge(t *Tracker, by *Interpreter) {
	if rest := i.doubt.judge(by.functions.takeNews(i.pid), time.Now()); rest > 0 {
		t.failed(limit.Hit(limit.Functions, spoilt(i.pid, rest)))
	}
}

// Unread returns the number of the frame that stands for functions that are not looked up.
func (i *Interpretation) Unread() unwind.CodeID {
	return i.Text(strings.TrimSuffix(i.Name(), "]") + " code, not read]")
}
