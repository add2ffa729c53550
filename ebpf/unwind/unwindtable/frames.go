package unwindtable

import (
	"errors"

	"github.com/headwater/headwater/ebpf/unwind"
	"github.com/headwater/headwater/ebpf/unwind/ehframe"
)

// frames is a source of rows: a section of FDEs, .eh_frame or .debug_frame, with its index. It must
// not be used concurrently.
type frames struct {
	rowList
	table   *Table
	code    *code
	name    string
	reader  *ehframe.Reader
	index   ehframe.Index
	golang  bool // the section comes from Go's linker
	program ehframe.Program
	effort  int // bytes of call frame information read for the span
}

// newEHFrame returns the source of .eh_frame, nil if there is none.
func newEHFrame(t *Table, c *code) *frames {
	s := t.sections.EHFrame
	if s == nil {
		return nil
	}
	f := &frames{table: t, code: c, name: ".eh_frame", reader: ehframe.NewReader(t.section(s, false))}
	if t.searchable {
		f.index = t.header()
	} else {
		f.index = t.scanEH()
	}
	return f
}

// newDebugFrame returns the source of .debug_frame, nil if there is none.
func newDebugFrame(t *Table, c *code) *frames {
	s := t.sections.DebugFrame
	if s == nil {
		return nil
	}
	return &frames{
		table: t, code: c, name: ".debug_frame", reader: ehframe.NewReader(t.section(s, true)), index: t.scanDebug(),
		golang: t.sections.Go,
	}
}

// Rows returns the rows of the section.
func (f *frames) Rows(s *span) ([]unwind.Row, error) {
	f.begin(s)
	if scanned, ok := f.index.(*ehframe.Scanned); ok {
		s.noteBound(scanned.Beyond)
	}
	first, err := f.first(s.lo)
	f.effort = 0
	for i := first; err == nil && i < f.index.Len(); i++ {
		var start, off uint64
		if start, off, err = f.index.Entry(i); err != nil || start >= s.hi {
			break
		}
		if f.effort > maxEffort {
			f.addAt(start, unwind.Unsupported(unwind.ReasonBadIndex))
			break
		}
		err = f.addFDE(start, off)
	}
	if foreign(err) { // the index is broken: there are no valid rows
		f.addAt(s.lo, unwind.Unsupported(unwind.ReasonBadIndex))
		return f.rows, nil
	}
	return f.rows, err
}

// maxEffort bounds the bytes of call frame instructions that are read for a page, because an
// invalid index can refer to the same instructions repeatedly. Real pages have a few kilobytes, and
// the largest known functions just below a megabyte. entryEffort is the number of bytes that each
// entry counts in addition.
const (
	maxEffort   = 4 << 20
	entryEffort = 32
)

// maxStepBack is the maximum number of FDEs without text that may follow, in the index, an FDE that
// extends into a page.
const maxStepBack = 16

// first returns the index of the first FDE that may cover text at or after lo: the last FDE that
// starts at or before lo. It skips FDEs without text.
func (f *frames) first(lo uint64) (int, error) {
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

// addFDE adds the rows of the FDE at offset off, whose text starts at start.
func (f *frames) addFDE(start, off uint64) error {
	fde, err := f.reader.FDE(off)
	f.span.noteBound(err)
	switch {
	case err != nil && !foreign(err):
		return err
	case err != nil || fde.Start != start:
		f.addAt(start, unwind.Unsupported(unwind.ReasonBadEntry))
		return nil
	case fde.Start == fde.End || fde.End <= f.span.lo:
		return nil
	}
	f.effort += entryEffort + len(fde.Instructions) + len(fde.CIE.Instructions)
	end := fde.Start // end of the rows so far
	golang := goFrame{frames: f}
	err = f.program.Rows(&fde, func(row *ehframe.Row) bool {
		end = row.End
		if row.Start >= f.span.hi {
			return false
		}
		switch {
		case f.golang:
			golang.addRow(row)
		case row.End > f.span.lo:
			f.addAt(row.Start, f.span.rowOf(f.table.ruleOf(row, fde.CIE.SignalFrame)))
		}
		return true
	})
	if err != nil {
		f.addAt(end, unwind.Unsupported(unwind.ReasonBadProgram))
	}
	if end = fde.End; fde.CIE.SignalFrame && end+1 > end {
		end++ // the pc during the system call, the trampoline's last instruction
	}
	f.addAt(end, unwind.Row{})
	return nil
}

// findFDE returns the FDE that may cover vaddr. The zero FDE covers no address.
func (f *frames) findFDE(vaddr uint64) (ehframe.FDE, error) {
	i, err := f.first(vaddr)
	if err != nil || i >= f.index.Len() {
		return ehframe.FDE{}, err
	}
	_, off, err := f.index.Entry(i)
	if err != nil {
		return ehframe.FDE{}, err
	}
	return f.reader.FDE(off)
}

// endBefore returns the end of the last function that starts before addr, 0 if the section does not
// contain it.
func (f *frames) endBefore(addr uint64) (uint64, error) {
	fde, err := f.findFDE(addr)
	if err != nil && !foreign(err) {
		return 0, err
	}
	if err == nil && fde.End <= addr {
		return fde.End, nil
	}
	return 0, nil
}

// startAfter returns the start of the first function that starts at or after addr, or the maximum
// uint64 if the section does not contain it.
func (f *frames) startAfter(addr uint64) (uint64, error) {
	start := ^uint64(0)
	found, err := ehframe.Find(f.index, addr) // the last one that starts at or before addr
	for i := max(found, 0); err == nil && i < min(found+2, f.index.Len()); i++ {
		var at uint64
		if at, _, err = f.index.Entry(i); err == nil && at >= addr {
			start = min(start, at)
		}
	}
	if err != nil && !foreign(err) {
		return 0, err
	}
	return start, nil
}

// foreign reports whether err is an error in the contents of a section, not a read error.
func foreign(err error) bool {
	return errors.Is(err, ehframe.ErrInvalid) || errors.Is(err, ehframe.ErrUnsupported) ||
		errors.Is(err, ehframe.ErrTruncated) || errors.Is(err, ehframe.ErrEndOfSection)
}
