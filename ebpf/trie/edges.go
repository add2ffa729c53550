package trie

import "math/bits"

// edges finds the children of nodes: a hash table of the numbers of nodes, by their parents and frames. The first child
// of each node, which its parent has, is not in it: that is most of them, and they lie next to their parents.
type edges struct {
	table []uint32 // numbers of nodes; 0, which is the root's, for none. A power of two, of which a third is free
	used  int
	room  room
}

// get returns the child of one of b's nodes with that frame, or the number of one that is to be appended to them now.
func (e *edges) get(b *Builder, parent, frame uint32) (child uint32, isNew bool) {
	first := &b.nodes[parent].first
	switch {
	case *first == 0:
		*first = uint32(len(b.nodes))
		return *first, true
	case b.nodes[*first].frame == frame:
		return *first, false
	}
	if 3*(e.used+1) > 2*len(e.table) {
		e.grow(b, 2*e.used)
	}
	slot := e.slot(b.nodes, parent, frame)
	if *slot == 0 {
		*slot, isNew = uint32(len(b.nodes)), true
		e.used++
	}
	return *slot, isNew
}

// slot returns where the number of a child is, or 0 where it is to be.
func (e *edges) slot(nodes []node, parent, frame uint32) *uint32 {
	mask := uint32(len(e.table) - 1)
	for at := pairHash(parent, frame) & mask; ; at = (at + 1) & mask {
		slot := &e.table[at]
		if *slot == 0 {
			return slot
		}
		if n := &nodes[*slot]; n.parent == parent && n.frame == frame {
			return slot
		}
	}
}

// grow makes room for that many edges of b.
func (e *edges) grow(b *Builder, edges int) {
	slots := max(minSlots, 1<<bits.Len(uint(edges+edges/2)))
	if slots <= len(e.table) {
		return
	}
	old, before := e.room, e.table
	e.room = newRoom(b, bytesOf[uint32](slots))
	e.table = take[uint32](&e.room, slots)
	populate(&e.room, e.table)
	for _, child := range before {
		if child != 0 {
			n := &b.nodes[child]
			*e.slot(b.nodes, n.parent, n.frame) = child
		}
	}
	old.release()
}

// clear empties the table, and keeps its memory.
func (e *edges) clear() {
	clear(e.table)
	e.used = 0
}

// release empties the table, and gives its memory back.
func (e *edges) release() {
	e.room.release()
	*e = edges{}
}
