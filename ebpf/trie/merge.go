package trie

import (
	"math"
	"math/bits"
	"slices"
)

// Merge adds up what is chosen of Foldeds as a Tree. It goes through all of them at once, in the order of their frames,
// so that it has all of a node when it leaves it: what is too small to be shown takes no memory. It is not safe for
// concurrent use.
type Merge struct {
	graph
	chosen []*Folded // that were added
	few    int       // nodes that a Tree has at least, if all are not fewer; see Options
	many   int       // that it has at most
	small  int64     // up to this total, few count; above, many

	scale   int64      // divides all values so far
	open    []openNode // nodes on the way, by depth; the first is the root
	numbers []uint32   // of the frames of all Foldeds
	cursors []*cursor  // those at open nodes, and at the ones to come below each
	twins   []*cursor  // not used
	most    int        // nodes, before those are looked for that a Tree will not have

	kept  least // what nodes have that are kept
	limit int   // of nodes that a Tree has, by which it is that

	part *PathID // nodes that lead through it, or are below it, are kept; nil: all
}

// openNode is a node on the way.
type openNode struct {
	at     uint32 // among the nodes
	id     PathID // of a Merge that keeps a part
	inside bool   // it is of the part
}

// openTotal is the total of nodes as long as they are open.
const openTotal = math.MaxInt64

// values are those of the samples at a node and below it.
type values struct{ all, ofPart int64 }

// NewMerge returns an empty Merge.
func NewMerge() *Merge { return &Merge{graph: newGraph()} }

// NewSums returns empty Sums that have their frames from m, which takes less memory than two lists of them. Both are
// Reset together.
func (m *Merge) NewSums(most int) *Sums { return &Sums{most: most, index: m.index} }

// Reset empties m. It keeps the memory that the last Tree took for those to come, and the frames, most of which will
// come again.
func (m *Merge) Reset() {
	m.graph.reset()
	clear(m.chosen)
	clear(m.cursors[:cap(m.cursors)])
	m.chosen, m.cursors, m.twins = m.chosen[:0], m.cursors[:0], nil
}

// Add adds what is chosen of a Folded. All must have the same sample type. Names are those that were shown when it was
// folded.
func (m *Merge) Add(of *Folded, c Choice) (added Added, err error) {
	if m.sampleType, err = sameType(m.sampleType, of.sampleType); err != nil {
		return added, err
	}
	of, added = of.chosen(c)
	m.chosen = append(m.chosen, of)
	m.total += added.Total
	return added, nil
}

// Tree returns the sum of what was added. It is the caller's until Reset.
func (m *Merge) Tree(o Options) *Tree {
	o = o.withDefaults()
	m.part, m.small, m.few, m.many = nil, o.small(m.total), o.Enough, max(o.Enough, o.MaxNodes)
	return m.merge(o)
}

// TreeBelow returns the part of the sum that leads through one node: the node, its callers, and all below it. Nodes
// elsewhere are left out, so that more of these can be shown. What it says of frames, functions and kinds is of all
// that was added, in the scale of that, so that it can be put into its Tree. It returns nil if there is no such node.
// See PathID.
func (m *Merge) TreeBelow(at PathID, o Options) *Tree {
	o = o.withDefaults()
	m.part, m.small, m.few, m.many = &at, 0, o.Enough, max(o.Enough, o.MaxNodes) // nobody knows yet what the part has
	whole := m.total
	defer func() { m.total = whole }()
	if t := m.merge(o); m.total != 0 {
		return t
	}
	return nil
}

// merge adds up all that was added.
func (m *Merge) merge(o Options) *Tree {
	m.scale, m.most = 0, m.few+m.few/2
	m.kept, m.limit = least{near: 1, far: 1}, m.many
	m.nodes = append(slices.Grow(m.nodes[:0], m.expected()), node{total: openTotal})
	m.open = append(m.open[:0], openNode{id: RootPath, inside: m.part == nil || *m.part == RootPath})
	self := m.begin()
	m.tallies.begin(m.index)
	sum := m.below(0, 1)
	sum.all += self
	m.total = m.close(0, self, sum).ofPart
	return m.write(o, max(1, m.scale), m.nodes)
}

