package symbol

import (
	"cmp"
	"errors"
	"slices"
	"strings"
	"unicode/utf8"
)

// table maps addresses to names. It is immutable, holds no pointers per symbol,
// and its ranges are disjoint: what overlaps in the file was decided when it was
// built, so that a lookup is one binary search.
type table struct {
	ranges []addrRange // by start
	names  string      // each followed by a NUL
}

// addrRange is a range of addresses with one name.
type addrRange struct {
	start uint64
	size  uint32 // longer functions than 4 GiB do not exist
	name  uint32 // offset in names
}

// rangeBytes is the memory of an addrRange.
const rangeBytes = 16

// bytes returns the table's memory.
func (t *table) bytes() int { return cap(t.ranges)*rangeBytes + len(t.names) }

// find returns the index of the range that holds addr, or -1.
func (t *table) find(addr uint64) int {
	// The first range that begins behind addr; written out since this is the
	// inner loop of naming.
	low, high := 0, len(t.ranges)
	for low < high {
		mid := int(uint(low+high) >> 1)
		if t.ranges[mid].start <= addr {
			low = mid + 1
		} else {
			high = mid
		}
	}
	if low == 0 || addr-t.ranges[low-1].start >= uint64(t.ranges[low-1].size) {
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

// lookup returns a copy of the name at addr, for the table may be dropped.
func (t *table) lookup(addr uint64) (name string, ok bool) {
	i := t.find(addr)
	if i < 0 {
		return "", false
	}
	return strings.Clone(t.nameAt(i)), true
}

func (t *table) nameAt(i int) string {
	rest := t.names[t.ranges[i].name:]
	return rest[:strings.IndexByte(rest, 0)]
}

// function is what a table is built from.
type function struct {
	name  string
	start uint64
	end   uint64 // exclusive; equal to start if the size is unknown
	limit uint64 // where a function of unknown size ends at the latest
	rank  uint8  // among names of one range the lowest wins
}

func (f *function) sized() bool { return f.end > f.start }

// errTableTooLarge tells that names do not fit the table's 32-bit offsets.
var errTableTooLarge = errors.New("symbol names exceed 4 GiB")

// newTable builds a table. It sorts functions in place.
//
// Where functions overlap, the one that begins last names the addresses it
// covers, and among those that begin together the shortest, as BFD's addr2line
// decides. Functions of unknown size, labels in assembly, count only where no
// sized one does; they go on to the next symbol, but not past their limit, the
// end of their section.
func newTable(functions []function) (*table, error) {
	slices.SortFunc(functions, compareFunctions)
	functions = slices.CompactFunc(functions, func(a, b function) bool { return a.start == b.start && a.end == b.end })

	b := newBuilder(functions)
	labels := b.layOutSized(functions)
	b.sortRanges()
	b.fillGaps(labels)
	b.sortRanges()
	if b.tooLarge {
		return nil, errTableTooLarge
	}
	return &table{ranges: b.ranges, names: b.names.String()}, nil
}

// compareFunctions sorts by start, long before short, then best name first.
func compareFunctions(a, b function) int {
	if c := cmp.Compare(a.start, b.start); c != 0 {
		return c
	}
	if c := cmp.Compare(b.end, a.end); c != 0 {
		return c
	}
	return compareNames(a, b)
}

// compareNames decides among aliases, names of one and the same range: a function before
// a label, global before weak before local, then the one with fewer leading underscores, then
// the shorter one, then by the alphabet so that the choice is always the same.
// perf decides alike but puts local before weak and long before short names.
func compareNames(a, b function) int {
	return cmp.Or(
		cmp.Compare(a.rank, b.rank),
		cmp.Compare(underscores(a.name), underscores(b.name)),
		cmp.Compare(len(a.name), len(b.name)),
		strings.Compare(a.name, b.name),
	)
}

// underscores counts leading underscores, which C++ and Rust names have anyway.
func underscores(name string) int {
	if mangled(name) {
		return 0
	}
	return len(name) - len(strings.TrimLeft(name, "_"))
}

// builder collects the ranges and names of a table.
type builder struct {
	ranges   []addrRange
	names    strings.Builder
	tooLarge bool
}

// newBuilder returns a builder with about the memory that the result needs.
func newBuilder(functions []function) *builder {
	b := &builder{ranges: make([]addrRange, 0, len(functions))}
	size := 0
	for i := range functions {
		size += len(functions[i].name) + 1
	}
	b.names.Grow(size)
	return b
}

func (b *builder) sortRanges() {
	slices.SortFunc(b.ranges, func(a, b addrRange) int { return cmp.Compare(a.start, b.start) })
}

// name adds a name and returns its offset.
func (b *builder) name(name string) uint32 {
	if uint64(b.names.Len())+uint64(len(name))+1 > 1<<32-1 {
		b.tooLarge = true
		return 0
	}
	offset := uint32(b.names.Len())
	b.names.WriteString(validUTF8(name))
	b.names.WriteByte(0)
	return offset
}

// add adds [start, end) under the name at offset name.
func (b *builder) add(start, end uint64, name uint32) {
	if end > start {
		b.ranges = append(b.ranges, addrRange{start: start, size: uint32(min(end-start, 1<<32-1)), name: name})
	}
}

// layOutSized cuts the sized functions into disjoint ranges and returns the
// others. Functions are sorted by start, long before short: a stack holds those
// that the current address is in, the one that names it on top.
func (b *builder) layOutSized(functions []function) (labels []function) {
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
	for i := range functions {
		f := &functions[i]
		if !f.sized() {
			labels = append(labels, *f)
			continue
		}
		closeUntil(f.start)
		at = f.start
		// A function that ends before this one will never be on top again.
		for len(stack) > 0 && stack[len(stack)-1].end <= f.start {
			stack = stack[:len(stack)-1]
		}
		stack = append(stack, open{end: f.end, name: b.name(f.name)})
	}
	closeUntil(1<<64 - 1)
	return labels
}

// fillGaps gives the labels, which are sorted, the addresses that the sorted
// ranges leave free.
func (b *builder) fillGaps(labels []function) {
	sized := b.ranges
	next := 0 // the first range that begins behind the label
	for i, l := range labels {
		for next < len(sized) && sized[next].start <= l.start {
			next++
		}
		if next > 0 && l.start-sized[next-1].start < uint64(sized[next-1].size) {
			continue // inside a sized function
		}
		end := l.limit
		if next < len(sized) {
			end = min(end, sized[next].start)
		}
		if i+1 < len(labels) {
			end = min(end, labels[i+1].start)
		}
		if end > l.start {
			b.add(l.start, end, b.name(l.name))
		}
	}
}

// validUTF8 replaces what is not UTF-8.
func validUTF8(s string) string {
	if utf8.ValidString(s) {
		return s
	}
	return strings.ToValidUTF8(s, "\uFFFD")
}
