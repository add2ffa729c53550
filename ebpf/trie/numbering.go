package trie

import (
	"math/bits"
	"slices"
)

// hashed is what can be numbered.
type hashed interface {
	comparable
	hash() uint32
}

// numbering gives values numbers, from 0 on in the order in which they come: a hash table of numbers takes a small part
// of the memory of a map that has the values as keys. The zero value is empty.
type numbering[V hashed] struct {
	values []V      // by number
	slots  []uint32 // numbers and one, by hash; 0: none. There is a power of two of them
}

// minSlots is how many slots the smallest table has.
const minSlots = 64

// number returns the number of a value, and whether it has just got it.
func (n *numbering[V]) number(of V) (number uint32, isNew bool) {
	n.grow(len(n.values) + 1)
	slot := n.slot(of)
	if *slot == 0 {
		n.values = append(n.values, of)
		*slot, isNew = uint32(len(n.values)), true
	}
	return *slot - 1, isNew
}

// grow makes room for that many values, which is faster than little by little.
func (n *numbering[V]) grow(values int) {
	if 2*values <= len(n.slots) {
		return
	}
	n.slots = make([]uint32, max(minSlots, 1<<bits.Len(uint(2*values-1))))
	n.values = slices.Grow(n.values, len(n.slots)/2-len(n.values)) // append would do so in more and smaller steps
	for i, value := range n.values {
		*n.slot(value) = uint32(i + 1)
	}
}

// slot returns where the number of a value is, or 0 where it is to be.
func (n *numbering[V]) slot(of V) *uint32 {
	mask := uint32(len(n.slots) - 1)
	for at := of.hash() & mask; ; at = (at + 1) & mask {
		if slot := &n.slots[at]; *slot == 0 || n.values[*slot-1] == of {
			return slot
		}
	}
}

// clear forgets all values, and keeps the memory.
func (n *numbering[V]) clear() {
	clear(n.values)
	clear(n.slots)
	n.values = n.values[:0]
}

// spread returns 32 bits that differ for nearly all numbers.
func spread(of uint64) uint32 { return uint32(of * 0x9e3779b97f4a7c15 >> 32) }

// pairHash spreads pairs of numbers over a table.
func pairHash(x, y uint32) uint32 { return spread(uint64(x)<<32 | uint64(y)) }
