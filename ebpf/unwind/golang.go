package unwind

import "github.com/headwater/headwater/ebpf/ehframe"

// goFrame completes the rules of one FDE that Go's linker wrote. It says where
// the CFA and the return address are and never mentions the frame pointer,
// although functions with a frame save it. Without that, a walk that leaves Go's
// frames would go on with a stale frame pointer.
//
// Where the code shows the compiler's way to save it, the rule is known, and it
// holds for the rest of the function: cmd/internal/obj/x86 in Go's sources. Where
// it does not, as in assembly that pushes and pops by itself, or on arm64, the
// frame pointer is undefined as soon as the stack pointer has moved.
type goFrame struct {
	b     *builder
	saved bool // *(CFA - 16) is the caller's frame pointer
}

// add adds the rule of row to the page.
func (g *goFrame) add(row *ehframe.Row) {
	w, reason := g.b.table.translate(row, false)
	if reason != ReasonNone || !g.silent(row, w) {
		g.put(row.Start, row.End, w, reason)
		return
	}
	from := row.Start // where the frame pointer is saved
	if !g.saved {
		var after uint64
		if after, g.saved = g.saves(row); after > 0 {
			from = min(from+after, row.End)
			g.put(row.Start, from, w, ReasonNone) // not yet changed
		}
	}
	if g.saved {
		w.Rules, w.FPOff = rules(FPAtCFA, w.RA()), goSaved
	} else {
		w.Rules = rules(FPUndefined, w.RA())
	}
	g.put(from, row.End, w, ReasonNone)
}

func (g *goFrame) put(start, end uint64, w WideRule, reason Reason) {
	if start < end && end > g.b.lo {
		g.b.add(start, g.b.rule(w, reason))
	}
}

// silent reports whether row is about a frame, by the stack pointer, and does
// not mention the frame pointer.
func (g *goFrame) silent(row *ehframe.Row, w WideRule) bool {
	m := g.b.table.machine
	return w.CFA == CFASP && w.RA() != RAUndefined && row.Rule(m.fp).Kind == ehframe.Unspecified && int64(w.CFAOff) != m.leaf
}

// saves reports whether the frame pointer is saved in the first instruction of
// row, or has been in the one before; after is where that is done, in bytes from
// the beginning of row.
func (g *goFrame) saves(row *ehframe.Row) (after uint64, ok bool) {
	if g.b.table.machine != &x86ABI {
		return 0, false
	}
	after, _, ok = goX86{}.saves(g.b.code, row.Start, row.CFA.Offset-g.b.table.machine.leaf)
	if !ok {
		after = 0
	}
	return after, ok
}