// begin makes the cursors, at the first nodes of all. It returns the value of the samples without a frame.
func (m *Merge) begin() (self int64) {
	frames, most := 0, 0
	for _, f := range m.chosen {
		frames, most = frames+f.frames, max(most, f.frames)
	}
	m.index.grow(max(frames/3, most)) // most of them are in several profiles
	m.numbers, m.cursors = grown(m.numbers, frames, 0), m.cursors[:0]
	free := m.numbers
	for _, f := range m.chosen {
		numbers := free[:f.frames]
		free = free[f.frames:]
		f.eachFrame(func(number uint32, of sharedFrame) { numbers[number] = m.index.frame(of) })
		for i := range f.sets {
			s := &f.sets[i]
			self += s.self * f.scale
			c := &cursor{reader: reader{s.nodes}, from: f, numbers: numbers}
			if c.next(); c.depth == 1 {
				m.cursors = append(m.cursors, c)
			}
		}
	}
	return self
}

// expected returns for how many nodes there should be room.
func (m *Merge) expected() int {
	nodes := 1
	for _, f := range m.chosen {
		nodes += f.nodes
	}
	return min(nodes, 5*m.few/2)
}

// below adds the nodes of a depth that cursors are at, those from an index on. It takes these cursors away.
func (m *Merge) below(from, depth int) (sum values) {
	waiting, end := len(m.cursors), len(m.cursors) // of those that wait; the others are behind these nodes
	for i := (waiting - from) / 2; i >= 0; i-- {
		siftDown(m.cursors[from:waiting], i)
	}
	for waiting > from {
		for frame := m.cursors[from].of; waiting > from && m.cursors[from].of == frame; {
			c := m.cursors[from]
			waiting--
			m.cursors[from] = m.cursors[waiting]
			siftDown(m.cursors[from:waiting], 0)
			m.take(c)
		}
		of := m.node(end, depth)
		sum.all, sum.ofPart = sum.all+of.all, sum.ofPart+of.ofPart
		for _, c := range m.cursors[end:] {
			switch {
			case c.depth == depth:
				m.cursors[waiting] = c
				waiting++
				siftUp(m.cursors[from:waiting])
			case c.twinAt == depth:
				m.twins = append(m.twins, c)
			}
		}
		m.cursors = m.cursors[:end]
	}
	m.cursors = m.cursors[:from]
	return sum
}

// take appends a cursor, and one for each of the nodes after its own that are of the same frame.
func (m *Merge) take(c *cursor) {
	for c.rest != nil {
		var twin *cursor
		if n := len(m.twins); n > 0 {
			twin, m.twins = m.twins[n-1], m.twins[:n-1]
		} else {
			twin = &cursor{}
		}
		c.split(twin)
		m.cursors = append(m.cursors, twin)
	}
	m.cursors = append(m.cursors, c)
}

// node adds the node of a depth that all cursors from an index on are at, and those below it.
func (m *Merge) node(from, depth int) values {
	at := m.cursors[from:]
	n := node{total: openTotal, parent: m.open[depth-1].at, frame: at[0].number(), line: at[0].line}
	for _, c := range at {
		n.self += c.self
		if c.line != n.line {
			n.line = 0
		}
		if c.next(); c.depth == depth+1 {
			m.cursors = append(m.cursors, c)
		}
	}
	m.openNode(depth, n)
	outer := m.tallies.enter(n.frame)
	sum := values{}
	if end := from + len(at); len(m.cursors) > end {
		sum = m.below(end, depth+1)
	}
	sum.all += n.self
	m.tallies.leave(n.frame, n.self, sum.all, outer)
	return m.close(depth, n.self, sum)
}

// openNode puts a node on the way, at a depth.
func (m *Merge) openNode(depth int, n node) {
	opened := openNode{at: uint32(len(m.nodes)), inside: true}
	if m.part != nil {
		f := m.index.at(n.frame).function()
		opened.id = m.open[depth-1].id.Child(f.name, f.binary.Value())
		opened.inside = m.open[depth-1].inside || opened.id == *m.part
	}
	m.open = append(m.open[:depth], opened)
	m.nodes = append(m.nodes, n)
}

