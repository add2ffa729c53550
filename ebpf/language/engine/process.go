package engine

import (
	"slices"
	"strings"
	"time"

	"github.com/headwater/headwater/ebpf/common/limit"
	"github.com/headwater/headwater/ebpf/language"
	"github.com/headwater/headwater/ebpf/language/chain"
	"github.com/headwater/headwater/ebpf/unwind"
)

// ProcessRuntime is the language runtime of one process whose functions are no machine code, or not all of them.
type ProcessRuntime struct {
	*Interpreter // nil while unknown
	PID          uint32
	File         unwind.ExeID // contains the runtime
	Library      language.Library
	Bias         uint64   // of the File
	Code         CodeOf   // of the process
	Lookups      *Lookups // of the process
	Makers       []string // names of the runtimes in the process that generate code
}

// CodeOf is the code that the language runtimes of a process have generated.
type CodeOf interface {
	// Evaluates reports whether an executable stands for such code, and the code at an ELF virtual address is an
	// interpreter that runs functions of the language.
	Evaluates(exe unwind.ExeID, vaddr uint64) bool
}

// Lookups is the history of the lookups of one process's functions. Safe for concurrent use.
type Lookups struct {
	doubt   doubt
	unloads unloads
}

// ReadChain reads the frames that the interpreter keeps of a thread of the process, leaf first, and returns how they
// end. There are none if the interpreter keeps no chain.
func (r *ProcessRuntime) ReadChain(tid uint32, threadPointer uint64, m chain.Memory,
	use func(words []uint64, cookie uint64)) language.ChainEnd {
	if r.Interpreter == nil || r.frames == nil || r.frames.Spec().Chain == nil {
		return language.ChainNone
	}
	return chain.Walk(r.frames.Spec().Chain, chain.Thread{Pointer: threadPointer, ID: tid, Bias: r.Bias}, m, use)
}

// JoinedMakers returns the runtimes that may have generated code in no file, joined by "or": "numba". It is "" if none
// is known, or the interpreter itself says what its code is.
func (r *ProcessRuntime) JoinedMakers() string {
	if r.Library.Traits().Generates != "" && len(r.Makers) == 1 {
		return ""
	}
	return strings.Join(r.Makers, " or ")
}

// UnnamedCode returns the number of the placeholder frame for generated code without a known function, or false if such
// code is shown as in any other process. The Interpreter is known.
func (r *ProcessRuntime) UnnamedCode() (unwind.CodeID, bool) {
	own, ok := r.Interpreter.UnnamedCode()
	makers := r.JoinedMakers()
	if makers == "" || ok && r.HasSlots() {
		return own, ok
	}
	if ok && r.Library.Traits().Generates == "" {
		makers = strings.TrimSuffix(strings.Trim(r.unnamed.Frame, "[]"), " code") + " or " + makers
	}
	return r.Text("[code made by " + makers + "]"), true
}

// RunsFunctions reports whether a native frame runs functions of the language.
func (r *ProcessRuntime) RunsFunctions(exe unwind.ExeID, vaddr uint64) bool {
	if exe == r.File {
		runs, _ := r.Library.Evaluation()
		return holds(runs, vaddr)
	}
	return r.Code.Evaluates(exe, vaddr)
}

// Enters reports whether a leaf frame at vaddr may not have pushed its own frames yet, or may have popped them already.
// known is false if the library does not list such addresses.
func (r *ProcessRuntime) Enters(vaddr uint64) (enters, known bool) {
	_, entering := r.Library.Evaluation()
	return holds(entering, vaddr), len(entering) > 0
}

// Switches returns how the code of the file with a path switches the chain of a thread.
func (r *ProcessRuntime) Switches(path string) language.Switch {
	if switches := r.Library.Traits().Switches; switches != nil {
		return switches(path)
	}
	return language.NoSwitch
}

func holds(ranges []language.Range, vaddr uint64) bool {
	return slices.ContainsFunc(ranges, func(r language.Range) bool { return r.Holds(vaddr) })
}

// Is reports whether a sample of the process may have frames of the interpreter of: it is the process's interpreter or,
// while that is unknown, an interpreter of the same library.
func (r *ProcessRuntime) Is(of *Interpreter) bool {
	return r.Interpreter == of || r.Interpreter == nil && of.library == r.Library
}

// Rests reports whether functions of the process are not looked up for some time. Either the process has needed too
// many reads for minutes, or its code objects keep changing, as in processes that overwrite the memory of functions.
// The Interpreter is known.
func (r *ProcessRuntime) Rests() bool {
	now := time.Now()
	return r.Lookups.doubt.rests(now) || r.engine.reads.mustRest(r.PID, now)
}

// Judge suspends lookups of the process's functions if its samples, whose frames are of the interpreter by, keep
// showing wrong code objects.
func (r *ProcessRuntime) Judge(by *Interpreter) {
	if rest := r.Lookups.doubt.judge(by.functions.takeNews(r.PID), time.Now()); rest > 0 {
		by.engine.Failed(limit.Hit(limit.Functions, spoilt(r.PID, rest)))
	}
}

// NotRead returns the number of the frame that stands for functions that are not looked up.
func (r *ProcessRuntime) NotRead() unwind.CodeID {
	return r.Text(strings.TrimSuffix(r.Name(), "]") + " code, not read]")
}

// Kept reports whether all code objects that were read from the process so far, with the interpreter by of a sample,
// already existed at an earlier time: none has been removed since.
func (r *ProcessRuntime) Kept(by *Interpreter, when time.Time) bool {
	frames, unloads, bias := by.frames, &r.Lookups.unloads, r.Bias
	if !unloads.areCounted() {
		return false
	}
	memory := by.engine.reads.memory(r.PID)
	kept := false
	done := by.engine.readWithin(memory, "unloaded code", func() bool {
		kept = unloads.readCount(frames, memory, bias, when)
		return true
	})
	return done && kept
}
