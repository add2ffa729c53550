package unwind

import "slices"

// Change is the rule from an address on, to the next change.
type Change struct {
	Vaddr uint64
	Rule  WideRule
}

// PageOf makes page n, of those that cover 1<<shift bytes each, of the rules of code that
// a language runtime makes while it runs. Changes ascend; the first one is at the page's
// first byte or before, and those after the page do not count.
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
