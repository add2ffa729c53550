package trie

// edges finds the children of nodes: a hash table of the numbers of nodes, by their parents and frames. The first child
// of each node, which its parent has, is not in it: that is most of them, and they lie next to their parents.
type edges struct {
	table []uint32 // numbers of nodes; 0, which is the root's, for none. A power of two, twice as many as nodes or more
}

// get returns the child of a node with that frame, or the number of one that is to be appended to nodes now.
func (e *edges) get(nodes []node, parent, frame uint32) (child uint32, isNew bool) {
	first := &nodes[parent].first
	switch {
	case *first == 0:
		*first = uint32(len(nodes))
		return *first, true
	case nodes[*first].frame == frame:
		return *first, false
	}
	mask := uint32(len(e.table) - 1)
	for at := slotOf(parent, frame) & mask; ; at = (at + 1) & mask {
		child := e.table[at]
		if child == 0 {
			child = uint32(len(nodes))
			e.table[at] = child
			return child, true
		}
		if n := &nodes[child]; n.parent == parent && n.frame == frame {
			return child, false
		}
	}
}

// fill notes all nodes in an empty table.
func (e *edges) fill(nodes []node) {
	for i := 1; i < len(nodes); i++ {
		if n := &nodes[i]; nodes[n.parent].first != uint32(i) {
			e.get(nodes[:i], n.parent, n.frame)
		}
	}
}

// clear empties the table, and keeps its memory.
func (e *edges) clear() { clear(e.table) }

// slotOf spreads edges over a table.
func slotOf(parent, frame uint32) uint32 {
	x := (uint64(parent)<<32 | uint64(frame)) * 0x9e3779b97f4a7c15
	return uint32(x >> 32)
}
