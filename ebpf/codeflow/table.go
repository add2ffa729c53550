package codeflow

import (
	"cmp"
	"encoding/binary"
	"slices"
)

// Limits of the search for a jump table.
const (
	maxTable    = 4096 // entries
	maxDistance = 128  // bytes of code between a comparison with the number of entries and the jump
)

// readTable returns where a jump by a table leads to. The table is where an instruction before the jump computes its
// address, and has as many entries as a comparison before the jump says. One of which an entry lies outside of the
// function is none. If there is no table the jump remains unfollowed.
func (w *walk) readTable(jump step) (targets []uint64) {
	count := w.countBefore(jump.Addr)
	if count > 0 {
		for _, base := range w.basesBefore(jump) {
			if targets := w.tableAt(base, count, jump.absolute); targets != nil {
				return targets
			}
		}
	}
	if f := w.function; f.Unfollowed == 0 || jump.Addr < f.Unfollowed {
		f.Unfollowed = jump.Addr
	}
	return nil
}

// countBefore returns the number of entries that the nearest comparison before an address allows; 0: there is none.
func (w *walk) countBefore(addr uint64) (count uint64) {
	nearest := uint64(0)
	for at, s := range w.met {
		if s.bound != 0 && at < addr && addr-at <= maxDistance && at >= nearest {
			nearest, count = at, s.bound
		}
	}
	if count > maxTable {
		return 0
	}
	return count
}

// basesBefore returns the addresses that may be that of a jump's table: its own, else those that the function computes,
// the nearest before the jump first.
func (w *walk) basesBefore(jump step) (bases []uint64) {
	if jump.base != 0 {
		return []uint64{jump.base}
	}
	var places []uint64
	for at, s := range w.met {
		if s.base != 0 {
			places = append(places, at)
		}
	}
	slices.SortFunc(places, func(a, b uint64) int { return cmp.Compare(jump.Addr-a, jump.Addr-b) })
	for _, at := range places {
		bases = append(bases, w.met[at].base)
	}
	return bases
}

// tableAt reads a table of addresses, or of distances from the table of 4 bytes. Nil: an entry is no place in the
// function.
func (w *walk) tableAt(base, count uint64, absolute bool) []uint64 {
	size := uint64(4)
	if absolute {
		size = 8
	}
	raw := make([]byte, count*size)
	if w.partOf(base) != nil || w.image.ReadVaddr(raw, base) != nil {
		return nil
	}
	targets := make([]uint64, 0, count)
	for i := range count {
		target := base + uint64(int64(int32(binary.LittleEndian.Uint32(raw[i*size:]))))
		if absolute {
			target = binary.LittleEndian.Uint64(raw[i*size:])
		}
		if w.partOf(target) == nil {
			return nil
		}
		targets = append(targets, target)
	}
	return targets
}
