package sampler

import (
	"debug/elf"

	"github.com/headwater/headwater/ebpf/kernel"
	"github.com/headwater/headwater/ebpf/process"
	"github.com/headwater/headwater/ebpf/unwind"
	"github.com/headwater/headwater/ebpf/unwind/cfi"
)

// walker walks a stack by complete call frame information, with every register, and by rows where there is none. Rows
// keep only two registers, which is nearly always enough; a few functions need more, such as functions with
// variable-length arrays in a realigned frame, or in handwritten assembly.
type walker struct {
	view   *process.View
	stack  kernel.Stack
	number elf.Machine
	cfi    cfi.Machine
	sp, fp uint16 // DWARF numbers
}

func newWalker(view *process.View, stack kernel.Stack) *walker {
	w := &walker{view: view, stack: stack, number: view.Machine(), sp: 7, fp: 6}
	if w.number == elf.EM_AARCH64 {
		w.sp, w.fp = 31, 29
	}
	w.cfi, _ = cfi.MachineOf(w.number) // both machines are known
	return w
}

// walkFrames walks from a leaf with all registers known to the root, at most max frames. It calls yield as unwind.Walk
// does.
func (w *walker) walkFrames(regs unwind.Regs, max int, yield func(*unwind.Regs)) unwind.Outcome {
	frame := w.frame(&regs)
	for range max {
		call, bias, ok := w.view.CallFrame(regs.Lookup())
		if !ok {
			if o := w.byRow(&regs, yield); o != unwind.Unset {
				return o
			}
			frame = w.frame(&regs)
			continue
		}
		if call.Signal {
			regs.Exact = true // a signal trampoline is not called
		}
		yield(&regs)
		rules := cfi.Rules{Row: call.Row, ReturnRegister: call.ReturnRegister, Signal: call.Signal}
		caller, end, _ := w.cfi.Step(&frame, &rules, bias, w.stack)
		if end == cfi.ZeroReturn && regs.FP != 0 && !w.stack.EndsAt(regs.SP) {
			return unwind.NoRow // a zero in the middle of a stack
		}
		if end != cfi.Unset {
			return outcomeOf(end)
		}
		next := w.registersOf(&caller)
		next.Thread, next.Switches = regs.Thread, regs.Switches
		if !call.Signal && (next.SP < regs.SP || next.SP == regs.SP && !regs.Exact) {
			return unwind.NoProgress
		}
		frame, regs = caller, next
	}
	return unwind.DepthLimit
}

// byRow goes to the caller by the rule for code without call frame information: of a signal trampoline, of Go, or of
// the frame pointer.
func (w *walker) byRow(regs *unwind.Regs, yield func(*unwind.Regs)) unwind.Outcome {
	rule, o := w.view.Rule(regs.Lookup())
	if o == unwind.Unset && rule.CFA == unwind.CFASignal {
		regs.Exact = true
	}
	yield(regs)
	if o != unwind.Unset {
		return o
	}
	return unwind.Step(w.number, rule, regs, codeAndStack{w.view, w.stack})
}

// frame returns registers in the form of package cfi.
func (w *walker) frame(r *unwind.Regs) cfi.Frame {
	f := cfi.Frame{PC: r.PC, Exact: r.Exact}
	if r.Full {
		for number, v := range r.General {
			f.Regs.Set(uint16(number), v)
		}
	}
	if r.LRKnown {
		f.Regs.Set(30, r.LR)
	}
	f.Regs.Set(w.sp, r.SP)
	f.Regs.Set(w.fp, r.FP)
	return f
}

// registersOf returns registers in the form of package unwind.
func (w *walker) registersOf(f *cfi.Frame) unwind.Regs {
	r := unwind.Regs{PC: f.PC, Exact: f.Exact}
	r.SP, _ = f.Regs.Get(w.sp)
	r.FP, _ = f.Regs.Get(w.fp)
	if w.number == elf.EM_AARCH64 {
		r.LR, r.LRKnown = f.Regs.Get(30)
		return r
	}
	r.Full = true
	for number := range r.General {
		v, ok := f.Regs.Get(uint16(number))
		r.General[number], r.Full = v, r.Full && ok
	}
	return r
}

func outcomeOf(e cfi.End) unwind.Outcome {
	switch e {
	case cfi.Outermost:
		return unwind.Complete
	case cfi.ZeroReturn:
		return unwind.CompleteFP
	case cfi.Unreadable:
		return unwind.UnreadableStack
	case cfi.NoProgress:
		return unwind.NoProgress
	}
	return unwind.UnsupportedRule
}
