package symbol

import (
	"cmp"
	"slices"
	"strings"
	"unicode/utf8"
)

// table maps addresses to names. It holds twelve bytes a range and no names:
// those stay where they are. Its ranges are disjoint: what overlaps in the file
// was decided when it was built, so that a lookup is one binary search.
type table struct {
	base   uint64      // what starts are counted from
	ranges []addrRange // by start
	pool   namePool
	reach  labelReach // nil: labels reach as far as their ranges
}

// labelReach says how far labels reach.
type labelReach interface {
	// reaches reports whether the function whose label is at the first ELF virtual address has the second one, which is
	// behind it; limit is where it ends at the latest.
	reaches(label, at, limit uint64) bool
}

// namePool has the names of a table.
type namePool interface {
	// name returns the name at that place; ok is false if it cannot be had (any more).
	name(place uint32) (name string, ok bool)
	// bytes returns the memory of the pool.
	bytes() int
}

// addrRange is a range of addresses with one name.
type addrRange struct {
	start uint32 // from the table's base
	size  uint32 // longer functions than 4 GiB do not exist
	name  uint32 // place in the pool; with labelMark that of a label, which may end earlier
}

// labelMark marks the name of a label. Places of names are below it.
const labelMark = 1 << 31

// rangeBytes is the memory of an addrRange.
const rangeBytes = 12

// bytes implements source.
func (t *table) bytes() int { return cap(t.ranges)*rangeBytes + t.pool.bytes() }

// find returns the index of the range that holds addr, or -1.
func (t *table) find(addr uint64) int {
	if addr < t.base || addr-t.base > 1<<32-1 {
		return -1
	}
	at := uint32(addr - t.base)
	// The first range that begins behind addr; written out since this is the
	// inner loop of naming.
	low, high := 0, len(t.ranges)
	for low < high {
		mid := int(uint(low+high) >> 1)
		if t.ranges[mid].start <= at {
			low = mid + 1
		} else {
			high = mid
		}
	}
	if low == 0 || at-t.ranges[low-1].start >= t.ranges[low-1].size {
		return -1
	}
	return low - 1
}

// frames implements source.
func (t *table) frames(addr uint64) []Frame {
	name, ok := t.lookup(addr)
	if !ok {
		return nil
	}
	return []Frame{{Function: name, Kind: Native}}
}

// lookup returns the name at addr.
func (t *table) lookup(addr uint64) (name string, ok bool) {
	i := t.find(addr)
	if i < 0 {
		return "", false
	}
	r := t.ranges[i]
	if start := t.base + uint64(r.start); r.name&labelMark != 0 && addr > start && t.reach != nil &&
		!t.reach.reaches(start, addr, start+uint64(r.size)) {
		return "", false
	}
	return t.pool.name(r.name &^ labelMark)
}

// entry is a function as a table is built from it.
type entry struct {
	start uint32 // from the table's base
	size  uint32 // of a label, how far it reaches at most
	name  uint32 // place in the pool
	rank  uint8  // among names of one range the lowest wins
	label bool   // its size is unknown
}

func (e *entry) end() uint64 { return uint64(e.start) + uint64(e.size) }

// newTable builds a table of entries, whose order it changes and whose memory is
// free afterwards.
//
// Where functions overlap, the one that begins last names the addresses it
// covers, and among those that begin together the shortest, as BFD's addr2line
// decides. Functions of unknown size, labels in assembly, count only where no
// sized one does; they go on to the next symbol, but not past the end of their
// section, nor past what the table's labelReach says.
func newTable(base uint64, entries []entry, pool namePool) *table {
	slices.SortFunc(entries, compareEntries)
	entries = bestNames(entries, pool)
	b := builder{ranges: make([]addrRange, 0, len(entries))}
	b.layOutSized(entries)
	b.sortRanges()
	b.fillGaps(entries)
	b.sortRanges()
	if cap(b.ranges)-len(b.ranges) > len(b.ranges)/8 {
		b.ranges = slices.Clone(b.ranges)
	}
	return &table{base: base, ranges: b.ranges, pool: pool}
}

// compareEntries sorts by start, long before short and those of a size before
// labels, then by rank.
func compareEntries(a, b entry) int {
	switch {
	case a.start != b.start:
		return cmp.Compare(a.start, b.start)
	case a.label != b.label:
		if b.label {
			return -1
		}
		return 1
	case a.size != b.size && !a.label:
		return cmp.Compare(b.size, a.size)
	case a.rank != b.rank:
		return cmp.Compare(a.rank, b.rank)
	}
	return cmp.Compare(a.name, b.name)
}

