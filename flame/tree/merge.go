package tree

import (
	"math"
	"math/bits"
	"slices"
)

// Merge adds up the chosen samples of several Foldeds as a Tree. It walks all Foldeds at once, in the order of their
// frames, so that the total of a node is complete when Merge leaves the node. Nodes too small to show take no memory.
// It is not safe for concurrent use.
type Merge struct {
	graph
	chosen []*Folded // the chosen parts of the added Foldeds
	few    int       // Options.Enough: a Tree has at least this many nodes, if there are as many
	many   int       // maximum number of nodes of a Tree
	small  int64     // few limits the nodes up to this total, many the nodes above it

	scale   int64      // greatest common divisor of all values so far
	open    []openNode // nodes on the current path, by depth; the first is the root
	numbers []uint32   // frame numbers in index of all Foldeds
	cursors []*cursor  // cursors at the open nodes, and at the next nodes below each
	twins   []*cursor  // unused cursors, for reuse
	most    int        // number of nodes above which close calls prune

	kept  least // minimum totals of the nodes to keep
	limit int   // maximum number of nodes that kept was computed for

	part *PathID // keep only the node with this ID, its callers and all nodes below it; nil keeps all
}

// openNode is a node on the current path.
type openNode struct {
	at     uint32 // index in nodes
	id     PathID // set only if part is set
	inside bool   // it is the node of part, or below it
}

// openTotal is the total of open nodes, before their total is known.
const openTotal = math.MaxInt64

// values are the values of the samples at a node and below it.
type values struct{ all, ofPart int64 }

// NewMerge returns an empty Merge.
func NewMerge() *Merge { return &Merge{graph: newGraph()} }

// NewSums returns empty Sums that share the frames of m, which saves the memory of a second list. m and the Sums must
// be Reset together.
func (m *Merge) NewSums(most int) *Sums { return &Sums{most: most, index: m.index} }

// Reset empties m. It keeps the memory of the last Tree for reuse, and the frames, as most will occur again.
func (m *Merge) Reset() {
	m.graph.reset()
	clear(m.chosen)
	clear(m.cursors[:cap(m.cursors)])
	m.chosen, m.cursors, m.twins = m.chosen[:0], m.cursors[:0], nil
}

// Add adds the chosen samples of a Folded. All must have the same sample type. Functions have the names from Fold.
func (m *Merge) Add(of *Folded, c Choice) (added Added, err error) {
	if m.sampleType, err = sameType(m.sampleType, of.sampleType); err != nil {
		return added, err
	}
	of, added = of.chosen(c)
	m.chosen = append(m.chosen, of)
	m.total += added.Total
	return added, nil
}

// Tree returns the sum of the added profiles. It is valid until Reset.
func (m *Merge) Tree(o Options) *Tree {
	o = o.withDefaults()
	m.part, m.small, m.few, m.many = nil, o.small(m.total), o.Enough, max(o.Enough, o.MaxNodes)
	return m.merge(o)
}

// TreeBelow returns the part of the sum for one node: the node, its callers, and all nodes below it. Other nodes are
// left out, so that there is room for more nodes of this part. The values of frames, functions and kinds are for all
// added profiles, in the same scale as Tree, so that the nodes can be put into that Tree. TreeBelow returns nil if
// there is no such node. See PathID.
func (m *Merge) TreeBelow(at PathID, o Options) *Tree {
	o = o.withDefaults()
	m.part, m.small, m.few, m.many = &at, 0, o.Enough, max(o.Enough, o.MaxNodes) // the part's total is unknown
	whole := m.total
	defer func() { m.total = whole }()
	if t := m.merge(o); m.total != 0 {
		return t
	}
	return nil
}

// merge adds up all added Foldeds.
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

// begin makes a cursor at the first node of each set. It returns the value of the samples without a frame.
func (m *Merge) begin() (self int64) {
	frames, most := 0, 0
	for _, f := range m.chosen {
		frames, most = frames+f.frames, max(most, f.frames)
	}
	m.index.growTo(max(frames/3, most)) // most frames are in several profiles
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
			if c.nextNode(); c.depth == 1 {
				m.cursors = append(m.cursors, c)
			}
		}
	}
	return self
}

