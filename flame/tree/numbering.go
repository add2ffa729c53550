package tree

import (
	"math/bits"
	"slices"
)

// hashed is a value that a numbering can hold.
type hashed interface {
	comparable
	hash() uint32
}

// numbering numbers values from 0, in the order in which they are added. It is a hash table of numbers, which takes a
// small part of the memory of a map with the values as keys. The zero value is empty.
type numbering[V hashed] struct {
	values []V      // by number
	slots  []uint32 // number plus 1, by hash; 0 if free. The length is a power of two
}

// minSlots is the minimum number of slots of a table.
const minSlots = 64

// number returns the number of a value. It adds the value, and returns true, if the value is new.
func (n *numbering[V]) number(of V) (number uint32, isNew bool) {
	n.growTo(len(n.values) + 1)
	slot := n.slotOf(of)
	if *slot == 0 {
		n.values = append(n.values, of)
		*slot, isNew = uint32(len(n.values)), true
	}
	return *slot - 1, isNew
}

// growTo makes room for the given number of values in all, which is faster than growing in small steps.
func (n *numbering[V]) growTo(values int) {
	if 2*values <= len(n.slots) {
		return
	}
	n.slots = make([]uint32, max(minSlots, 1<<bits.Len(uint(2*values-1))))
	n.values = slices.Grow(n.values, len(n.slots)/2-len(n.values)) // append would grow in more and smaller steps
	for i, value := range n.values {
		*n.slotOf(value) = uint32(i + 1)
	}
}

// slotOf returns the slot with the number of a value, or the free slot for it.
func (n *numbering[V]) slotOf(of V) *uint32 {
	mask := uint32(len(n.slots) - 1)
	for at := of.hash() & mask; ; at = (at + 1) & mask {
		if slot := &n.slots[at]; *slot == 0 || n.values[*slot-1] == of {
			return slot
		}
	}
}

// clear removes all values and keeps the memory.
func (n *numbering[V]) clear() {
	clear(n.values)
	clear(n.slots)
	n.values = n.values[:0]
}

// spread returns a 32-bit hash that differs for nearly all numbers.
func spread(of uint64) uint32 { return uint32(of * 0x9e3779b97f4a7c15 >> 32) }

// pairHash returns a hash of a pair of numbers.
func pairHash(x, y uint32) uint32 { return spread(uint64(x)<<32 | uint64(y)) }
