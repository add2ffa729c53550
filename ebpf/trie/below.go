package trie

// Below returns the part of b that leads through one node: the node, its callers, and all below it. Nodes elsewhere are
// left out, so that more of these can be shown. What its Tree says of frames, functions and kinds is of all of b, in
// b's scale, so that it can be put into a Tree of b. Its Total is 0 if there is no such node. Nothing may be added to
// it. See PathID.
func (b *Builder) Below(at PathID) *Builder {
	part, ofBase := b.through(at)
	out := &Builder{
		sampleType: b.sampleType, total: part[0].total, index: b.index, diff: b.diff, whole: b, settled: true,
	}
	to := make([]uint32, len(part))
	for i, n := range part {
		if i > 0 && n.total == 0 {
			continue
		}
		n.parent = to[n.parent]
		to[i] = uint32(len(out.nodes))
		out.nodes = append(out.nodes, n)
		if ofBase != nil {
			out.ofBase = append(out.ofBase, ofBase[i])
		}
	}
	return out
}

// through returns the nodes of b with what leads through one node, and what is of the base; others have nothing.
func (b *Builder) through(at PathID) (part []node, ofBase [][2]int64) {
	b.settle()
	ids, inside := b.paths(), make([]bool, len(b.nodes))
	part = make([]node, len(b.nodes))
	if b.ofBase != nil {
		ofBase = make([][2]int64, len(b.nodes))
	}
	for i, n := range b.nodes { // a parent comes before its children
		part[i] = node{frame: n.frame, parent: n.parent, line: n.line}
		above := i > 0 && inside[n.parent]
		if inside[i] = above || ids[i] == at; !inside[i] {
			continue
		}
		part[i] = n
		if ofBase != nil {
			ofBase[i] = b.ofBase[i]
		}
		for up := uint32(i); !above && up != 0; { // this is the node: its callers have what it has
			up = b.nodes[up].parent
			part[up].total += n.total
			if ofBase != nil {
				ofBase[up][1] += b.ofBase[i][1]
			}
		}
	}
	return part, ofBase
}

// paths returns the path of each node.
func (b *Builder) paths() []PathID {
	ids := make([]PathID, len(b.nodes))
	ids[0] = RootPath
	for i := 1; i < len(b.nodes); i++ {
		f := b.index.at(b.nodes[i].frame).function()
		ids[i] = ids[b.nodes[i].parent].Child(f.name, f.binary.Value())
	}
	return ids
}