// expected returns the number of nodes to make room for.
func (m *Merge) expected() int {
	nodes := 1
	for _, f := range m.chosen {
		nodes += f.nodes
	}
	return min(nodes, 5*m.few/2)
}

// below adds the nodes at a depth, and all nodes below them. The cursors from the index from on are at these nodes;
// below removes the cursors.
func (m *Merge) below(from, depth int) (sum values) {
	waiting, end := len(m.cursors), len(m.cursors) // cursors[from:waiting] wait in a heap
	for i := (waiting - from) / 2; i >= 0; i-- {
		siftDown(m.cursors[from:waiting], i)
	}
	for waiting > from {
		for frame := m.cursors[from].of; waiting > from && m.cursors[from].of == frame; {
			c := m.cursors[from]
			waiting--
			m.cursors[from] = m.cursors[waiting]
			siftDown(m.cursors[from:waiting], 0)
			m.takeNode(c)
		}
		of := m.writeNode(end, depth)
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

// takeNode appends a cursor, and a twin for each following sibling with the same frame.
func (m *Merge) takeNode(c *cursor) {
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

// writeNode adds the node at a depth that all cursors from the index from on are at, and all nodes below it.
func (m *Merge) writeNode(from, depth int) values {
	at := m.cursors[from:]
	n := node{total: openTotal, parent: m.open[depth-1].at, frame: at[0].number(), line: at[0].line}
	for _, c := range at {
		n.self += c.self
		if c.line != n.line {
			n.line = 0
		}
		if c.nextNode(); c.depth == depth+1 {
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

// openNode appends a node to nodes, and to the current path at a depth.
func (m *Merge) openNode(depth int, n node) {
	opened := openNode{at: uint32(len(m.nodes)), inside: true}
	if m.part != nil {
		f := m.index.frameAt(n.frame).function()
		opened.id = m.open[depth-1].id.Child(f.name, f.binary.Value())
		opened.inside = m.open[depth-1].inside || opened.id == *m.part
	}
	m.open = append(m.open[:depth], opened)
	m.nodes = append(m.nodes, n)
}

// close removes the node at a depth, the last one, from the current path, and returns its values.
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
	case n.total >= m.kept.atDepth(uint32(depth)):
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

// prune drops nodes that a Tree will not have, and raises the minimum for later nodes. If there is too little to drop,
// it lets nodes grow.
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

// raise raises the minimum totals in kept, as far as it is certain that a Tree will not have smaller nodes.
//
// folding.foldNodes shows all nodes of at least some total and, down to some depth, nodes of a slightly smaller total:
// together at most the limit. So if more nodes than the limit have at least some total, fold's minimum total is larger.
// And if the nodes of that total down to some depth exceed the limit, fold does not show smaller nodes at that depth.
func (m *Merge) raise(depths []uint32) {
	if total, limit := m.folded(); total >= m.kept.far {
		m.kept = least{near: max(m.kept.near, stepBefore(total)), depth: math.MaxUint32, far: total + 1}
		m.limit = limit
	}
	var byDepth []int // number of nodes with at least total far-1
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

// folded returns a total that more nodes reach than a Tree may have, and the maximum number for a Tree. It returns 0 if
// there are not that many nodes.
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

// sizeClasses is the number of classes of totals: four per power of two.
const sizeClasses = 4 * 63

// sizeClass returns the class of a positive total.
func sizeClass(total int64) int {
	power := bits.Len64(uint64(total)) - 1
	return 4*power + int(uint64(total)<<(63-power)>>61&3)
}

// siftDown moves the cursor at an index down the heap to its place. The heap of the standard library, which calls
// methods for each step, makes a flame graph take a third longer.
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

// siftUp moves the last cursor up the heap to its place.
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
