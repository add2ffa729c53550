package unwind

import "sort"

// push appends row unless the last of rows states the same rule.
func push(rows []Row, row Row) []Row {
	if len(rows) > 0 && rows[len(rows)-1].sameRule(row) {
		return rows
	}
	return append(rows, row)
}

// find returns the position of the row in force at offset off of the page.
func find(rows []Row, off int) int {
	return sort.Search(len(rows), func(i int) bool { return int(rows[i].Off) > off }) - 1
}

// fillGaps returns the rows of first, and those of second where first has no
// rule. The memory of out may be used for it.
func fillGaps(out, first, second []Row, size int) []Row {
	switch {
	case len(second) == 1 && second[0].CFA == CFANone:
		return first
	case len(first) == 1 && first[0].CFA == CFANone:
		return second
	}
	out = out[:0]
	for i, r := range first {
		if r.CFA != CFANone {
			out = push(out, r)
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

// appendRange appends those of rows, of a page of size bytes, that are in force
// in [start, end).
func appendRange(out, rows []Row, start, end, size int) []Row {
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
		out = push(out, r)
	}
	return out
}

// put returns rows, of a page of size bytes, with row in force in [start, end).
func put(rows []Row, start, end, size int, row Row) []Row {
	out := appendRange(make([]Row, 0, len(rows)+2), rows, 0, start, size)
	row.Off = uint16(start)
	return appendRange(push(out, row), rows, end, size, size)
}
