package unwind

// Outcome says how the walk of one user stack ended. Every sample leaves with
// exactly one. The numbers are shared with the BPF program.
type Outcome uint8

// The outcomes of a walk.
const (
	Unset           Outcome = iota // the walk goes on
	Complete                       // reached the outermost frame: CFI says that the return address is undefined
	CompleteFP                     // reached the outermost frame: the chain of frame pointers, or the return address, is zero
	NoMapping                      // the address is in no known executable mapping
	ProcessUnknown                 // nothing is known of the process yet
	PageMissing                    // the rows of the address are not resident
	NoRow                          // no row covers the address and the frame pointer leads nowhere
	UnsupportedRule                // the row states a rule that cannot be executed; see Reason
	UnreadableStack                // a stack slot could not be read
	NoProgress                     // the caller's frame is not above the callee's
	DepthLimit                     // more frames than a sample holds
	Task32Bit                      // a 32-bit task on a 64-bit kernel
	KernelThread                   // a task without a user part
	NoUserRegisters                // the user registers of the task could not be found
	NotCollected                   // user stacks are switched off

	NumOutcomes = iota // how many there are
)

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
	}
	return "unknown"
}

// Complete reports whether the walk reached the root of the stack.
func (o Outcome) Complete() bool { return o == Complete || o == CompleteFP }
