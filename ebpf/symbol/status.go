package symbol

import (
	"errors"
	"fmt"
	"strings"

	"github.com/headwater/headwater/ebpf/object/debugfile"
)

// Reason is why addresses of an object may have no name.
type Reason uint8

// The reasons, worst last.
const (
	Named         Reason = iota // there is a full symbol table
	DebugMissing                // only exported functions have names: no .symtab, and no separate debug file was found
	NoSymbols                   // neither symbols nor a debug file
	Unreadable                  // the file could not be opened or is not an ELF image
	KernelHidden                // kernel.kptr_restrict hides the kernel's addresses
	reasonsNumber = iota
)

// String returns the reason in snake_case, for labels and debug info.
func (r Reason) String() string {
	names := [reasonsNumber]string{"named", "debug_file_missing", "no_symbols", "unreadable", "kernel_addresses_hidden"}
	if int(r) < len(names) {
		return names[r]
	}
	return fmt.Sprintf("reason_%d", uint8(r))
}

// Status is the result of reading the symbols of an object, or of the kernel.
type Status struct {
	Reason    Reason
	DebugFile string // the separate debug file in use, "" if none
	Symbols   int    // ranges of addresses with a name
	Bytes     int    // memory of the table
	Err       error  // the errors; some of the symbols may still be available
	// the missing or damaged parts of the DWARF data, found on use: functions lack inlined callers or lines
	DebugInfo error
	Fetch     error // result of asking the Fetcher for the debug file; nil if it was not asked

	missing *debugfile.Wanted // the debug file to search again
	own     bool              // the names come from a debug file that is only for this object, see debugfile.Found
}

// explain returns a sentence with the reason why functions have no names and the way to get them, or "" if all is well.
// dir is the directory for debug files.
func (s Status) explain(dir, pkg string) string {
	var b strings.Builder
	switch s.Reason {
	case Named:
		if s.DebugInfo == nil {
			return ""
		}
		b.WriteString("the debug info is incomplete")
	case DebugMissing:
		b.WriteString("only exported functions have names")
	case NoSymbols:
		b.WriteString("the file has no symbols")
	default:
		if s.Err == nil {
			return s.Reason.String()
		}
		return s.Err.Error()
	}
	if s.missing != nil && len(s.missing.BuildID) > 2 {
		id := s.missing.BuildID
		fmt.Fprintf(&b, "; the debug file of build ID %s is missing at %s", id,
			debugfile.PathByBuildID(dir, id))
	}
	if pkg != "" {
		fmt.Fprintf(&b, ", install %s", pkg)
	}
	if s.Fetch != nil {
		fmt.Fprintf(&b, "; %v", s.Fetch)
	}
	for _, err := range []error{s.Err, s.DebugInfo} {
		if err != nil {
			fmt.Fprintf(&b, "; %v", err)
		}
	}
	return b.String()
}

// ErrKernelHidden reports that the kernel shows its symbols without addresses.
var ErrKernelHidden = errors.New("kernel addresses are hidden: CAP_SYSLOG is missing or kernel.kptr_restrict is 2")
