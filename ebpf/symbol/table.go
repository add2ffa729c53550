package symbol

import (
	"cmp"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/headwater/headwater/flame/demangle"
)

// table maps addresses to names. It takes twelve bytes a range and holds no names, which stay in the pool. Its ranges
// are disjoint: overlaps in the file are resolved when the table is built, so that a lookup is one binary search.
type table struct {
	base   uint64      // address that starts are relative to
	ranges []addrRange // by start
	pool   namePool
	reach  labelReach // if nil, labels reach to the end of their ranges
}

// labelReach finds the end of labels.
type labelReach interface {
	// reaches reports whether the function with a label at ELF virtual address label includes the later address at.
	// limit is an upper bound of the function's end.
	reaches(label, at, limit uint64) bool
}

// namePool has the names of a table.
type namePool interface {
	// name returns the name at a place; ok is false if the name is not available (any longer).
	nameAt(place uint32) (name string, ok bool)
	// bytes returns the memory of the pool.
	bytes() int
}

// addrRange is a range of addresses with one name.
type addrRange struct {
	start uint32 // relative to the table's base
	size  uint32 // functions are never longer than 4 GiB
	name  uint32 // place in the pool; labelMark is set for a label, which may end earlier
}

// labelMark marks the name of a label. Places of names are less than labelMark.
const labelMark = 1 << 31

// rangeBytes is the memory of an addrRange.
const rangeBytes = 12

// bytes implements source.
func (t *table) bytes() int { return cap(t.ranges)*rangeBytes + t.pool.bytes() }

// findEntry returns the index of the range that holds addr, or -1.
func (t *table) findEntry(addr uint64) int {
	if addr < t.base || addr-t.base > 1<<32-1 {
		return -1
	}
	at := uint32(addr - t.base)
	// Find the first range that starts after addr; written out because this is the inner loop of naming.
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
	i := t.findEntry(addr)
	if i < 0 {
		return "", false
	}
	r := t.ranges[i]
	if start := t.base + uint64(r.start); r.name&labelMark != 0 && addr > start && t.reach != nil &&
		!t.reach.reaches(start, addr, start+uint64(r.size)) {
		return "", false
	}
	return t.pool.nameAt(r.name &^ labelMark)
}

// entry is a function from which a table is built.
type entry struct {
	start uint32 // relative to the table's base
	size  uint32 // for a label, its maximum size
	name  uint32 // place in the pool
	rank  uint8  // among names of one range, the lowest rank wins
	label bool   // its size is unknown
}

func (e *entry) end() uint64 { return uint64(e.start) + uint64(e.size) }

// newTable builds a table from entries. It reorders entries, whose memory is free for reuse afterwards.
//
// Where functions overlap, an address gets the function with the last start and, among functions with the same start,
// the shortest, as in BFD's addr2line. Functions of unknown size, which are labels in assembly, are only used where
// there is no sized function; they extend to the next symbol, but not beyond the end of their section or the end that
// the table's labelReach finds.
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

// compareEntries sorts by start, then long before short, sized entries before labels, and then by rank.
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

// maxAliases bounds the compared names of one range: C++ constructors have 3, glibc's functions up to 6.
const maxAliases = 64

// bestNames keeps one of the entries that name the same range, in place.
func bestNames(entries []entry, pool namePool) []entry {
	out := entries[:0]
	best, have := "", false // name of the last entry in out, if it was read
	aliases := 0            // number of compared aliases of the last entry in out
	for _, e := range entries {
		if n := len(out); n > 0 && sameRange(out[n-1], e) {
			last := &out[n-1]
			if e.rank > last.rank || e.name == last.name || aliases == maxAliases {
				continue
			}
			aliases++
			if !have {
				best, _ = pool.nameAt(last.name)
				have = true
			}
			if name, ok := pool.nameAt(e.name); ok && compareNames(name, best) < 0 {
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

// compareNames orders aliases of one rank, which are names of the same range: fewer leading underscores first, then
// shorter names, then alphabetically so that the choice is deterministic. Other rules apply before it: functions come
// before labels, and global before weak before local. perf orders in the same way, except that it puts local before
// weak and long before short names.
func compareNames(a, b string) int {
	return cmp.Or(
		cmp.Compare(underscores(a), underscores(b)),
		cmp.Compare(len(a), len(b)),
		strings.Compare(a, b),
	)
}

// underscores counts leading underscores. C++ and Rust names always have them, so they do not count.
func underscores(name string) int {
	if demangle.IsMangled(name) {
		return 0
	}
	return len(name) - len(strings.TrimLeft(name, "_"))
}

// builder collects the ranges of a table.
type builder struct{ ranges []addrRange }

func (b *builder) sortRanges() {
	slices.SortFunc(b.ranges, func(a, b addrRange) int { return cmp.Compare(a.start, b.start) })
}

// addEntry adds [start, end) with the name at a place.
func (b *builder) addEntry(start, end uint64, name uint32) {
	if end > start {
		b.ranges = append(b.ranges, addrRange{start: uint32(start), size: uint32(min(end-start, 1<<32-1)), name: name})
	}
}

// layOutSized cuts the sized functions into disjoint ranges. Functions are sorted by start, long before short: a stack
// holds the functions that contain the current address, with the function that names it on top.
func (b *builder) layOutSized(entries []entry) {
	type open struct {
		end  uint64
		name uint32
	}
	var stack []open
	var at uint64 // all lower addresses are laid out
	closeUntil := func(addr uint64) {
		for len(stack) > 0 && at < addr {
			top := stack[len(stack)-1]
			if top.end > addr {
				b.addEntry(at, addr, top.name)
				at = addr
				return
			}
			if top.end > at {
				b.addEntry(at, top.end, top.name)
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
		// A function that ends before this one is never on top again.
		for len(stack) > 0 && stack[len(stack)-1].end <= start {
			stack = stack[:len(stack)-1]
		}
		stack = append(stack, open{end: e.end(), name: e.name})
	}
	closeUntil(1<<64 - 1)
}

// fillGaps gives the labels in entries the addresses that the sorted ranges leave free.
func (b *builder) fillGaps(entries []entry) {
	sized := b.ranges
	next := 0 // the first range that starts after the label
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
		b.addEntry(uint64(l.start), end, l.name|labelMark)
	}
}

// validUTF8 replaces invalid UTF-8.
func validUTF8(s string) string {
	if utf8.ValidString(s) {
		return s
	}
	return strings.ToValidUTF8(s, "\uFFFD")
}
