package dwarfline

import "fmt"

// addressRange is the addresses [low, high).
type addressRange struct{ low, high uint64 }

// maxRangeList bounds the entries of one list.
const maxRangeList = maxRanges

// eachRange calls use for the non-empty address ranges of an entry, from DW_AT_ranges, or from
// DW_AT_low_pc and DW_AT_high_pc. It returns the number of steps.
func (u *unit) eachRange(d *entry, use func(addressRange)) (steps int, err error) {
	if v, ok := d.getField(fieldRanges); ok {
		return u.rangeList(v, use)
	}
	low, ok := d.getField(fieldLowPC)
	if !ok {
		return 0, nil
	}
	high, ok := d.getField(fieldHighPC)
	if !ok {
		return 0, nil
	}
	r := addressRange{}
	if r.low, err = u.address(low); err != nil {
		return 0, err
	}
	if isAddress(high.form) {
		r.high, err = u.address(high)
	} else {
		r.high = r.low + high.n
	}
	if err == nil && u.isReal(r) {
		use(r)
	}
	return 1, err
}

// isReal reports whether a range is not empty and was not removed. Linkers give removed code address
// 0 or one of the highest addresses.
func (u *unit) isReal(r addressRange) bool {
	highest := uint64(1)<<(8*u.addressSize-1)<<1 - 1
	return r.low < r.high && r.low != 0 && r.low < highest-1
}

// rangeList reads the list that a DW_AT_ranges attribute refers to.
func (u *unit) rangeList(v value, use func(addressRange)) (steps int, err error) {
	if u.version < 5 {
		at := v.n
		if u.skeleton != nil { // relative to the base in the skeleton
			base, _ := u.skeleton.root.getField(fieldRangesBase)
			at += base.n
		}
		return u.oldRangeList(at, use)
	}
	at := v.n
	if v.form == formRnglistx {
		if v.n > 1<<40 {
			return 0, &FormatError{".debug_rnglists", u.rngBase, "index is past the end of the section"}
		}
		c := newCursor(".debug_rnglists", u.RngLists, u.Order, u.rngBase+v.n*uint64(u.offsetSize))
		at = u.rngBase + c.fixed(u.offsetSize)
		if c.err != nil {
			return 0, c.err
		}
	}
	return u.newRangeList(at, use)
}

// oldRangeList reads a list of .debug_ranges (DWARF 4 section 2.17.3).
func (u *unit) oldRangeList(at uint64, use func(addressRange)) (steps int, err error) {
	c := newCursor(".debug_ranges", u.ranges.Ranges, u.Order, at)
	highest := uint64(1)<<(8*u.addressSize-1)<<1 - 1
	base := u.base
	for {
		low, high := c.fixed(u.addressSize), c.fixed(u.addressSize)
		if steps++; steps > maxRangeList {
			return steps, ErrTooMuchWork
		}
		switch {
		case c.err != nil:
			return steps, c.err
		case low == 0 && high == 0:
			return steps, nil
		case low == highest:
			base = high
		default:
			if r := (addressRange{base + low, base + high}); u.isReal(r) {
				use(r)
			}
		}
	}
}

// Entries of a list of .debug_rnglists, DWARF 5 section 7.25.
const (
	rleEnd          = 0
	rleBaseAddrx    = 1
	rleStartxEndx   = 2
	rleStartxLength = 3
	rleOffsetPair   = 4
	rleBase         = 5
	rleStartEnd     = 6
	rleStartLength  = 7
)

func (u *unit) newRangeList(at uint64, use func(addressRange)) (steps int, err error) {
	c := newCursor(".debug_rnglists", u.RngLists, u.Order, at)
	base := u.base
	indexed := func() (a uint64) {
		if a, err = u.addressAt(c.uleb()); err != nil && c.err == nil {
			c.err = err
		}
		return a
	}
	for {
		var r addressRange
		switch kind := c.u8(); kind {
		case rleEnd:
			return steps, c.err
		case rleBaseAddrx:
			base = indexed()
		case rleStartxEndx:
			r.low, r.high = indexed(), indexed()
		case rleStartxLength:
			r.low = indexed()
			r.high = r.low + c.uleb()
		case rleOffsetPair:
			r.low, r.high = base+c.uleb(), base+c.uleb()
		case rleBase:
			base = c.fixed(u.addressSize)
		case rleStartEnd:
			r.low, r.high = c.fixed(u.addressSize), c.fixed(u.addressSize)
		case rleStartLength:
			r.low = c.fixed(u.addressSize)
			r.high = r.low + c.uleb()
		default:
			c.failWith(fmt.Sprintf("unknown entry %d of a range list", kind))
		}
		if c.err != nil {
			return steps, c.err
		}
		if steps++; steps > maxRangeList {
			return steps, ErrTooMuchWork
		}
		if u.isReal(r) {
			use(r)
		}
	}
}
