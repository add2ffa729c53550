package unwind

// Outcome is the end of the walk of one user stack. Every sample has exactly one. The numbers are
// shared with the BPF program, see enum outcome in bpf/abi/rows.h.
type Outcome uint8

// The outcomes of a walk.
const (
	Unset           Outcome = iota // the walk continues
	Complete                       // the outermost frame: CFI says that it has no return address
	CompleteFP                     // the outermost frame: frame pointer or return address is zero at the stack's end
	NoMapping                      // the address is in no known executable mapping
	ProcessUnknown                 // the process has no known mappings yet
	PageMissing                    // the page of rows for the address is not resident
	NoRow                          // no row for the address, and the frame pointer does not lead to a frame
	UnsupportedRule                // the row's rule cannot be executed; see Reason
	UnreadableStack                // a stack slot is unreadable
	NoProgress                     // the caller's frame is not above the callee's
	DepthLimit                     // the stack has more frames than a sample holds
	Task32Bit                      // a 32-bit task on a 64-bit kernel
	KernelThread                   // a task without a user part
	NoUserRegisters                // the task's user registers were not found: a kernel worker, or a task inside execve
	NotCollected                   // user stacks are switched off
	NoCall                         // no call precedes the return address that a rule by analysis found

	NumOutcomes = iota // number of outcomes
)

// RecordsLost is an outcome that user space sets instead of ProcessUnknown or NoMapping: the kernel
// had no room for the records of the process or mapping, or user space read them after the process
// had ended.
const RecordsLost = Outcome(NumOutcomes)

// Moved is an outcome that user space sets if a thread ran while its stack was read from memory, or was queued for a
// CPU and no look has found it there, see package offcpu. No frames are kept.
const Moved = RecordsLost + 1

// Guessed is an outcome that user space sets instead of Complete or CompleteFP: the stack ends at a
// plausible place, but a caller was found only by the frame pointer, from code that may not keep
// one. Callers may be missing.
const Guessed = Moved + 1

// Replaced is an outcome that user space sets if the kernel walked with the mappings of a program
// or file that had already been replaced. No frames are kept.
const Replaced = Guessed + 1

// Switched is an outcome that user space sets if the stack continues at an unknown place: the
// thread was about to switch to another stack, or its callers are frozen in the heap of its
// runtime.
const Switched = Replaced + 1

// String returns the name of o in snake_case, as used in metric labels.
func (o Outcome) String() string {
	switch o {
	case Unset:
		return "unset"
	case Complete:
		return "complete"
	case CompleteFP:
		return "complete_fp"
	case NoMapping:
		return "no_mapping"
	case ProcessUnknown:
		return "process_unknown"
	case PageMissing:
		return "page_missing"
	case NoRow:
		return "no_row"
	case UnsupportedRule:
		return "unsupported_rule"
	case UnreadableStack:
		return "unreadable_stack"
	case NoProgress:
		return "no_progress"
	case DepthLimit:
		return "depth_limit"
	case Task32Bit:
		return "task_32bit"
	case KernelThread:
		return "kernel_thread"
	case NoUserRegisters:
		return "no_user_registers"
	case NotCollected:
		return "not_collected"
	case NoCall:
		return "no_call"
	case RecordsLost:
		return "records_lost"
	case Moved:
		return "moved"
	case Guessed:
		return "guessed"
	case Replaced:
		return "replaced"
	case Switched:
		return "switched"
	}
	return "unknown"
}

// Explain returns a sentence that explains the outcome to users of profiles.
func (o Outcome) Explain() string {
	switch o {
	case Complete:
		return "The whole stack, down to the outermost frame."
	case CompleteFP:
		return "The whole stack; the last part by frame pointers."
	case NoMapping:
		return "An address outside every executable file, such as JIT code."
	case ProcessUnknown:
		return "The process was not known yet, or has ended."
	case PageMissing:
		return "The unwind rules of this code were not loaded yet."
	case NoRow:
		return "The file has no unwind rule for this code."
	case UnsupportedRule:
		return "The unwinder does not support this kind of unwind rule."
	case UnreadableStack:
		return "The stack could not be read, for example because it was swapped out."
	case NoProgress:
		return "The unwind rule is wrong: it led down the stack."
	case DepthLimit:
		return "The stack is deeper than the limit."
	case Task32Bit:
		return "A 32-bit program, whose stack was not copied."
	case KernelThread:
		return "A thread of the kernel: there is no user stack."
	case NoUserRegisters:
		return "A kernel worker, or a task inside execve, has no registers of a program."
	case NotCollected:
		return "User stacks are turned off."
	case NoCall:
		return "The file has no unwind rule for this code, and no call precedes the return address found."
	case RecordsLost:
		return "The profiler had no CPU for seconds, or the kernel's buffer for records of processes was full."
	case Moved:
		return "The thread ran while its stack was read."
	case Guessed:
		return "Some caller was found only by the frame pointer, in code that may not keep a frame pointer."
	case Replaced:
		return "The unwind rules belonged to a program or library that another one had replaced."
	case Switched:
		return "The thread was switching stacks, or its callers were frozen in a heap."
	}
	return ""
}

// Complete reports whether the walk reached the root of the stack.
func (o Outcome) Complete() bool { return o == Complete || o == CompleteFP }

// NothingMissing reports whether a sample with this outcome has its whole user stack, or should have none.
func (o Outcome) NothingMissing() bool {
	return o.Complete() || !o.HasUserPart() && o != NoUserRegisters
}

// HasUserPart reports whether a sample with this outcome should have user frames.
func (o Outcome) HasUserPart() bool {
	return o != KernelThread && o != NotCollected && o != NoUserRegisters
}
