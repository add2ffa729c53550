package unwind

import "debug/elf"

// Space finds the rules for addresses of a process.
type Space interface {
	// Rule returns the rule for the address addr of the process. The outcome is Unset, or the
	// reason why there is no rule.
	Rule(addr uint64) (WideRule, Outcome)
}

// Walk walks from the frame of regs to the root of the stack, at most max frames. It calls yield
// with the registers of every frame, including the first frame and frames without a rule. The
// registers are valid only during the call, and yield must not change them. At the end regs are the
// registers of the frame where the walk ended.
func Walk(machine elf.Machine, space Space, regs *Regs, mem Memory, max int, yield func(*Regs)) Outcome {
	for range max {
		rule, o := space.Rule(regs.Lookup())
		if o == Unset && rule.CFA == CFASignal {
			regs.Exact = true // a signal trampoline, which is not called
		}
		yield(regs)
		if o != Unset {
			return o
		}
		if o := Step(machine, rule, regs, mem); o != Unset {
			return o
		}
	}
	return DepthLimit
}
