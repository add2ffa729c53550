package unwindtable

import (
	"iter"

	"github.com/headwater/headwater/ebpf/object/elffile"
	"github.com/headwater/headwater/ebpf/unwind"
)

// Range is one rule and the text that it applies to.
type Range struct {
	Start, End uint64 // ELF virtual addresses
	Rule       unwind.WideRule
}

// Pages yields the pages of rows of a segment, with 1<<shift bytes of text each. It ends at the
// first error, which is a read error.
func (t *Table) Pages(s elffile.Segment, shift uint8) iter.Seq2[*unwind.Page, error] {
	return t.pages(s, shift, nil)
}

// pages is Pages. It sets counts, if not nil, for each page.
func (t *Table) pages(s elffile.Segment, shift uint8, counts *sourceBytes) iter.Seq2[*unwind.Page, error] {
	return func(yield func(*unwind.Page, error) bool) {
		end := s.Vaddr + s.Memsz
		if s.Memsz == 0 || end < s.Vaddr {
			return
		}
		for n := s.Vaddr >> shift; n <= (end-1)>>shift; n++ {
			p, err := t.buildPage(n, shift, counts)
			if !yield(p, err) || err != nil {
				return
			}
		}
	}
}

// Ranges yields the rules of a segment in ascending order, including gaps, from pages of 1<<shift
// bytes. It merges neighbouring ranges with equal rules. It ends at the first error, which is a
// read error.
func (t *Table) Ranges(s elffile.Segment, shift uint8) iter.Seq2[Range, error] {
	return func(yield func(Range, error) bool) {
		last := Range{Start: s.Vaddr, End: s.Vaddr}
		for page, err := range t.Pages(s, shift) {
			if err != nil {
				yield(Range{}, err)
				return
			}
			for _, r := range rangesOf(page) {
				r.Start, r.End = max(r.Start, s.Vaddr), min(r.End, s.Vaddr+s.Memsz)
				switch {
				case r.Start >= r.End:
					continue
				case r.Rule == last.Rule && last.Start < last.End:
					last.End = r.End
					continue
				case last.Start < last.End && !yield(last, nil):
					return
				}
				last = r
			}
		}
		if last.Start < last.End {
			yield(last, nil)
		}
	}
}

// rangesOf returns the rules of p, including gaps.
func rangesOf(p *unwind.Page) []Range {
	ranges := make([]Range, 0, len(p.Rows)+1)
	for _, r := range p.Rows {
		ranges = append(ranges, Range{Start: p.Address(r), Rule: p.Widen(r)})
	}
	if len(ranges) == 0 {
		ranges = append(ranges, Range{Start: p.Start()})
	}
	for i := range ranges[1:] {
		ranges[i].End = ranges[i+1].Start
	}
	ranges[len(ranges)-1].End = p.Start() + 1<<p.Shift
	return ranges
}
