package unwindtable

import (
	"sort"

	"github.com/headwater/headwater/ebpf/unwind"
)

// findRow returns the index of the row for offset off of the page.
func findRow(rows []unwind.Row, off int) int {
	return sort.Search(len(rows), func(i int) bool { return int(rows[i].Off) > off }) - 1
}

// fillGaps returns the rows of first, and the rows of second for the gaps of first. It may use the
// memory of out.
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

// appendRange appends the part of rows in [start, end). rows cover a page of size bytes.
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

// putRow returns rows with row for [start, end). rows cover a page of size bytes.
func putRow(rows []unwind.Row, start, end, size int, row unwind.Row) []unwind.Row {
	out := appendRange(make([]unwind.Row, 0, len(rows)+2), rows, 0, start, size)
	row.Off = uint16(start)
	return appendRange(unwind.AppendRow(out, row), rows, end, size, size)
}
