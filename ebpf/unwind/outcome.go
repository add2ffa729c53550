package unwind

// Outcome is the end of the walk of one user stack. Every sample has exactly one. The numbers are
// shared with the BPF program, see enum outcome in bpf/abi.h.
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

// Complete reports whether the walk reached the root of the stack.
func (o Outcome) Complete() bool { return o == Complete || o == CompleteFP }

// HasUserPart reports whether a sample with this outcome should have user frames.
func (o Outcome) HasUserPart() bool {
	return o != KernelThread && o != NotCollected && o != NoUserRegisters
}
