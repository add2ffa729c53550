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

// readTable returns the targets of an indirect jump. The number of entries of its jump table comes
// from a comparison before the jump, and the table's address from an instruction that computes an
// address. A table with an entry outside the function is rejected. If no table fits, the jump is
// recorded in Unfollowed.
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

// countBefore returns the number of entries that the nearest comparison before an address allows, 0
// if there is none.
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

// basesBefore returns candidates for the address of a jump's table: the jump's own base, or the
// addresses that the function computes, starting with the nearest before the jump.
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

// tableAt reads a table of addresses, or of 4-byte distances from the table. It returns nil if an
// entry is outside the function.
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
