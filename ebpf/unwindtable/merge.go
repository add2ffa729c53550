package unwindtable

import (
	"sort"

	"github.com/headwater/headwater/ebpf/unwind"
)

// find returns the position of the row for offset off of the page.
func find(rows []unwind.Row, off int) int {
	return sort.Search(len(rows), func(i int) bool { return int(rows[i].Off) > off }) - 1
}

// fillGaps returns the rows of first, and those of second where first has no
// rule. The memory of out may be used for it.
func fillGaps(out, first, second []unwind.Row, size int) []unwind.Row {
	switch {
	case len(second) == 1 && second[0].CFA == unwind.CFANone:
		return first
	case len(first) == 1 && first[0].CFA == unwind.CFANone:
		return second
	}
	out = out[:0]
	for i, r := range first {
		if r.CFA != unwind.CFANone {
			out = unwind.AppendRow(out, r)
			continue
		}
		end := size
		if i+1 < len(first) {
			end = int(first[i+1].Off)
		}
		out = appendRange(out, second, int(r.Off), end, size)
	}
	return out
}

// appendRange appends those of rows, of a page of size bytes, that are about
// [start, end).
func appendRange(out, rows []unwind.Row, start, end, size int) []unwind.Row {
	for i, r := range rows {
		next := size
		if i+1 < len(rows) {
			next = int(rows[i+1].Off)
		}
		if next <= start {
			continue
		}
		if int(r.Off) >= end {
			break
		}
		r.Off = uint16(max(int(r.Off), start))
		out = unwind.AppendRow(out, r)
	}
	return out
}

// put returns rows, of a page of size bytes, with row for [start, end).
func put(rows []unwind.Row, start, end, size int, row unwind.Row) []unwind.Row {
	out := appendRange(make([]unwind.Row, 0, len(rows)+2), rows, 0, start, size)
	row.Off = uint16(start)
	return appendRange(unwind.AppendRow(out, row), rows, end, size, size)
}
