package trie

import (
	"math"
	"sort"
)

// least is the total that nodes have at least that are shown, or kept.
type least struct {
	near  int64 // down to a depth,
	depth uint32
	far   int64 // and deeper
}

// at returns the total of a depth.
func (l least) at(depth uint32) int64 {
	if depth <= l.depth {
		return l.near
	}
	return l.far
}

// depthsOf returns how deep nodes are, in the memory of others.
func depthsOf(nodes []node, to *[]uint32) []uint32 {
	depths := grown(*to, len(nodes), cap(nodes))
	*to = depths
	depths[0] = 0
	for i := 1; i < len(nodes); i++ {
		depths[i] = depths[nodes[i].parent] + 1
	}
	return depths
}

// compact writes the nodes that have enough into the memory of to, which may be their own, and counts the others in the
// nodes that they are below. It also returns where nodes went or, of those that are folded, what they are counted in.
func compact(to, nodes []node, l least, depths []uint32, scratch *[]uint32) (kept []node, moved []uint32) {
	moved = grown(*scratch, len(nodes), cap(nodes))
	*scratch = moved
	kept, moved[0] = append(to[:0], nodes[0]), 0
	for i := 1; i < len(nodes); i++ {
		n := nodes[i]
		n.parent = moved[n.parent]
		if n.total < l.at(depths[i]) {
			kept[n.parent].folded += 1 + n.folded
			moved[i] = n.parent
			continue
		}
		moved[i] = uint32(len(kept))
		kept = append(kept, n)
	}
	return kept, moved
}

// folding decides what of nodes is too small to show.
type folding struct {
	nodes  []node
	depths []uint32
	marks  []uint32 // by node, the last count in which something below it was folded
	counts uint32
	least
}

// deepEnough is a depth that stacks have only if a function calls itself over and over.
const deepEnough = 256

// fold decides what is too small to show: the smallest nodes, and of those that are equal the deepest. Where those that
// are large are too many all the same, the deepest are folded: a deep recursion takes no room from other stacks.
func (f *folding) fold(o Options, total, scale int64) {
	limit := o.Enough
	f.near, f.far = scale, scale
	if !f.raise(limit, o.small(total), total) {
		limit = o.MaxNodes
		if !f.exceeds(limit) {
			return // all that is left is large
		}
		large := f.far
		f.near, f.far, f.depth = large, math.MaxInt64, deepEnough
		if f.exceeds(limit) {
			f.near, f.far, f.depth = large, large, 0
			f.raise(limit, math.MaxInt64, total)
		}
	}
	if f.near < f.far { // there may be room for more
		deepest := uint32(0)
		for _, depth := range f.depths {
			deepest = max(deepest, depth)
		}
		f.depth = uint32(sort.Search(int(deepest), func(depth int) bool {
			f.depth = uint32(depth + 1)
			return f.exceeds(limit)
		}))
	}
}

// raise folds nodes with ever more, up to the given value, until as many are left as the limit says, and reports
// whether that is so.
func (f *folding) raise(limit int, most, total int64) bool {
	steps := []int64{f.far}
	for at := f.far; at < most && at <= total; {
		at = min(most, stepAfter(at))
		steps = append(steps, at)
	}
	use := func(step int) { f.near, f.far = steps[max(0, step-1)], steps[step] }
	step := sort.Search(len(steps), func(step int) bool {
		use(step)
		return !f.exceeds(limit)
	})
	use(min(step, len(steps)-1))
	return step < len(steps)
}

// stepAfter returns the next larger total that is tried.
func stepAfter(total int64) int64 { return total + total/4 + 1 }

// stepBefore returns a total that is at most the one after which that total, or a larger one, was tried.
func stepBefore(total int64) int64 { return (total - 1) / 5 * 4 }

// exceeds reports whether more nodes are written than the limit says, with those that stand for what is folded, and
// without the root.
func (f *folding) exceeds(limit int) bool {
	f.counts++
	written := 0
	isShown := func(at uint32) bool { return at == 0 || f.nodes[at].total >= f.at(f.depths[at]) }
	for i := range f.nodes {
		n, at := &f.nodes[i], uint32(i)
		folds := n.folded > 0
		switch {
		case !isShown(at):
			at, folds = n.parent, isShown(n.parent)
		case at > 0:
			written++
		}
		if folds && f.marks[at] != f.counts {
			f.marks[at] = f.counts
			written++
		}
		if written > limit {
			return true
		}
	}
	return false
}
