package unwindtable

import (
	"slices"

	"github.com/headwater/headwater/ebpf/unwind"
)

// builder makes pages: it merges what the sources of rows say. It is reused for the sake
// of its buffers.
type builder struct {
	*span
	table   *Table
	first   source    // nil: none
	second  source    // for the gaps of the first; nil: none
	go386   *goTable  // nil: no 32-bit Go program
	frames  []*frames // those of the sources that are sections of FDEs
	code    *code
	heights heights
	merged  []unwind.Row  // of both
	gap     [1]unwind.Row // what a missing source says
}

func newBuilder(t *Table) *builder {
	b := &builder{span: new(span), table: t, code: newCode(t.sections), go386: newGo386(t)}
	b.heights.b = b
	if f := newEHFrame(t, b.code); f != nil {
		b.first, b.frames = f, append(b.frames, f)
	}
	if s := t.sections.Functions; s != nil && t.golang != nil {
		b.second = &goTable{table: t, code: b.code, reader: s.NewReader()}
		return b // .debug_frame is about the same functions and says less
	}
	if f := newDebugFrame(t, b.code); f != nil {
		b.second, b.frames = f, append(b.frames, f)
	}
	return b
}

// build makes the page of size bytes of text, at most 64 KiB, from lo on.
func (b *builder) build(lo uint64, size int) (*unwind.Page, error) {
	b.span.begin(lo, size)
	first, err := b.rowsOf(b.first)
	if err != nil {
		return nil, err
	}
	second, err := b.rowsOf(b.second)
	if err != nil {
		return nil, err
	}
	if b.code.wanted(first) {
		second = b.markKnownCode(second)
	}
	if len(second) > 1 && len(first) > 1 {
		b.merged = slices.Grow(b.merged[:0], len(first)+len(second))
	}
	rows, err := b.heights.fill(b.markEntry(fillGaps(b.merged, first, second, size)))
	if err != nil {
		return nil, err
	}
	if len(rows) == 1 && rows[0].CFA == unwind.CFANone {
		return &unwind.Page{Beyond: b.beyond}, nil
	}
	p := &unwind.Page{
		Rows: slices.Clone(unwind.BoundRows(rows)), Wide: slices.Clone(b.wide.Rules), ByAnalysis: b.heights.bytes,
		Beyond: b.beyond,
	}
	countUnsupported(p, size)
	for i := range p.Rows {
		p.Rows[i].Off += uint16(lo) // was counted from the first byte
	}
	return p, nil
}

// rowsOf returns what a source says of the span; without one it is a gap.
func (b *builder) rowsOf(s source) ([]unwind.Row, error) {
	if s == nil {
		b.gap[0] = unwind.Row{}
		return b.gap[:], nil
	}
	return s.Rows(b.span)
}

// entryBytes is how much code after the entry point is taken for part of it, up
// to the next function and the end of the page: the dynamic loader's calls the
// constructors, 61 bytes on x86-64.
const entryBytes = 128

// markEntry returns rows with one for the entry point, if CFI says nothing about
// it. It was not called, so its frame is the outermost one.
func (b *builder) markEntry(rows []unwind.Row) []unwind.Row {
	entry := b.table.sections.Entry
	if entry == 0 || entry < b.lo || entry >= b.hi {
		return rows
	}
	start := int(entry - b.lo)
	at := find(rows, start)
	if rows[at].CFA != unwind.CFANone {
		return rows
	}
	end := b.size
	if at+1 < len(rows) {
		end = int(rows[at+1].Off)
	}
	outermost := unwind.Row{CFA: unwind.CFASP, CFAOff: 8, Rules: unwind.Rules(unwind.FPSame, unwind.RAUndefined)}
	return put(rows, start, min(start+entryBytes, end), b.size, outermost)
}

// countUnsupported fills in Unsupported of p, which covers size bytes; Off counts from the first.
func countUnsupported(p *unwind.Page, size int) {
	for i, r := range p.Rows {
		if r.CFA != unwind.CFAUnsupported {
			continue
		}
		end := size
		if i+1 < len(p.Rows) {
			end = int(p.Rows[i+1].Off)
		}
		if p.Unsupported == nil {
			p.Unsupported = make(map[unwind.Reason]int)
		}
		p.Unsupported[r.Reason()] += end - int(r.Off)
	}
}
