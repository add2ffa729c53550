package trie

import (
	"slices"
	"unique"

	"github.com/google/pprof/profile"
)

// Folded is the sum of profiles in a form that is small, and added to a Builder in a fraction of the time that the
// profiles take. It does not change, and is safe for concurrent use. Frames are shared with all others that have them.
type Folded struct {
	sampleType profile.ValueType
	frames     []unique.Handle[frame]
	nodes      []foldedNode // a parent comes before its children; the first is the root
}

type foldedNode struct {
	self          int64
	line          int64
	parent, frame uint32
}

// Fold returns what was added to b, which must compare nothing and have all of its stacks.
func (b *Builder) Fold() *Folded {
	f := &Folded{
		sampleType: b.sampleType, frames: slices.Clone(b.handles), nodes: make([]foldedNode, len(b.nodes)),
	}
	for i := range b.nodes {
		n := &b.nodes[i]
		f.nodes[i] = foldedNode{n.self, n.line, n.parent, n.frame}
	}
	return f
}

// Size returns about how many bytes f takes. Most of its frames are those of others, too: a fifth of each is counted.
func (f *Folded) Size() int64 {
	const perNode, perFrame = 24, 60
	return int64(len(f.nodes))*perNode + int64(len(f.frames))*perFrame
}

// Nodes returns the number of nodes.
func (f *Folded) Nodes() int { return len(f.nodes) }

// Grow makes room for nodes in an empty b, which is faster than one by one.
func (b *Builder) Grow(nodes int) {
	if len(b.nodes) == 1 {
		b.nodes, b.byEdge = slices.Grow(b.nodes, nodes), make(map[edge]uint32, nodes)
	}
}

// AddFolded adds what was folded. It must have the sample type of what b has, which must not compare. Names are those
// that were shown when it was folded.
func (b *Builder) AddFolded(f *Folded) (err error) {
	if b.sampleType, err = sameType(b.sampleType, f.sampleType); err != nil {
		return err
	}
	frames := make([]uint32, len(f.frames))
	for i, handle := range f.frames {
		frames[i] = b.frameOf(handle)
	}
	if b.part != nil {
		b.addStacks(f, frames)
		return nil
	}
	totals := make([]int64, len(f.nodes))
	for i := len(f.nodes) - 1; i >= 0; i-- {
		totals[i] += f.nodes[i].self
		if i > 0 {
			totals[f.nodes[i].parent] += totals[i]
		}
	}
	b.total += totals[0]
	at := make([]uint32, len(f.nodes))
	for i := range f.nodes {
		n := &f.nodes[i]
		if i > 0 {
			at[i] = b.child(at[n.parent], position{frames[n.frame], n.line})
		}
		b.count(at[i], n.self, totals[i])
	}
	return nil
}

// addStacks adds each stack, for a builder of parts of them.
func (b *Builder) addStacks(f *Folded, frames []uint32) {
	for i := range f.nodes {
		if f.nodes[i].self == 0 {
			continue
		}
		b.stack = b.stack[:0]
		for at := uint32(i); at != 0; at = f.nodes[at].parent {
			b.stack = append(b.stack, position{frames[f.nodes[at].frame], f.nodes[at].line})
		}
		slices.Reverse(b.stack)
		b.addStack(b.stack, f.nodes[i].self)
	}
}
