package unwind

import "slices"

// Change is the rule from an address on, up to the next change.
type Change struct {
	Vaddr uint64
	Rule  WideRule
}

// PageOf makes page n, where pages cover 1<<shift bytes each, for code that a language runtime
// makes at run time. changes are in ascending order. The first one is at the page's first byte or
// before it; changes after the page are ignored.
func PageOf(n uint64, shift uint8, changes []Change) *Page {
	p := &Page{Number: n, Shift: shift}
	start, end := p.Start(), p.Start()+1<<shift
	var wide WideRules
	for i, c := range changes {
		if c.Vaddr >= end || i+1 < len(changes) && changes[i+1].Vaddr <= start {
			continue
		}
		row := wide.Row(c.Rule)
		row.Off = uint16(max(c.Vaddr, start))
		if last := len(p.Rows) - 1; last >= 0 && p.Rows[last].Off == row.Off {
			p.Rows = p.Rows[:last]
		}
		p.Rows = AppendRow(p.Rows, row)
	}
	p.Rows, p.Wide = slices.Clip(BoundRows(p.Rows)), wide.Rules
	return p
}
