package symbol

import (
	"github.com/headwater/headwater/ebpf/object/elffile"
	"github.com/headwater/headwater/ebpf/unwind/codeflow"
)

// labels finds the end of functions without a size, as in assembly. The next symbol is not the end: functions in
// between may have lost their symbols, by strip, by the linker, or by the assembler.
type labels struct {
	starts *starts       // of the object; nil if it has no call frame information
	object *elffile.File // the file with the code
}

// shortLabel is the assumed length of a function without a size in code of an unknown machine.
const shortLabel = 32

// reaches implements labelReach.
func (l labels) reaches(label, at, limit uint64) bool {
	function, known := l.starts.entry(label)
	if known {
		return at < function.End
	}
	if _, other := l.starts.entry(at); other {
		return false
	}
	end, ok := codeflow.End(l.object, l.object.Machine(), label, limit)
	if !ok {
		end = min(limit, label+shortLabel)
	}
	// The target of the code's last jump, for example another function, may have call frame information.
	return at < end && !l.starts.between(label, at)
}
