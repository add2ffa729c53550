package unwind

import "sort"

// MaxRows is how many rows a page may have, so that their number fits 16 bits.
const MaxRows = 1<<16 - 1

// Page is the rules of one aligned range of text.
type Page struct {
	Number      uint64         // the page covers [Number<<Shift, (Number+1)<<Shift)
	Shift       uint8          // MinPageShift to MaxPageShift
	Rows        []Row          // ascending by Off without equals; the first is for the page's first byte; at most MaxRows; none if all is a gap
	Wide        []WideRule     // the rules that rows of kind CFAWide refer to
	FromCode    int            // bytes of text whose rule comes from the code, for want of call frame information
	Unsupported map[Reason]int // bytes of text without a rule that can be executed; nil if none
}

// Words returns the page as the BPF program reads it: a word for each row,
// then two for each wide rule.
func (p *Page) Words() []uint64 { return p.AppendWords(make([]uint64, 0, p.Len())) }

// Len returns the number of words of the page.
func (p *Page) Len() int { return len(p.Rows) + 2*len(p.Wide) }

// AppendWords appends the words of the page.
func (p *Page) AppendWords(words []uint64) []uint64 {
	for _, r := range p.Rows {
		words = append(words, r.word())
	}
	for _, w := range p.Wide {
		pair := w.words()
		words = append(words, pair[0], pair[1])
	}
	return words
}

// Find returns the row in force at the ELF virtual address vaddr, which must
// be in the page.
func (p *Page) Find(vaddr uint64) Row {
	off := uint16(vaddr)
	i := sort.Search(len(p.Rows), func(i int) bool { return p.Rows[i].Off > off })
	if i == 0 {
		return Row{}
	}
	return p.Rows[i-1]
}

// Rule returns the rule in force at the ELF virtual address vaddr, which must
// be in the page.
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

// RuleIn returns the rule in force at the ELF virtual address vaddr by the words of
// the page that holds it, of which so many are rows; see Words.
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

// Start returns the first ELF virtual address that the page covers.
func (p *Page) Start() uint64 { return p.Number << p.Shift }

// Address returns the first ELF virtual address that r, a row of p, is in force for.
func (p *Page) Address(r Row) uint64 { return p.Start()&^(maxPageSize-1) | uint64(r.Off) }

// count fills in Unsupported; the page covers size bytes, and Off counts from the first.
func (p *Page) count(size int) {
	for i, r := range p.Rows {
		if r.CFA != CFAUnsupported {
			continue
		}
		end := size
		if i+1 < len(p.Rows) {
			end = int(p.Rows[i+1].Off)
		}
		if p.Unsupported == nil {
			p.Unsupported = make(map[Reason]int)
		}
		p.Unsupported[r.Reason()] += end - int(r.Off)
	}
}
