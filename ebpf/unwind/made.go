package unwind

import "slices"

// Change says which rule is in force from an address on.
type Change struct {
	Vaddr uint64
	Rule  WideRule
}

// PageOf makes page n, of those that cover 1<<shift bytes each, of rules for code that
// has no call frame information: code that a program makes while it runs. Changes
// ascend; the first one is at the page's first byte or before, and those behind the
// page do not count.
func PageOf(n uint64, shift uint8, changes []Change) *Page {
	p := &Page{Number: n, Shift: shift}
	start, end := p.Start(), p.Start()+1<<shift
	number := map[WideRule]int{}
	for i, c := range changes {
		if c.Vaddr >= end || i+1 < len(changes) && changes[i+1].Vaddr <= start {
			continue
		}
		row, ok := c.Rule.narrow()
		if !ok {
			at, known := number[c.Rule]
			if !known {
				at = len(p.Wide)
				number[c.Rule] = at
				p.Wide = append(p.Wide, c.Rule)
			}
			row = Row{CFA: CFAWide, CFAOff: int16(uint16(at))}
		}
		row.Off = uint16(max(c.Vaddr, start))
		if last := len(p.Rows) - 1; last >= 0 && p.Rows[last].Off == row.Off {
			p.Rows = p.Rows[:last]
		}
		p.Rows = push(p.Rows, row)
	}
	p.Rows = slices.Clip(bounded(p.Rows))
	return p
}
