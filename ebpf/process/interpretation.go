package process

import (
	"slices"
	"strings"
	"time"

	"github.com/headwater/headwater/ebpf/limit"
	"github.com/headwater/headwater/ebpf/runtime"
	"github.com/headwater/headwater/ebpf/runtime/chain"
	"github.com/headwater/headwater/ebpf/unwind"
)

// Interpretation is what is known of the interpreter of a process.
type Interpretation struct {
	*Interpreter // nil: not known
	exe          unwind.ExeID
	library      runtime.Interpreted
	bias         uint64     // of its file
	code         []*JITCode // of the process
	pid          uint32
	doubt        *doubt
	unloads      *unloads
}

// Interpretation returns the interpreter that a process has, and false if it has none.
func (v *View) Interpretation() (Interpretation, bool) {
	i := v.interpretation
	if i == nil {
		return Interpretation{}, false
	}
	return Interpretation{v.interpreter, i.exe.ID, i.library, i.bias, v.code, v.pid, i.doubt, i.unloads}, true
}

// ReadChain reads the frames that the interpreter keeps of a thread of the process, leaf first, and says how they end.
// There are none if it keeps no chain.
func (i *Interpretation) ReadChain(tid uint32, threadPointer uint64, m chain.Memory,
	use func(words []uint64, cookie uint64)) runtime.ChainEnd {
	if i.Interpreter == nil || i.runs == nil || i.runs.Spec().Chain == nil {
		return runtime.ChainNone
	}
	return chain.Walk(i.runs.Spec().Chain, chain.Thread{Pointer: threadPointer, ID: tid, Bias: i.bias}, m, use)
}

// File returns the executable that the interpreter is in.
func (i *Interpretation) File() unwind.ExeID { return i.exe }

// Evaluates reports whether a frame runs functions of the language.
func (i *Interpretation) Evaluates(exe unwind.ExeID, vaddr uint64) bool {
	if exe == i.exe {
		return holds(i.library.Evaluation(), vaddr)
	}
	at := slices.IndexFunc(i.code, func(c *JITCode) bool { return c.Exe() == exe })
	return at >= 0 && i.code[at].Evaluates(vaddr)
}

// Enters reports whether a leaf that evaluates may have no frames of its own yet, or none any more;
// known is false if that is not known of any address.
func (i *Interpretation) Enters(vaddr uint64) (enters, known bool) {
	ranges := i.library.Entering()
	return holds(ranges, vaddr), len(ranges) > 0
}

// Switches says what code of an executable does to the chain of a thread.
func (i *Interpretation) Switches(e *Executable) runtime.Switch {
	if by, ok := i.library.(runtime.Switching); ok && e != nil {
		return by.Switches(e.Path)
	}
	return runtime.NoSwitch
}

func holds(ranges []runtime.Range, vaddr uint64) bool {
	for _, r := range ranges {
		if r.Holds(vaddr) {
			return true
		}
	}
	return false
}

// Is reports whether a sample of the process may have frames of i: the interpreter that the
// process has, or as long as that is not known one of the same file.
func (i *Interpretation) Is(of *Interpreter) bool {
	return i.Interpreter == of || i.Interpreter == nil && of.library == i.library
}

// Rests reports whether functions of the process are not looked up for a while: it has wanted too many for minutes, or
// they became others all the time, as those of processes do that write nonsense where functions are read.
func (i *Interpretation) Rests(t *Tracker) bool {
	now := time.Now()
	return i.doubt.rests(now) || t.exes.interpreters.reads.rest(i.pid, now)
}

// Judge lets the process rest if what was met of its functions for a sample is wrong again and again.
func (i *Interpretation) Judge(t *Tracker, by *Interpreter) {
	if rest := i.doubt.judge(by.functions.takeNews(i.pid), time.Now()); rest > 0 {
		t.failed(limit.Hit(limit.Functions, spoilt(i.pid, rest)))
	}
}

// Unread returns the number of the frame that stands for those that are not looked up.
func (i *Interpretation) Unread() unwind.CodeID {
	return i.Text(strings.TrimSuffix(i.Name(), "]") + " code, not read]")
}
