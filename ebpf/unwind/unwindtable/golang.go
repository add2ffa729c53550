package unwindtable

import (
	"github.com/headwater/headwater/ebpf/unwind"
	"github.com/headwater/headwater/ebpf/unwind/ehframe"
)

// goFrame completes the rules of one FDE from Go's linker. Such an FDE has rules for the CFA and
// the return address, but never for the frame pointer, although functions with a frame save it.
// Without the missing rule, a walk that leaves Go's frames would continue with a stale frame
// pointer.
//
// If the code saves the frame pointer in the compiler's way, the rule is known and holds for the
// rest of the function (cmd/internal/obj/x86 in Go's sources). Otherwise the frame pointer is
// undefined as soon as the stack pointer has moved. Examples are assembly with its own pushes and
// pops, and arm64.
type goFrame struct {
	*frames
	saved bool // *(CFA - 16) is the caller's frame pointer
}

// addRow adds the rule of row.
func (g *goFrame) addRow(row *ehframe.Row) {
	w, reason := g.table.translate(row, false)
	if reason != unwind.ReasonNone || !g.silent(row, w) {
		g.putRule(row.Start, row.End, w, reason)
		return
	}
	from := row.Start // the frame pointer is saved from here on
	if !g.saved {
		var after uint64
		if after, g.saved = g.saves(row); after > 0 {
			from = min(from+after, row.End)
			g.putRule(row.Start, from, w, unwind.ReasonNone) // not changed yet
		}
	}
	if g.saved {
		w.Rules, w.FPOff = unwind.Rules(unwind.FPAtCFA, w.RA()), goSaved
	} else {
		w.Rules = unwind.Rules(unwind.FPUndefined, w.RA())
	}
	g.putRule(from, row.End, w, unwind.ReasonNone)
}

func (g *goFrame) putRule(start, end uint64, w unwind.WideRule, reason unwind.Reason) {
	if start < end && end > g.span.lo {
		g.addAt(start, g.span.rowOf(w, reason))
	}
}

// silent reports whether row describes a frame relative to the stack pointer, without a rule for
// the frame pointer.
func (g *goFrame) silent(row *ehframe.Row, w unwind.WideRule) bool {
	m := g.table.machine
	return w.CFA == unwind.CFASP && w.RA() != unwind.RAUndefined && row.Rule(m.fp).Kind == ehframe.Unspecified &&
		int64(w.CFAOff) != m.leaf
}

// saves reports whether the frame pointer is saved, by the first instruction of row or the
// instruction before it. after is the offset where the save is complete, in bytes from the start of
// row.
func (g *goFrame) saves(row *ehframe.Row) (after uint64, ok bool) {
	if g.table.machine != &x86ABI {
		return 0, false
	}
	after, _, ok = goX86{}.saves(g.code, row.Start, row.CFA.Offset-g.table.machine.leaf)
	if !ok {
		after = 0
	}
	return after, ok
}
