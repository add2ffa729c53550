package trie

// edges finds the children of nodes: a hash table of the numbers of nodes, by their parents and frames. The zero value
// is empty.
type edges struct {
	table []uint32 // numbers of nodes; 0, which is the root's, for none. Their number is a power of two
	used  int
}

// minEdges is how many entries the smallest table has.
const minEdges = 64

// get returns the child of a node with that frame, or the number of one that is to be appended to nodes now.
func (e *edges) get(nodes []node, parent, frame uint32) (child uint32, isNew bool) {
	if 2*(e.used+1) > len(e.table) {
		e.resize(nodes, max(minEdges, 2*len(e.table)))
	}
	mask := uint32(len(e.table) - 1)
	for at := slotOf(parent, frame) & mask; ; at = (at + 1) & mask {
		child := e.table[at]
		if child == 0 {
			child = uint32(len(nodes))
			e.table[at] = child
			e.used++
			return child, true
		}
		if n := &nodes[child]; n.parent == parent && n.frame == frame {
			return child, false
		}
	}
}

// clear empties the table, and keeps its memory.
func (e *edges) clear() {
	clear(e.table)
	e.used = 0
}

// resize makes a table of that many entries for the nodes, none of which were given up.
func (e *edges) resize(nodes []node, size int) {
	e.table = make([]uint32, size)
	mask := uint32(size - 1)
	for i := 1; i < len(nodes); i++ {
		at := slotOf(nodes[i].parent, nodes[i].frame) & mask
		for e.table[at] != 0 {
			at = (at + 1) & mask
		}
		e.table[at] = uint32(i)
	}
}

// slotOf spreads edges over a table.
func slotOf(parent, frame uint32) uint32 {
	x := (uint64(parent)<<32 | uint64(frame)) * 0x9e3779b97f4a7c15
	return uint32(x >> 32)
}
