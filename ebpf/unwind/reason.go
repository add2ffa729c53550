package unwind

// Reason is the reason why a DWARF row has no translation into a Row. It is the CFAOff of a row of
// kind CFAUnsupported.
type Reason uint8

// The reasons.
const (
	ReasonNone          Reason = iota // translated
	ReasonBadEntry                    // the FDE or its CIE is unreadable
	ReasonBadProgram                  // the call frame instructions are invalid from here on
	ReasonCFAMissing                  // no rule for the CFA
	ReasonCFARegister                 // the CFA is based on a register that is not tracked
	ReasonCFAExpression               // the CFA is an expression of unknown form
	ReasonFPRule                      // the frame pointer's rule has an unknown form
	ReasonRAMissing                   // no rule for the return address
	ReasonRARule                      // the return address's rule has an unknown form
	ReasonSPRule                      // the caller's stack pointer is not the CFA
	ReasonSignalFrame                 // a signal frame of unknown layout
	ReasonOffsetRange                 // an offset beyond 32 bits
	ReasonBadIndex                    // .eh_frame_hdr is unreadable

	NumReasons = iota // number of reasons
)

// String returns the name of r in snake_case.
func (r Reason) String() string {
	switch r {
	case ReasonNone:
		return "none"
	case ReasonBadEntry:
		return "bad_entry"
	case ReasonBadProgram:
		return "bad_program"
	case ReasonCFAMissing:
		return "cfa_missing"
	case ReasonCFARegister:
		return "cfa_register"
	case ReasonCFAExpression:
		return "cfa_expression"
	case ReasonFPRule:
		return "fp_rule"
	case ReasonRAMissing:
		return "ra_missing"
	case ReasonRARule:
		return "ra_rule"
	case ReasonSPRule:
		return "sp_rule"
	case ReasonSignalFrame:
		return "signal_frame"
	case ReasonOffsetRange:
		return "offset_range"
	case ReasonBadIndex:
		return "bad_index"
	}
	return "unknown"
}
