package dwarfline

import (
	"debug/dwarf"
	"errors"
	"fmt"
)

// errNoSplit says that the .dwo file with a unit's entries was not found.
var errNoSplit = errors.New("the .dwo file is missing")

// splitOf returns the split unit of the skeleton root.
func (d *Data) splitOf(root *unit, w *work) (*unit, error) {
	id := root.id
	if v, ok := root.root.getField(fieldDwoID); ok {
		id = v.n
	}
	u, err := d.packaged(root, id, w)
	if u != nil || err != nil {
		return u, err
	}
	wanted := SplitUnit{ID: id}
	for _, part := range []struct {
		field field
		text  *string
	}{{fieldDwoName, &wanted.Name}, {fieldCompDir, &wanted.CompDir}} {
		if v, ok := root.root.getField(part.field); ok {
			if *part.text, err = root.textOf(v, d.supplementary); err != nil {
				return nil, err
			}
		}
	}
	if d.opts.Split == nil {
		return nil, fmt.Errorf("%s: %w", wanted.Name, errNoSplit)
	}
	s, err := d.opts.Split(wanted)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", wanted.Name, err)
	}
	if s == nil {
		return nil, fmt.Errorf("%s: %w", wanted.Name, errNoSplit)
	}
	u, err = splitUnit(&file{Sections: s, splits: true}, root, id, w)
	if err != nil {
		s.close()
		return nil, fmt.Errorf("%s: %w", wanted.Name, err)
	}
	u.owned = true
	return u, nil
}

// splitUnit finds the split unit with that ID in a .dwo file.
func splitUnit(f *file, skeleton *unit, id uint64, w *work) (*unit, error) {
	if err := indexUnits(f, w); err != nil {
		return nil, err
	}
	for _, at := range f.units {
		u, err := readUnit(f, at, true, w)
		if err != nil {
			return nil, err
		}
		if u.root.tag != dwarf.TagCompileUnit {
			continue
		}
		theirs := u.header.id
		if v, ok := u.root.getField(fieldDwoID); ok {
			theirs = v.n
		}
		if theirs != id {
			continue
		}
		if u, err = readUnit(f, at, false, w); err != nil {
			return nil, err
		}
		u.skeleton, u.base, u.addrBase = skeleton, skeleton.base, skeleton.addrBase
		u.addresses, u.ranges = skeleton.file, skeleton.file
		return u, nil
	}
	return nil, fmt.Errorf("no unit with the ID %#x: the file is of another build", id)
}

// packaged returns the split unit with that ID from the .dwp file, nil if there is none.
func (d *Data) packaged(root *unit, id uint64, w *work) (*unit, error) {
	f, err := d.pkg.openFile()
	if f == nil || err != nil {
		return nil, err
	}
	if d.packages == nil {
		x, err := readCUIndex(f.Sections, w)
		if err != nil {
			d.pkg.err = err
			return nil, err
		}
		d.packages = x
	}
	part := d.packages.partOf(f.Sections, id)
	if part == nil {
		return nil, nil
	}
	return splitUnit(&file{Sections: part, splits: true}, root, id, w)
}

// cuIndex is the .debug_cu_index of a package (DWARF 5 section 7.3.5.3).
type cuIndex struct {
	columns []uint32       // section of each column: dwpInfo, ...
	rows    map[uint64]int // by unit ID
	offsets numberTable
	sizes   numberTable
}

// numberTable returns a number of a table.
type numberTable func(row, column int) uint64

// Sections of a package. Version 2, GNU's, has .debug_types for 2 and .debug_macinfo for 7.
const (
	dwpInfo       = 1
	dwpAbbrev     = 3
	dwpLine       = 4
	dwpStrOffsets = 6
	dwpRngLists   = 8
)

// maxSlots bounds the slots of an index. An index has twice as many slots as units.
const maxSlots = 2 * maxUnits

// readCUIndex reads the index: the version; the numbers of columns, units and slots; the IDs of the
// slots; their rows, counted from 1; the sections of the columns; the offsets; the sizes.
func readCUIndex(s *Sections, w *work) (*cuIndex, error) {
	c := newCursor(".debug_cu_index", s.CUIndex, s.Order, 0)
	version := c.fixed(2) // GNU's version has 32 bits, DWARF 5 has 16 and padding
	if second := c.fixed(2); version == 0 {
		version = second
	}
	columns, units, slots := c.fixed(4), c.fixed(4), c.fixed(4)
	if c.err == nil && version != 2 && version != 5 {
		c.failWith(fmt.Sprintf("unknown version %d", version))
	}
	size := uint64(len(c.data))
	if columns > 16 || slots > size/12 || units > size/8 {
		c.failWith("the table is larger than the section")
	}
	if slots > maxSlots {
		c.failWith("more slots than any package needs")
	}
	ids, rows := c.takeBytes(slots*8), c.takeBytes(slots*4)
	names := c.takeBytes(columns * 4)
	offsets, sizes := c.takeBytes(units*columns*4), c.takeBytes(units*columns*4)
	if err := firstError(c.err, w.spend(int(slots))); err != nil {
		return nil, err
	}
	table := func(b []byte) numberTable {
		return func(row, column int) uint64 { return uint64(s.Order.Uint32(b[(row*int(columns)+column)*4:])) }
	}
	x := &cuIndex{rows: map[uint64]int{}, offsets: table(offsets), sizes: table(sizes)}
	for i := range slots {
		if row := s.Order.Uint32(rows[i*4:]); row > 0 && uint64(row) <= units {
			x.rows[s.Order.Uint64(ids[i*8:])] = int(row) - 1
		}
	}
	for i := range columns {
		x.columns = append(x.columns, s.Order.Uint32(names[i*4:]))
	}
	return x, nil
}

// partOf returns the sections of one unit, nil if the unit is not in the package.
func (x *cuIndex) partOf(s *Sections, id uint64) *Sections {
	row, ok := x.rows[id]
	if !ok {
		return nil
	}
	part := *s
	part.Close, part.CUIndex = nil, nil
	for i, column := range x.columns {
		target := map[uint32]*[]byte{
			dwpInfo: &part.Info, dwpAbbrev: &part.Abbrev, dwpLine: &part.Line, dwpStrOffsets: &part.StrOffsets,
			dwpRngLists: &part.RngLists,
		}[column]
		if target == nil {
			continue
		}
		whole, offset := uint64(len(*target)), x.offsets(row, i)
		if size := x.sizes(row, i); offset <= whole && size <= whole-offset {
			*target = (*target)[offset : offset+size]
		} else {
			*target = nil
		}
	}
	return &part
}
