package unwind

import (
	"debug/elf"
	"maps"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// TestStepGoroutine steps from a thread's own stack to the goroutine's saved registers, in memory
// made by hand.
func TestStepGoroutine(t *testing.T) {
	const thread, own, m, goroutine, stack = 0x1000, 0x2000, 0x3000, 0x4000, 0x5000
	memory := words{
		thread - 8: own, own + 48: m,
		m: own, m + 192: goroutine,
		goroutine + 48: m, goroutine + 56: stack, goroutine + 64: 0x7777, goroutine + 96: 0x8888, goroutine + 104: 0x5100,
		stack - 8: 0x5200, stack: 0x6666,
	}
	with := func(changed words) words {
		all := maps.Clone(memory)
		maps.Copy(all, changed)
		return all
	}
	rule := WideRule{CFA: CFAGoroutine, Reg: 6, Reg2: 7, CFAOff: -8, FPOff: 192, RAOff: 104}
	kept := rule
	kept.Rules = Rules(FPSame, RAReg)
	leaf := Regs{PC: 0x100, SP: 0x200, FP: 0x300, Thread: thread}
	for name, c := range map[string]struct {
		machine elf.Machine
		rule    WideRule
		mem     words
		thread  uint64
		spent   bool
		want    Regs
		outcome Outcome
	}{
		"pc is kept":         {x86, kept, memory, thread, false, Regs{PC: 0x7777, SP: stack, FP: 0x5100}, Unset},
		"pc is on the stack": {x86, rule, memory, thread, false, Regs{PC: 0x6666, SP: stack + 8, FP: 0x5100}, Unset},
		"arm64, pc is kept": {arm, kept, memory, own, false,
			Regs{PC: 0x7777, SP: stack, FP: 0x5100, LR: 0x8888, LRKnown: true}, Unset},
		"arm64, pc is on the stack": {arm, rule, memory, own, false, Regs{PC: 0x6666, SP: stack + 16, FP: 0x5200}, Unset},
		// A signal interrupts a thread on its stack, and Go's handler has its own descriptor.
		"in a signal handler": {x86, kept, with(words{thread - 8: 0x9000, 0x9000 + 48: m}), thread, false,
			Regs{PC: 0x7777, SP: stack, FP: 0x5100}, Unset},
		"no goroutine":               {x86, kept, with(words{m + 192: 0, own + 48: m}), thread, false, leaf, Complete},
		"no goroutine, but a caller": {x86, rule, with(words{m + 192: 0}), thread, false, leaf, UnsupportedRule},
		"the scheduler has run":      {x86, kept, memory, thread, true, leaf, Complete},
		"of an earlier leaving":      {x86, rule, memory, thread, true, leaf, UnsupportedRule},
		"another thread's goroutine": {x86, kept, with(words{goroutine + 48: 0x9000}), thread, false, leaf,
			UnsupportedRule},
		"no goroutine, no thread": {x86, kept, with(words{m + 192: 0, m: 0x9000, 0x9000 + 48: 0}), thread, false, leaf,
			UnsupportedRule},
		"the goroutine runs by now": {x86, kept, with(words{goroutine + 56: 0}), thread, false, leaf,
			UnsupportedRule},
		"a stack pointer that is none": {x86, kept, with(words{goroutine + 56: stack + 1}), thread, false, leaf,
			UnsupportedRule},
		"the thread is not known":       {x86, kept, memory, 0, false, leaf, UnreadableStack},
		"arm64, the thread's is zero":   {arm, kept, memory, 0, false, leaf, UnreadableStack},
		"the descriptor cannot be read": {x86, kept, with(words{thread - 8: 0xa000}), thread, false, leaf, UnreadableStack},
	} {
		regs, want := leaf, c.want
		if regs.Thread = c.thread; c.spent {
			regs.Switches = noMoreSwitches
		}
		if want.Thread, want.Switches = c.thread, regs.Switches; c.outcome == Unset {
			want.Switches = noMoreSwitches
		}
		if o := Step(c.machine, c.rule, &regs, c.mem); o != c.outcome {
			t.Errorf("%s: %v, want %v", name, o, c.outcome)
		}
		if d := cmp.Diff(want, regs); d != "" {
			t.Errorf("%s (-want +got):\n%s", name, d)
		}
	}
}

// TestStepDetached passes the scheduler: by then the thread runs another goroutine.
func TestStepDetached(t *testing.T) {
	mem := words{0x7008: 0x5555, 0x7100: 0x7200, 0x7108: 0x6666}
	for _, rule := range []WideRule{
		{CFA: CFASP, CFAOff: 16, Rules: Rules(FPSame, RADetached)},
		{CFA: CFAFrame, CFAOff: 16, Rules: Rules(FPSame, RADetached)},
	} {
		regs := Regs{PC: 0x100, SP: 0x7000, FP: 0x7100}
		if o := Step(x86, rule, &regs, mem); o != Unset || regs.Switches != noMoreSwitches {
			t.Errorf("%s: %v, %d switches", rule, o, regs.Switches)
		}
	}
}