// close takes the node of a depth off the way, and returns its values. It is the last one there.
func (m *Merge) close(depth int, self int64, sum values) values {
	closed := m.open[depth]
	m.open = m.open[:depth]
	if self != 0 {
		m.scale = commonDivisor(m.scale, self)
	}
	n := &m.nodes[closed.at]
	if n.self, n.total = 0, sum.ofPart; closed.inside {
		n.self, n.total, sum.ofPart = self, sum.all, sum.all
	}
	switch {
	case depth == 0:
	case n.total >= m.kept.at(uint32(depth)):
		if len(m.nodes) > m.most {
			m.prune()
		}
	default:
		if closed.inside || n.total != 0 {
			m.nodes[n.parent].folded += 1 + n.folded
		}
		m.nodes = m.nodes[:closed.at]
	}
	return sum
}

// prune drops nodes that a Tree will not have, and lets nodes to come be as large as the others. If there are none to
// drop, it makes room for more.
func (m *Merge) prune() {
	depths := depthsOf(m.nodes, &m.begins)
	m.raise(depths)
	var moved []uint32
	m.nodes, moved = compact(m.nodes, m.nodes, m.kept, depths, &m.scratch.children)
	for i := range m.open {
		m.open[i].at = moved[m.open[i].at]
	}
	m.most = max(m.most, len(m.nodes)+m.few/2)
}

// raise raises what nodes must have to be kept, as far as it is certain that a Tree will not have smaller ones.
//
// What a Tree has is said by folding.fold: all nodes of some total, and those down to some depth that have a little
// less; together no more than a limit. So there are fewer than all nodes of a total of which there are more than
// that, and it goes less deep than the depth down to which there are.
func (m *Merge) raise(depths []uint32) {
	if total, limit := m.folded(); total >= m.kept.far {
		m.kept = least{near: max(m.kept.near, stepBefore(total)), depth: math.MaxUint32, far: total + 1}
		m.limit = limit
	}
	var byDepth []int // nodes of that total
	for i, n := range m.nodes {
		for int(depths[i]) >= len(byDepth) {
			byDepth = append(byDepth, 0)
		}
		if n.total >= m.kept.far-1 && n.total != openTotal {
			byDepth[depths[i]]++
		}
	}
	nodes := 0
	for depth, n := range byDepth {
		if nodes += n; nodes > m.limit {
			m.kept.depth = min(m.kept.depth, uint32(depth)-1)
			return
		}
	}
}

// folded returns a total of which there are more nodes than a Tree may have, and how many it may have; 0 if there are
// not that many.
func (m *Merge) folded() (least int64, limit int) {
	var sizes [sizeClasses]struct {
		nodes int
		least int64
	}
	for _, n := range m.nodes[1:] {
		if n.total != openTotal {
			of := &sizes[sizeClass(n.total)]
			if of.nodes++; of.nodes == 1 || n.total < of.least {
				of.least = n.total
			}
		}
	}
	nodes := 0
	for _, of := range slices.Backward(sizes[:]) {
		nodes += of.nodes
		if limit = m.few; of.least > m.small {
			limit = m.many
		}
		if nodes > limit {
			return of.least, limit
		}
	}
	return 0, 0
}

// sizeClasses is how many classes of totals there are: four from each power of two to the next.
const sizeClasses = 4 * 63

// sizeClass returns the class of a positive total.
func sizeClass(total int64) int {
	power := bits.Len64(uint64(total)) - 1
	return 4*power + int(uint64(total)<<(63-power)>>61&3)
}

// siftDown puts the cursor with an index of a heap where it belongs, below others. With the heap of the standard
// library, which calls methods for each step, a flame graph takes a third longer.
func siftDown(heap []*cursor, at int) {
	for {
		child := 2*at + 1
		if child >= len(heap) {
			return
		}
		if child+1 < len(heap) && heap[child+1].before(heap[child]) {
			child++
		}
		if !heap[child].before(heap[at]) {
			return
		}
		heap[at], heap[child] = heap[child], heap[at]
		at = child
	}
}

// siftUp puts the last cursor of a heap where it belongs.
func siftUp(heap []*cursor) {
	for at := len(heap) - 1; at > 0; {
		parent := (at - 1) / 2
		if !heap[at].before(heap[parent]) {
			return
		}
		heap[at], heap[parent] = heap[parent], heap[at]
		at = parent
	}
}
