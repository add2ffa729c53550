package unwindtable

import (
	"math"
	"slices"

	"github.com/headwater/headwater/ebpf/unwind"
	"github.com/headwater/headwater/ebpf/unwind/codeflow"
)

// builder makes pages: it merges the rows of its sources. It is reused to save allocations.
type builder struct {
	*span
	table   *Table
	first   source    // nil if none
	second  source    // for the gaps of the first; nil if none
	go386   *goTable  // nil unless it is a 32-bit Go program
	frames  []*frames // the sources that are sections of FDEs
	code    *code
	heights heights
	merged  []unwind.Row  // rows of both sources
	counts  *sourceBytes  // of the last page; nil if they are not counted
	gap     [1]unwind.Row // rows of a missing source
}

func newBuilder(t *Table) *builder {
	b := &builder{span: new(span), table: t, code: newCode(t.sections), go386: newGo386(t)}
	b.heights.b = b
	if f := newEHFrame(t, b.code); f != nil {
		b.first, b.frames = f, append(b.frames, f)
	}
	if s := t.sections.Functions; s != nil && t.golang != nil {
		b.second = &goTable{table: t, code: b.code, reader: s.NewReader()}
		return b // .debug_frame covers the same functions with less information
	}
	if f := newDebugFrame(t, b.code); f != nil {
		b.second, b.frames = f, append(b.frames, f)
	}
	return b
}

// build makes the page for size bytes of text at lo, at most 64 KiB.
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
	b.countSources(first, second)
	if b.code.wanted(first) {
		second = b.markKnownCode(second)
	}
	if len(second) > 1 && len(first) > 1 {
		b.merged = slices.Grow(b.merged[:0], len(first)+len(second))
	}
	rows, err := b.markEntry(b.markNewThreads(fillGaps(b.merged, first, second, size)))
	if err != nil {
		return nil, err
	}
	gaps := b.countGaps(rows)
	b.countKnown(rows)
	if rows, err = b.heights.fillRows(rows); err != nil {
		return nil, err
	}
	if len(rows) == 1 && rows[0].CFA == unwind.CFANone {
		return &unwind.Page{Gaps: gaps, Beyond: b.beyond}, nil
	}
	p := &unwind.Page{
		Rows: slices.Clone(unwind.BoundRows(rows)), Wide: slices.Clone(b.wide.Rules), ByAnalysis: b.heights.bytes,
		Gaps: gaps, Beyond: b.beyond,
	}
	countUnsupported(p, size)
	for i := range p.Rows {
		p.Rows[i].Off += uint16(lo) // was relative to the first byte of the page
	}
	return p, nil
}

// countGaps returns the bytes of code in the gaps of the page that are too large for padding.
func (b *builder) countGaps(rows []unwind.Row) (bytes int) {
	if b.table.sections.Go {
		return 0
	}
	for i, r := range rows {
		if r.CFA != unwind.CFANone {
			continue
		}
		start, end := b.lo+uint64(r.Off), b.hi
		if i+1 < len(rows) {
			end = b.lo + uint64(rows[i+1].Off)
		}
		for _, code := range b.table.sections.Code {
			if from, to := max(start, code[0]), min(end, code[1]); from < to && to-from >= minGap {
				bytes += int(to - from)
			}
		}
	}
	return bytes
}

// rowsOf returns the rows of a source for the span. Without a source the span is a gap.
func (b *builder) rowsOf(s source) ([]unwind.Row, error) {
	if s == nil {
		b.gap[0] = unwind.Row{}
		return b.gap[:], nil
	}
	return s.Rows(b.span)
}

// entryReach is the maximum distance from the entry point for code that belongs to it.
const entryReach = 4 << 10

// markEntry adds rows for the code at the entry point where there is no call frame information.
// That code has no caller, so its frame is the outermost.
func (b *builder) markEntry(rows []unwind.Row) ([]unwind.Row, error) {
	entry := b.table.sections.Entry
	if entry == 0 || entry >= b.hi+min(entryReach, math.MaxUint64-b.hi) || entry < b.lo-min(entryReach, b.lo) {
		return rows, nil
	}
	code, err := b.entryCode()
	if err != nil {
		return nil, err
	}
	return b.markOutermost(rows, code), nil
}

// entryCode returns the ranges of the code at the entry point that have no call frame information.
// It follows the code only once, because each stack of a 32-bit program needs it.
func (b *builder) entryCode() ([][2]uint64, error) {
	t := b.table
	t.entryMu.Lock()
	defer t.entryMu.Unlock()
	if t.entryCode != nil {
		return t.entryCode, nil
	}
	code, err := b.followEntry()
	t.entryCode = code
	return code, err
}

func (b *builder) followEntry() ([][2]uint64, error) {
	s := &b.table.sections
	bounds, ok := b.codeAround(s.Entry, entryReach)
	if !ok {
		return nil, nil
	}
	before, err := b.functionBefore(s.Entry)
	if err != nil {
		return nil, err
	}
	after, err := b.functionAfter(s.Entry)
	if err != nil {
		return nil, err
	}
	bounds[0], bounds[1] = max(bounds[0], before), min(bounds[1], after)
	return codeflow.Entry(b.code, s.Machine, s.Entry, bounds), nil
}

// codeAround returns the code within reach bytes of addr, and false if there is no code at addr.
func (b *builder) codeAround(addr, reach uint64) (bounds [2]uint64, ok bool) {
	for _, code := range b.table.sections.Code {
		if addr < code[0] || addr >= code[1] {
			continue
		}
		for _, text := range b.table.sections.Text {
			if addr >= text.Addr && addr-text.Addr < text.Size {
				low, high := max(code[0], text.Addr), min(code[1], text.Addr+text.Size)
				return [2]uint64{max(low, addr-min(reach, addr)), min(high, addr+min(reach, high-addr))}, true
			}
		}
	}
	return bounds, false
}

// markOutermost adds rows of outermost frames for the ranges of code that have no rule.
func (b *builder) markOutermost(rows []unwind.Row, code [][2]uint64) []unwind.Row {
	outermost := unwind.Row{CFA: unwind.CFASP, CFAOff: 8, Rules: unwind.Rules(unwind.FPSame, unwind.RAUndefined)}
	for _, r := range code {
		if r[1] <= b.lo || r[0] >= b.hi {
			continue
		}
		start, end := int(max(r[0], b.lo)-b.lo), int(min(r[1], b.hi)-b.lo)
		for at := start; at < end; {
			i := findRow(rows, at)
			next := end
			if i+1 < len(rows) {
				next = min(next, int(rows[i+1].Off))
			}
			if rows[i].CFA == unwind.CFANone {
				rows = putRow(rows, at, next, b.size, outermost)
			}
			at = next
		}
	}
	return rows
}

// countUnsupported sets Unsupported of p, which covers size bytes. Off is relative to the first
// byte.
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
