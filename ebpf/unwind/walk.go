package unwind

import "debug/elf"

// Space finds the rules of a process's address space.
type Space interface {
	// Rule returns the rule for the address addr of the process. The
	// outcome is Unset, or says why there is no rule.
	Rule(addr uint64) (WideRule, Outcome)
}

// Walk goes from the frame of regs to the root of the stack, at most max
// frames. It calls yield with the registers of every frame, the first one
// included; they are valid during the call only, and yield must not change
// them. Frames whose address has no rule are passed, too. regs are left at the
// frame where the walk ended.
func Walk(machine elf.Machine, space Space, regs *Regs, mem Memory, max int, yield func(*Regs)) Outcome {
	for range max {
		rule, o := space.Rule(regs.Lookup())
		if o == Unset && rule.CFA == CFASignal {
			regs.Exact = true // the trampoline of a signal: nobody called it
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
