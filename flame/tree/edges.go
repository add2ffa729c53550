package tree

import "math/bits"

// edges finds the children of nodes. It is a hash table of node numbers by parent and frame.
type edges struct {
	table []uint32 // node numbers; 0, the root's, marks a free slot. The length is a power of two; a third is free
	used  int
}

// getChild returns the child of parent with the given frame. If isNew is true, the caller must now append the child to
// nodes.
func (e *edges) getChild(nodes []node, parent, frame uint32) (child uint32, isNew bool) {
	if 3*(e.used+1) > 2*len(e.table) {
		e.growSlots(nodes)
	}
	slot := e.slotOf(nodes, parent, frame)
	if *slot == 0 {
		*slot, isNew = uint32(len(nodes)), true
		e.used++
	}
	return *slot, isNew
}

// slotOf returns the slot with the number of a child, or the free slot for it.
func (e *edges) slotOf(nodes []node, parent, frame uint32) *uint32 {
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

// growSlots makes room for twice as many edges.
func (e *edges) growSlots(nodes []node) {
	e.table = make([]uint32, max(minSlots, 1<<bits.Len(uint(3*e.used))))
	for child := 1; child < len(nodes); child++ {
		*e.slotOf(nodes, nodes[child].parent, nodes[child].frame) = uint32(child)
	}
}
