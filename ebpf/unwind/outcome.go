package unwind

// Outcome says how the walk of one user stack ended. Every sample has exactly one.
// The numbers are shared with the BPF program, see enum outcome in bpf/abi.h.
type Outcome uint8

// The outcomes of a walk.
const (
	Unset           Outcome = iota // the walk goes on
	Complete                       // the outermost frame: CFI says that it has no return address
	CompleteFP                     // the outermost frame: frame pointer or return address is zero where the stack ends
	NoMapping                      // the address is in no known executable mapping
	ProcessUnknown                 // no mappings of the process are known yet
	PageMissing                    // the page of rows for the address is not resident
	NoRow                          // no row for the address, and the frame pointer leads to no frame
	UnsupportedRule                // the row's rule cannot be executed; see Reason
	UnreadableStack                // a stack slot could not be read
	NoProgress                     // the caller's frame is not above the callee's
	DepthLimit                     // more frames than a sample holds
	Task32Bit                      // a 32-bit task on a 64-bit kernel
	KernelThread                   // a task without a user part
	NoUserRegisters                // the task's user registers were not found: a kernel worker, or a task inside execve
	NotCollected                   // user stacks are switched off
	NoCall                         // no call precedes what a rule by analysis takes for the return address

	NumOutcomes = iota // how many there are
)

// RecordsLost is an outcome that user space sets in place of ProcessUnknown or NoMapping:
// the kernel had no room for the records of the process or mapping, or they were read when
// the process had already ended.
const RecordsLost = Outcome(NumOutcomes)

// Moved is an outcome that user space sets where a thread ran while its stack was read from memory, see package offcpu.
// No frame of it is kept.
const Moved = RecordsLost + 1

// Guessed is an outcome that user space sets in place of Complete or CompleteFP: the stack ends where it may, but some
// caller was found by the frame pointer alone, from code that may not keep one. Callers may be missing.
const Guessed = Moved + 1

// Replaced is an outcome that user space sets where the kernel walked by the mappings of a program or file that another
// one had replaced by then. No frame of it is kept.
const Replaced = Guessed + 1

// Switched is an outcome that user space sets where the stack goes on elsewhere, and it is not known where: the thread
// was about to go over to another stack, or its callers are frozen in the heap of its runtime.
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

// HasUserPart reports whether a sample should have user frames.
func (o Outcome) HasUserPart() bool {
	return o != KernelThread && o != NotCollected && o != NoUserRegisters
}
