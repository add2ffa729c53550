package unwindtable

import (
	"errors"
	"math"

	"github.com/headwater/headwater/ebpf/common/limit"
	"github.com/headwater/headwater/ebpf/unwind"
)

// source provides rows: a section of call frame information, or Go's function table. To add a
// source, implement Rows and use it in newBuilder.
type source interface {
	// Rows returns the rows of a span. The first row is for the first byte of the span, and Off is
	// relative to that byte. A gap is a row without a rule. The rows are valid until the next call.
	// The error is a read error; invalid contents become unsupported rows or gaps.
	Rows(s *span) ([]unwind.Row, error)
}

// span is the text of the page that is being built, together with the wide rules of all its rows.
type span struct {
	lo, hi uint64 // ELF virtual addresses
	size   int    // hi - lo
	wide   unwind.WideRules
	beyond error // a limit that a reader stopped at; nil if none
}

// begin sets s to the span of size bytes at lo.
func (s *span) begin(lo uint64, size int) {
	s.lo, s.size = lo, size
	if s.hi = lo + uint64(size); s.hi < lo {
		s.hi = math.MaxUint64
	}
	s.wide.Reset()
	s.beyond = nil
}

// rowOf returns a row, without an Off, for the rule w, or for the reason why there is no translation.
func (s *span) rowOf(w unwind.WideRule, reason unwind.Reason) unwind.Row {
	if reason != unwind.ReasonNone {
		return unwind.Unsupported(reason)
	}
	return s.wide.Row(w)
}

// noteBound keeps the first error of a reader that stopped at a limit.
func (s *span) noteBound(err error) {
	if err == nil || s.beyond != nil {
		return
	}
	var hit *limit.Error
	if errors.As(err, &hit) {
		s.beyond = err
	}
}

// rowList builds the rows of a span.
type rowList struct {
	span *span
	rows []unwind.Row
}

// begin empties the list: the whole span is a gap.
func (l *rowList) begin(s *span) { l.span, l.rows = s, append(l.rows[:0], unwind.Row{}) }

// addRow sets row as the rule from addr on. It removes existing rows at or after addr, which come from
// an overlapping FDE or mark an end. It merges neighbours with equal rules.
func (l *rowList) addAt(addr uint64, row unwind.Row) {
	if addr >= l.span.hi {
		return
	}
	row.Off = uint16(max(addr, l.span.lo) - l.span.lo)
	for len(l.rows) > 0 && l.rows[len(l.rows)-1].Off >= row.Off {
		l.rows = l.rows[:len(l.rows)-1]
	}
	l.rows = unwind.AppendRow(l.rows, row)
}
