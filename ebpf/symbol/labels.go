package symbol

import (
	"github.com/headwater/headwater/ebpf/codeflow"
	"github.com/headwater/headwater/ebpf/elffile"
)

// labels says how far functions without a size reach, which assembly leaves. The next symbol does not say that: the
// functions in between may have lost theirs, by strip, by the linker, or by the assembler.
type labels struct {
	starts *starts       // of the object; nil: it has no call frame information
	object *elffile.File // whose code it is
}

// shortLabel is how far a function without a size reaches in code of a machine that is not known.
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
	// What the code leads to, such as by a jump to another function, may have call frame information.
	return at < end && !l.starts.between(label, at)
}
