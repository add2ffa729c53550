package unwind

import "sort"

// MaxRows is the maximum number of rows of a page, so that the number fits 16 bits.
const MaxRows = 1<<16 - 1

// Page holds the rules of one aligned range of text.
type Page struct {
	Number uint64 // the page covers [Number<<Shift, (Number+1)<<Shift)
	Shift  uint8  // MinPageShift to MaxPageShift
	// Rows are sorted by Off without duplicates, and start at the page's first byte. There are at
	// most MaxRows, and none if the whole page is a gap.
	Rows        []Row
	Wide        []WideRule     // referred to by rows of kind CFAWide
	ByAnalysis  int            // bytes of text with a rule from code analysis, without CFI
	Gaps        int            // bytes of code without CFI, except padding; not for Go programs
	Unsupported map[Reason]int // bytes of text whose rule cannot be executed; nil if none
	Beyond      error          // a *limit.Error if a reader stopped at a limit, so that rows are missing; else nil
}

// Words returns the page in the BPF program's format: one word for each row, then two words for
// each wide rule.
func (p *Page) Words() []uint64 { return p.AppendWords(make([]uint64, 0, p.Len())) }

// Len returns the number of words of the page.
func (p *Page) Len() int { return len(p.Rows) + 2*len(p.Wide) }

// AppendWords appends the words of the page.
func (p *Page) AppendWords(words []uint64) []uint64 {
	for _, r := range p.Rows {
		words = append(words, r.packWord())
	}
	for _, w := range p.Wide {
		pair := w.words()
		words = append(words, pair[0], pair[1])
	}
	return words
}

// Find returns the row for the ELF virtual address vaddr, which must be in the page.
func (p *Page) Find(vaddr uint64) Row {
	off := uint16(vaddr)
	i := sort.Search(len(p.Rows), func(i int) bool { return p.Rows[i].Off > off })
	if i == 0 {
		return Row{}
	}
	return p.Rows[i-1]
}

// Rule returns the rule for the ELF virtual address vaddr, which must be in the page.
func (p *Page) Rule(vaddr uint64) WideRule { return p.Widen(p.Find(vaddr)) }

// Widen returns the rule of a row of p.
func (p *Page) Widen(r Row) WideRule {
	if r.CFA != CFAWide {
		return r.widen()
	}
	if i := int(uint16(r.CFAOff)); i < len(p.Wide) {
		return p.Wide[i]
	}
	return WideRule{CFA: CFAUnsupported}
}

// RuleIn returns the rule for the ELF virtual address vaddr, from the words of the page that
// contains it. The first words are the rows; see Words.
func RuleIn(words []uint64, rows int, vaddr uint64) WideRule {
	off := uint16(vaddr)
	i := sort.Search(rows, func(i int) bool { return rowOf(words[i]).Off > off })
	if i == 0 {
		return WideRule{}
	}
	r := rowOf(words[i-1])
	if r.CFA != CFAWide {
		return r.widen()
	}
	if at := rows + 2*int(uint16(r.CFAOff)); at+1 < len(words) {
		return wideOf(words[at], words[at+1])
	}
	return WideRule{CFA: CFAUnsupported}
}

// Start returns the first ELF virtual address of the page.
func (p *Page) Start() uint64 { return p.Number << p.Shift }

// Address returns the first ELF virtual address of r, a row of p.
func (p *Page) Address(r Row) uint64 { return p.Start()&^(MaxPageSize-1) | uint64(r.Off) }

// WideRules collects the wide rules of a page that is being built, without duplicates. The zero
// value is ready to use.
type WideRules struct {
	Rules  []WideRule
	number map[WideRule]int // index in Rules
}

// Reset empties w for another page, and reuses its memory.
func (w *WideRules) Reset() {
	w.Rules = w.Rules[:0]
	clear(w.number)
}

// Row returns a row for a rule, without an Off. If the rule does not fit a row, it becomes a wide
// rule.
func (w *WideRules) Row(rule WideRule) Row {
	if r, ok := rule.narrow(); ok {
		return r
	}
	i, ok := w.number[rule]
	if !ok {
		if w.number == nil {
			w.number = make(map[WideRule]int)
		}
		i = len(w.Rules)
		w.Rules = append(w.Rules, rule)
		w.number[rule] = i
	}
	return Row{CFA: CFAWide, CFAOff: int16(uint16(i))}
}

// AppendRow appends row unless the last row has the same rule.
func AppendRow(rows []Row, row Row) []Row {
	if len(rows) > 0 && rows[len(rows)-1].SameRule(row) {
		return rows
	}
	return append(rows, row)
}

// BoundRows returns at most MaxRows rows. If there are more, an unsupported row replaces the last
// row and all following ones.
func BoundRows(rows []Row) []Row {
	if len(rows) <= MaxRows {
		return rows
	}
	last := Unsupported(ReasonBadProgram)
	last.Off = rows[MaxRows-1].Off
	rows[MaxRows-1] = last
	return rows[:MaxRows]
}
