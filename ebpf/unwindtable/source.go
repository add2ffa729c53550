package unwindtable

import (
	"errors"
	"math"

	"github.com/headwater/headwater/ebpf/limit"
	"github.com/headwater/headwater/ebpf/unwind"
)

// source is where rows come from: a section of call frame information, or Go's table
// of functions. To add one, implement Rows and give it a place in newBuilder.
type source interface {
	// Rows returns the rows about a span, the first one for its first byte; a gap is a
	// row without a rule. Off counts from that byte. They are valid until the next
	// call. The error is about reading; what is wrong with what was read becomes rows
	// that are unsupported, or gaps.
	Rows(s *span) ([]unwind.Row, error)
}

// span is the text of the page that is being built, and the wide rules of all its rows.
type span struct {
	lo, hi uint64 // ELF virtual addresses
	size   int    // hi - lo
	wide   unwind.WideRules
	beyond error // that a reader stopped at a bound; nil: none did
}

// begin makes s the span of size bytes from lo on.
func (s *span) begin(lo uint64, size int) {
	s.lo, s.size = lo, size
	if s.hi = lo + uint64(size); s.hi < lo {
		s.hi = math.MaxUint64
	}
	s.wide.Reset()
	s.beyond = nil
}

// row returns the row, without an Off, that states the rule w, or why it could not be
// translated.
func (s *span) row(w unwind.WideRule, reason unwind.Reason) unwind.Row {
	if reason != unwind.ReasonNone {
		return unwind.Unsupported(reason)
	}
	return s.wide.Row(w)
}

// noteBound remembers the first error that says that a reader stopped at a bound.
func (s *span) noteBound(err error) {
	if err == nil || s.beyond != nil {
		return
	}
	var hit *limit.Error
	if errors.As(err, &hit) {
		s.beyond = err
	}
}

// rowList is the rows of a span, in the making.
type rowList struct {
	span *span
	rows []unwind.Row
}

// begin empties the list: all of s is a gap.
func (l *rowList) begin(s *span) { l.span, l.rows = s, append(l.rows[:0], unwind.Row{}) }

// add makes row the one from addr on. Rows from there on, of an FDE that overlaps or
// the marker of an end, give way. Equal neighbours become one.
func (l *rowList) add(addr uint64, row unwind.Row) {
	if addr >= l.span.hi {
		return
	}
	row.Off = uint16(max(addr, l.span.lo) - l.span.lo)
	for len(l.rows) > 0 && l.rows[len(l.rows)-1].Off >= row.Off {
		l.rows = l.rows[:len(l.rows)-1]
	}
	l.rows = unwind.AppendRow(l.rows, row)
}
