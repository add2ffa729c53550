package dwarfline

// eachArange calls use for the ranges in .debug_aranges (DWARF 5 section 6.1.2), with the offset of
// their unit in .debug_info.
func (f *file) eachArange(w *work, use func(unitAt uint64, r addressRange)) error {
	for at := uint64(0); at < uint64(len(f.Aranges)); {
		c := newCursor(".debug_aranges", f.Aranges, f.Order, at)
		offsetSize := c.unitLength()
		c.skipBytes(2) // version
		unitAt := c.fixed(offsetSize)
		size, segment := c.u8(), c.u8()
		if c.err == nil && (size != 4 && size != 8 || segment != 0) {
			c.failWith("addresses of unknown size")
		}
		if tuple := 2 * uint64(size); c.err == nil && (c.at-at)%tuple != 0 {
			c.skipBytes(tuple - (c.at-at)%tuple)
		}
		steps := 1
		for c.more() {
			if steps++; steps%stepsAtOnce == 0 {
				if err := w.spend(stepsAtOnce); err != nil {
					return err
				}
			}
			low, length := c.fixed(size), c.fixed(size)
			if low == 0 && length == 0 {
				break
			}
			if c.err == nil && low != 0 && low+length > low {
				use(unitAt, addressRange{low, low + length})
			}
		}
		if err := firstError(c.err, w.spend(steps%stepsAtOnce)); err != nil {
			return err
		}
		at = uint64(len(c.data))
	}
	return nil
}
