package dwarfline

import (
	"cmp"
	"debug/dwarf"
	"slices"
)

// piece is a contiguous part of a function.
type piece struct {
	low, high uint64
	entry     uint64 // offset of the function's entry in .debug_info
	highest   uint64 // largest high of the pieces up to this one, set by sortPieces
}

const pieceSize = 32

// maxPieces bounds the memory of one unit's functions.
const maxPieces = 2 << 20

// functions reads all entries of a unit once and returns the pieces of its functions, sorted.
func (u *unit) functions(w *work) ([]piece, error) {
	var pieces []piece
	var d entry
	c := u.cursor(u.first)
	var err error
	for c.more() && err == nil {
		steps := u.abbrevs.readEntry(&c, u.encoding, &d)
		if d.tag == dwarf.TagSubprogram && c.err == nil {
			var more int
			more, err = u.eachRange(&d, func(r addressRange) {
				if len(pieces) < maxPieces {
					pieces = append(pieces, piece{low: r.low, high: r.high, entry: d.at})
				}
			})
			steps += more
		}
		err = firstError(err, w.spend(steps))
	}
	return sortPieces(pieces), firstError(c.err, err)
}

func sortPieces(pieces []piece) []piece {
	slices.SortStableFunc(pieces, func(a, b piece) int { return cmp.Compare(a.low, b.low) })
	highest := uint64(0)
	for i := range pieces {
		highest = max(highest, pieces[i].high)
		pieces[i].highest = highest
	}
	return slices.Clip(pieces)
}

// functionAt returns the entry of the function at an address. If several pieces cover the address,
// the smallest wins, and among equally small pieces the last entry.
func functionAt(pieces []piece, addr uint64, w *work) (entryAt uint64, ok bool, err error) {
	i, _ := slices.BinarySearchFunc(pieces, addr, func(p piece, addr uint64) int {
		if p.low <= addr {
			return -1
		}
		return 1
	})
	best := uint64(1<<64 - 1)
	from := i
	for i--; i >= 0 && pieces[i].highest > addr; i-- {
		p := &pieces[i]
		if size := p.high - p.low; addr < p.high && (size < best || size == best && p.entry > entryAt) {
			best, entryAt, ok = size, p.entry, true
		}
	}
	return entryAt, ok, w.spend(from - i)
}

// call is the entry of a function or of a call inlined into it.
type call struct {
	parent int32  // index of the call into which it is inlined; -1 if none
	depth  int32  // depth of the entry below the function's entry
	entry  uint64 // offset in .debug_info
}

// Limits on the inlined calls of one function, and on the frames of one address.
const (
	maxCalls  = 1 << 20
	maxFrames = 512
)

// callsAt reads the entries below a function's entry and returns the offsets of the calls at an
// address: the innermost inlined call first and the function itself last.
//
// The innermost call is the one with the smallest contiguous range around the address, as in BFD.
// Its callers are the calls around its entry, even if a compiler left the address out of their
// ranges.
func (u *unit) callsAt(function, addr uint64, w *work) ([]uint64, error) {
	c := u.cursor(function)
	var d entry
	u.abbrevs.readEntry(&c, u.encoding, &d)
	if c.err != nil || !d.children {
		return []uint64{function}, c.err
	}
	t := callTree{calls: []call{{parent: -1, entry: function}}, bestSize: 1<<64 - 1}
	depth := int32(1)
	nested := int32(0) // depth of a nested function while its entries are read
	var err error
	for depth > 0 && c.more() && err == nil {
		steps := u.abbrevs.readEntry(&c, u.encoding, &d)
		switch {
		case d.tag == 0:
			if depth--; depth == nested {
				nested = 0
			}
			t.leave(depth)
		case nested == 0 && d.tag == dwarf.TagInlinedSubroutine:
			var size uint64
			var more int
			size, more, err = u.smallestRange(&d, addr)
			steps += more
			err = firstError(err, t.addEntry(&d, depth, size))
		case nested == 0 && d.tag == dwarf.TagSubprogram && d.children:
			nested = depth
		}
		if d.tag != 0 && d.children {
			depth++
		}
		err = firstError(err, w.spend(steps))
	}
	return t.chain(), firstError(c.err, err)
}

// smallestRange returns the size of an entry's smallest range around an address, 0 if there is
// none.
func (u *unit) smallestRange(d *entry, addr uint64) (size uint64, steps int, err error) {
	steps, err = u.eachRange(d, func(r addressRange) {
		if n := r.high - r.low; addr >= r.low && addr < r.high && (size == 0 || n < size) {
			size = n
		}
	})
	return size, steps, err
}

// callTree holds the inlined calls of a function that were read so far.
type callTree struct {
	calls    []call // the function itself first
	inside   int32  // the call that contains the next entry
	best     int32  // the innermost call around the address
	bestSize uint64 // size of its range
}

func (t *callTree) addEntry(d *entry, depth int32, size uint64) error {
	if size == 0 && !d.children {
		return nil
	}
	if len(t.calls) == maxCalls {
		return ErrTooMuchWork
	}
	this := int32(len(t.calls))
	t.calls = append(t.calls, call{parent: t.inside, depth: depth, entry: d.at})
	if size > 0 && size <= t.bestSize {
		t.best, t.bestSize = this, size
	}
	if d.children {
		t.inside = this
	}
	return nil
}

// leave ends the children of the entries at a depth.
func (t *callTree) leave(depth int32) {
	for t.inside > 0 && t.calls[t.inside].depth >= depth {
		t.inside = t.calls[t.inside].parent
	}
}

func (t *callTree) chain() []uint64 {
	var entries []uint64
	for i := t.best; i >= 0 && len(entries) < maxFrames; i = t.calls[i].parent {
		entries = append(entries, t.calls[i].entry)
	}
	return entries
}
