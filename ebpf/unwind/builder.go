package unwind

import (
	"errors"
	"math"
	"slices"

	"github.com/headwater/headwater/ebpf/ehframe"
)

// builder makes pages. It is reused for the sake of its buffers.
type builder struct {
	table   *Table
	program ehframe.Program
	eh      frames
	debug   frames
	golang  *goRows // nil: no Go program

	code    *code
	heights heights

	lo, hi uint64 // the page's range of ELF virtual addresses
	size   int    // hi - lo
	effort int    // bytes of call frame information read for the page
	rows   []Row  // of the section being read
	first  []Row  // of .eh_frame, while .debug_frame is read
	merged []Row  // of both
	wide   []WideRule
	number map[WideRule]int // position in wide
}

// frames is one section of FDEs with its index.
type frames struct {
	name   string
	reader *ehframe.Reader // nil if there is no such section
	index  ehframe.Index
	golang bool // written by Go's linker
}

func newBuilder(t *Table) *builder {
	b := &builder{table: t, number: make(map[WideRule]int), code: newCode(t.sections)}
	b.heights.b = b
	if s := t.sections.EHFrame; s != nil {
		frame := t.section(s, false)
		b.eh.name, b.eh.reader = ".eh_frame", ehframe.NewReader(frame)
		if t.searchable {
			b.eh.index = t.header()
		} else {
			b.eh.index = t.scanEH()
		}
	}
	if s := t.sections.Functions; s != nil && t.golang != nil {
		b.golang = &goRows{b: b, reader: s.NewReader()}
		return b // .debug_frame is about the same functions and says less
	}
	if s := t.sections.DebugFrame; s != nil {
		b.debug = frames{".debug_frame", ehframe.NewReader(t.section(s, true)), t.scanDebug(), t.sections.Go}
	}
	return b
}

// build makes the page of size bytes of text, at most 64 KiB, from lo on.
func (b *builder) build(lo uint64, size int) (*Page, error) {
	b.lo, b.size = lo, size
	if b.hi = lo + uint64(size); b.hi < lo {
		b.hi = math.MaxUint64
	}
	b.wide = b.wide[:0]
	clear(b.number)
	if err := b.read(b.eh); err != nil {
		return nil, err
	}
	b.first, b.rows = b.rows, b.first
	if err := b.readSecond(); err != nil {
		return nil, err
	}
	if b.code.wanted(b.first) {
		b.rows = b.markKnownCode(b.rows)
	}
	if len(b.rows) > 1 && len(b.first) > 1 {
		b.merged = slices.Grow(b.merged[:0], len(b.first)+len(b.rows))
	}
	rows, err := b.heights.fill(b.markEntry(fillGaps(b.merged, b.first, b.rows, size)))
	if err != nil {
		return nil, err
	}
	if len(rows) == 1 && rows[0].CFA == CFANone {
		return new(Page), nil
	}
	p := &Page{Rows: slices.Clone(bounded(rows)), Wide: slices.Clone(b.wide), FromCode: b.heights.bytes}
	p.count(size)
	for i := range p.Rows {
		p.Rows[i].Off += uint16(lo) // was counted from the first byte
	}
	return p, nil
}

// readSecond makes b.rows those for the gaps of .eh_frame.
func (b *builder) readSecond() error {
	if b.golang != nil {
		return b.golang.read()
	}
	return b.read(b.debug)
}

// entryBytes is how much code behind the entry point is taken for part of it, up
// to the next function and the end of the page: the dynamic loader's calls the
// constructors, 61 bytes on x86-64.
const entryBytes = 128

// markEntry returns rows with one for the entry point, if CFI says nothing about
// it. It was not called, so its frame is the outermost one.
func (b *builder) markEntry(rows []Row) []Row {
	entry := b.table.sections.Entry
	if entry == 0 || entry < b.lo || entry >= b.hi {
		return rows
	}
	start := int(entry - b.lo)
	at := find(rows, start)
	if rows[at].CFA != CFANone {
		return rows
	}
	end := b.size
	if at+1 < len(rows) {
		end = int(rows[at+1].Off)
	}
	outermost := Row{CFA: CFASP, CFAOff: 8, Rules: rules(FPSame, RAUndefined)}
	return put(rows, start, min(start+entryBytes, end), b.size, outermost)
}

// bounded returns rows, the last one standing for all that are too many.
func bounded(rows []Row) []Row {
	if len(rows) <= MaxRows {
		return rows
	}
	last := unsupported(ReasonBadProgram)
	last.Off = rows[MaxRows-1].Off
	rows[MaxRows-1] = last
	return rows[:MaxRows]
}

