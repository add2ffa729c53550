package dwarfline

import (
	"cmp"
	"fmt"
	"slices"
)

// Limits of the index. Chromium has some 35,000 units of 1.5 million functions.
const (
	maxUnits  = 1 << 20
	maxRanges = 4 << 20
)

// dropEvery is the number of units after which the index drops the pages that it read: some 64 KiB
// for each unit, because the kernel maps more than the page read.
const dropEvery = 256

// padding is the maximum gap in bytes between two ranges of a unit that the index merges.
const padding = 64

// index maps addresses to units.
type index struct {
	ranges   []unitRange // disjoint, sorted by address
	partial  []uint32    // used while building: units that may have more ranges than their root states
	unranged []uint32    // units that do not state their ranges
}

// unitRange is an address range of a unit; unit is its index in file.units.
type unitRange struct {
	low, high uint64
	unit      uint32
}

// indexUnits finds all units of a file and sets f.units.
func indexUnits(f *file, w *work) error {
	f.units = []uint64{}
	padding := 0
	for at := uint64(0); at < uint64(len(f.Info)); {
		c := newCursor(".debug_info", f.Info, f.Order, at)
		c.unitLength()
		if err := firstError(c.err, w.spend(1)); err != nil {
			return err
		}
		if len(f.units) == maxUnits {
			return fmt.Errorf("%w: more than %d units", ErrTooMuchWork, maxUnits)
		}
		if uint64(len(c.data)) > c.at { // not padding
			f.units = append(f.units, at)
		} else if padding++; padding > maxUnits { // a sparse file
			return fmt.Errorf("%w: more than %d empty units", ErrTooMuchWork, maxUnits)
		}
		at = uint64(len(c.data))
	}
	return nil
}

// unitOf returns the index of the unit that contains an offset of .debug_info.
func (f *file) unitOf(at uint64) (int, bool) {
	i, found := slices.BinarySearch(f.units, at)
	if !found {
		i--
	}
	return i, i >= 0
}

// newIndex reads the root entries of all units of a file. It leaves out damaged units, and returns
// the first error.
func newIndex(f *file, w *work) (*index, error) {
	first := indexUnits(f, w)
	x := &index{}
	for i, at := range f.units {
		u, err := readUnit(f, at, true, w)
		if err == nil && u.isCode() {
			err = x.addUnit(uint32(i), u, w)
		}
		first = firstError(first, err)
		if w.left < 0 {
			break
		}
		if i%dropEvery == dropEvery-1 {
			f.dropPages()
		}
		if len(x.ranges) > maxRanges {
			first = fmt.Errorf("%w: more than %d address ranges", ErrTooMuchWork, maxRanges)
			break
		}
	}
	first = firstError(first, x.addAranges(f, w))
	x.sortRanges()
	return x, first
}

// addAranges adds the ranges of .debug_aranges for units that do not state their ranges, and for
// DWARF 2 units, which can state only one.
func (x *index) addAranges(f *file, w *work) error {
	if len(x.partial) == 0 {
		return nil
	}
	told := map[uint32]bool{}
	err := f.eachArange(w, func(unitAt uint64, r addressRange) {
		i, found := slices.BinarySearch(f.units, unitAt)
		if _, partial := slices.BinarySearch(x.partial, uint32(i)); found && partial {
			x.addRange(r, uint32(i))
			told[uint32(i)] = true
		}
	})
	x.unranged = slices.DeleteFunc(x.unranged, func(number uint32) bool { return told[number] })
	x.partial = nil
	return err
}

// addUnit adds the ranges that a unit's root entry states.
func (x *index) addUnit(number uint32, u *unit, w *work) error {
	before := len(x.ranges)
	steps, err := u.eachRange(&u.root, func(r addressRange) { x.addRange(r, number) })
	_, split := u.root.getField(fieldDwoName)
	none := len(x.ranges) == before && err == nil && steps == 0 && !split && u.root.children
	if none {
		x.unranged = append(x.unranged, number)
	}
	if none || u.version <= 2 {
		x.partial = append(x.partial, number)
	}
	return firstError(err, w.spend(steps+1))
}

func (x *index) addRange(r addressRange, number uint32) {
	if len(x.ranges) > maxRanges {
		return
	}
	if n := len(x.ranges); n > 0 {
		last := &x.ranges[n-1]
		if last.unit == number && r.low >= last.high && r.low-last.high < padding {
			last.high = r.high
			return
		}
	}
	x.ranges = append(x.ranges, unitRange{r.low, r.high, number})
}

// sortRanges makes the ranges disjoint. Where ranges overlap, the range with the highest start wins, and
// among ranges with the same start the shortest.
func (x *index) sortRanges() {
	slices.SortFunc(x.ranges, func(a, b unitRange) int {
		return cmp.Or(cmp.Compare(a.low, b.low), cmp.Compare(b.high, a.high), cmp.Compare(a.unit, b.unit))
	})
	var out, open []unitRange
	out = make([]unitRange, 0, len(x.ranges))
	emit := func(low, high uint64, unit uint32) {
		if n := len(out); n > 0 && out[n-1].unit == unit && low-out[n-1].high < padding {
			out[n-1].high = high
		} else if low < high {
			out = append(out, unitRange{low, high, unit})
		}
	}
	at := uint64(0) // the ranges up to this address are in out
	closeUntil := func(addr uint64) {
		for len(open) > 0 && at < addr {
			top := open[len(open)-1]
			if end := min(top.high, addr); end > at {
				emit(at, end, top.unit)
				at = end
			}
			if top.high > addr {
				return
			}
			open = open[:len(open)-1]
		}
	}
	for _, r := range x.ranges {
		closeUntil(r.low)
		at = r.low
		for len(open) > 0 && open[len(open)-1].high <= at {
			open = open[:len(open)-1]
		}
		open = append(open, r)
	}
	closeUntil(1<<64 - 1)
	x.ranges = slices.Clip(out)
}

// findUnit returns the number of the unit that covers an address.
func (x *index) findUnit(addr uint64) (uint32, bool) {
	i, found := slices.BinarySearchFunc(x.ranges, addr,
		func(r unitRange, addr uint64) int { return cmp.Compare(r.low, addr) })
	if !found {
		i--
	}
	if i < 0 || addr >= x.ranges[i].high {
		return 0, false
	}
	return x.ranges[i].unit, true
}

const unitRangeSize = 24

func (x *index) bytes() int { return cap(x.ranges)*unitRangeSize + cap(x.unranged)*4 }

// addFunctions adds the functions of the units that do not state their ranges. Old compilers made
// such units.
func (x *index) addFunctions(f *file, w *work) error {
	var first error
	units := x.unranged
	x.unranged = nil
	for _, number := range units {
		if w.left < 0 {
			break
		}
		u, err := readUnit(f, f.units[number], false, w)
		if err == nil {
			var functions []piece
			functions, err = u.functions(w)
			for _, p := range functions {
				x.addRange(addressRange{p.low, p.high}, number)
			}
		}
		first = firstError(first, err)
	}
	x.sortRanges()
	return first
}
