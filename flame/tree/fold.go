package tree

import (
	"math"
	"sort"
)

// least holds the minimum totals of nodes to show or keep.
type least struct {
	near  int64 // down to depth
	depth uint32
	far   int64 // deeper than depth
}

// atDepth returns the minimum total at a depth.
func (l least) atDepth(depth uint32) int64 {
	if depth <= l.depth {
		return l.near
	}
	return l.far
}

// depthsOf returns the depths of nodes, in the memory of to if possible.
func depthsOf(nodes []node, to *[]uint32) []uint32 {
	depths := grown(*to, len(nodes), cap(nodes))
	*to = depths
	depths[0] = 0
	for i := 1; i < len(nodes); i++ {
		depths[i] = depths[nodes[i].parent] + 1
	}
	return depths
}

// compact writes the nodes that reach their minimum total into the memory of to, which may be the memory of nodes, and
// counts each dropped node as folded in its nearest kept ancestor. moved maps each old index to the new index of the
// node or, for a dropped node, of that ancestor.
func compact(to, nodes []node, l least, depths []uint32, scratch *[]uint32) (kept []node, moved []uint32) {
	moved = grown(*scratch, len(nodes), cap(nodes))
	*scratch = moved
	kept, moved[0] = append(to[:0], nodes[0]), 0
	for i := 1; i < len(nodes); i++ {
		n := nodes[i]
		n.parent = moved[n.parent]
		if n.total < l.atDepth(depths[i]) {
			kept[n.parent].folded += 1 + n.folded
			moved[i] = n.parent
			continue
		}
		moved[i] = uint32(len(kept))
		kept = append(kept, n)
	}
	return kept, moved
}

// folding decides which nodes are too small to show.
type folding struct {
	nodes  []node
	depths []uint32
	marks  []uint32 // by node, the last count that found a folded node below it
	counts uint32
	least
}

// deepEnough is a depth that stacks reach only by recursion.
const deepEnough = 256

// foldNodes decides which nodes are too small to show: the smallest nodes, and among equal nodes the deepest. If there
// are still too many large nodes, it folds the deepest, so that a deep recursion takes no room from other stacks.
func (f *folding) foldNodes(o Options, total, scale int64) {
	limit := o.Enough
	f.near, f.far = scale, scale
	if !f.raise(limit, o.small(total), total) {
		limit = o.MaxNodes
		if !f.exceeds(limit) {
			return // all remaining nodes are large
		}
		large := f.far
		f.near, f.far, f.depth = large, math.MaxInt64, deepEnough
		if f.exceeds(limit) {
			f.near, f.far, f.depth = large, large, 0
			f.raise(limit, math.MaxInt64, total)
		}
	}
	if f.near < f.far { // there may be room for more nodes of the smaller total
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

// raise raises the minimum total, up to most, until at most limit nodes are left, and reports whether it succeeded.
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

// stepAfter returns the next larger minimum total that raise tries.
func stepAfter(total int64) int64 { return total + total/4 + 1 }

// stepBefore returns a lower bound of the step before the given total or before any larger one; see stepAfter.
func stepBefore(total int64) int64 { return (total - 1) / 5 * 4 }

// exceeds reports whether more nodes than limit would be written. Small nodes, which stand for folded nodes, count; the
// root does not.
func (f *folding) exceeds(limit int) bool {
	f.counts++
	written := 0
	isShown := func(at uint32) bool { return at == 0 || f.nodes[at].total >= f.atDepth(f.depths[at]) }
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