// read makes b.rows the rows of the page that f states.
func (b *builder) read(f frames) error {
	b.rows = append(b.rows[:0], Row{})
	if f.reader == nil {
		return nil
	}
	first, err := f.first(b.lo)
	b.effort = 0
	for i := first; err == nil && i < f.index.Len(); i++ {
		var start, off uint64
		if start, off, err = f.index.Entry(i); err != nil || start >= b.hi {
			break
		}
		if b.effort > maxEffort {
			b.add(start, unsupported(ReasonBadIndex))
			break
		}
		err = b.fde(f, start, off)
	}
	if foreign(err) { // the index is broken: nothing can be said
		b.add(b.lo, unsupported(ReasonBadIndex))
		return nil
	}
	return err
}

// maxEffort is how many bytes of call frame instructions are read for a page; a
// made-up index can refer to the same ones again and again. Those of real pages
// are a few kilobytes, of the largest functions known just below a megabyte. The
// bytes around them count, too.
const (
	maxEffort   = 4 << 20
	entryEffort = 32
)

// maxStepBack is how many FDEs without text may follow, in the index, one that
// reaches into a page.
const maxStepBack = 16

// first returns the position in the index of the first FDE that may be about
// text at or behind lo: the last one that begins at or before lo. FDEs without
// text do not count.
func (f frames) first(lo uint64) (int, error) {
	found, err := ehframe.Find(f.index, lo)
	if err != nil {
		return 0, err
	}
	for i := found; i >= 0 && i > found-maxStepBack; i-- {
		_, off, err := f.index.Entry(i)
		if err != nil {
			break
		}
		if fde, err := f.reader.FDE(off); err != nil || fde.Start < fde.End {
			return i, nil
		}
	}
	return max(found, 0), nil
}

// fde adds the rows of the FDE at offset off, whose text begins at start.
func (b *builder) fde(f frames, start, off uint64) error {
	fde, err := f.reader.FDE(off)
	switch {
	case err != nil && !foreign(err):
		return err
	case err != nil || fde.Start != start:
		b.add(start, unsupported(ReasonBadEntry))
		return nil
	case fde.Start == fde.End || fde.End <= b.lo:
		return nil
	}
	b.effort += entryEffort + len(fde.Instructions) + len(fde.CIE.Instructions)
	end := fde.Start // of the rows so far
	golang := goFrame{b: b}
	err = b.program.Rows(&fde, func(row *ehframe.Row) bool {
		end = row.End
		if row.Start >= b.hi {
			return false
		}
		switch {
		case f.golang:
			golang.add(row)
		case row.End > b.lo:
			b.add(row.Start, b.rule(b.table.ruleOf(row, fde.CIE.SignalFrame)))
		}
		return true
	})
	if err != nil {
		b.add(end, unsupported(ReasonBadProgram))
	}
	if end = fde.End; fde.CIE.SignalFrame && end+1 > end {
		end++ // where the pc is during the trampoline's system call, its last instruction
	}
	b.add(end, Row{})
	return nil
}

// foreign reports whether err is about the contents of a section rather than
// about reading it.
func foreign(err error) bool {
	return errors.Is(err, ehframe.ErrInvalid) || errors.Is(err, ehframe.ErrUnsupported) ||
		errors.Is(err, ehframe.ErrTruncated) || errors.Is(err, ehframe.ErrEndOfSection)
}

// rule returns the row, without an Off, that states the rule w, or why it could
// not be translated.
func (b *builder) rule(w WideRule, reason Reason) Row {
	if reason != ReasonNone {
		return unsupported(reason)
	}
	if r, ok := w.narrow(); ok {
		return r
	}
	i, ok := b.number[w]
	if !ok {
		i = len(b.wide)
		b.wide = append(b.wide, w)
		b.number[w] = i
	}
	return Row{CFA: CFAWide, CFAOff: int16(uint16(i))}
}

// add puts row in force from addr on. Rows from there on, of an FDE that
// overlaps or the marker of an end, give way. Equal neighbours become one.
func (b *builder) add(addr uint64, row Row) {
	if addr >= b.hi {
		return
	}
	row.Off = uint16(max(addr, b.lo) - b.lo)
	for len(b.rows) > 0 && b.rows[len(b.rows)-1].Off >= row.Off {
		b.rows = b.rows[:len(b.rows)-1]
	}
	b.rows = push(b.rows, row)
}