// maxAliases bounds the names of one range that are compared: C++ constructors have 3, glibc's functions up to 6.
const maxAliases = 64

// bestNames leaves one of the entries that name the same range, in place.
func bestNames(entries []entry, pool namePool) []entry {
	out := entries[:0]
	best, have := "", false // name of the last one in out, if it was needed yet
	aliases := 0            // of the last one in out that were compared
	for _, e := range entries {
		if n := len(out); n > 0 && sameRange(out[n-1], e) {
			last := &out[n-1]
			if e.rank > last.rank || e.name == last.name || aliases == maxAliases {
				continue
			}
			aliases++
			if !have {
				best, _ = pool.name(last.name)
				have = true
			}
			if name, ok := pool.name(e.name); ok && compareNames(name, best) < 0 {
				*last, best = e, name
			}
			continue
		}
		out, have, aliases = append(out, e), false, 0
	}
	return out
}

func sameRange(a, b entry) bool {
	return a.start == b.start && a.label == b.label && (a.label || a.size == b.size)
}

// compareNames decides among aliases of one rank, names of one and the same
// range: the one with fewer leading underscores, then the shorter one, then by
// the alphabet so that the choice is always the same. A function comes before a
// label, global before weak before local. perf decides alike but puts local before
// weak and long before short names.
func compareNames(a, b string) int {
	return cmp.Or(
		cmp.Compare(underscores(a), underscores(b)),
		cmp.Compare(len(a), len(b)),
		strings.Compare(a, b),
	)
}

// underscores counts leading underscores, which C++ and Rust names have anyway.
func underscores(name string) int {
	if mangled(name) {
		return 0
	}
	return len(name) - len(strings.TrimLeft(name, "_"))
}

// builder collects the ranges of a table.
type builder struct{ ranges []addrRange }

func (b *builder) sortRanges() {
	slices.SortFunc(b.ranges, func(a, b addrRange) int { return cmp.Compare(a.start, b.start) })
}

// add adds [start, end) under the name at that place.
func (b *builder) add(start, end uint64, name uint32) {
	if end > start {
		b.ranges = append(b.ranges, addrRange{start: uint32(start), size: uint32(min(end-start, 1<<32-1)), name: name})
	}
}

// layOutSized cuts the sized functions into disjoint ranges. Functions are sorted
// by start, long before short: a stack holds those that the current address is in,
// the one that names it on top.
func (b *builder) layOutSized(entries []entry) {
	type open struct {
		end  uint64
		name uint32
	}
	var stack []open
	var at uint64 // up to here everything is laid out
	closeUntil := func(addr uint64) {
		for len(stack) > 0 && at < addr {
			top := stack[len(stack)-1]
			if top.end > addr {
				b.add(at, addr, top.name)
				at = addr
				return
			}
			if top.end > at {
				b.add(at, top.end, top.name)
				at = top.end
			}
			stack = stack[:len(stack)-1]
		}
	}
	for i := range entries {
		e := &entries[i]
		if e.label {
			continue
		}
		start := uint64(e.start)
		closeUntil(start)
		at = start
		// A function that ends before this one will never be on top again.
		for len(stack) > 0 && stack[len(stack)-1].end <= start {
			stack = stack[:len(stack)-1]
		}
		stack = append(stack, open{end: e.end(), name: e.name})
	}
	closeUntil(1<<64 - 1)
}

// fillGaps gives the labels among entries the addresses that the sorted ranges
// leave free.
func (b *builder) fillGaps(entries []entry) {
	sized := b.ranges
	next := 0 // the first range that begins behind the label
	for i := range entries {
		l := &entries[i]
		if !l.label {
			continue
		}
		for next < len(sized) && sized[next].start <= l.start {
			next++
		}
		if next > 0 && l.start-sized[next-1].start < sized[next-1].size {
			continue // inside a sized function
		}
		end := l.end()
		if next < len(sized) {
			end = min(end, uint64(sized[next].start))
		}
		for _, later := range entries[i+1:] {
			if later.label {
				end = min(end, uint64(later.start))
				break
			}
		}
		b.add(uint64(l.start), end, l.name|labelMark)
	}
}

// validUTF8 replaces what is not UTF-8.
func validUTF8(s string) string {
	if utf8.ValidString(s) {
		return s
	}
	return strings.ToValidUTF8(s, "\uFFFD")
}
