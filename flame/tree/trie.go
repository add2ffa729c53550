// Package tree adds up the stacks of pprof profiles as a tree, the input of a flame graph. It depends only on pprof's
// format.
package tree

import (
	"math"
	"slices"
	"unique"

	"github.com/google/pprof/profile"
)

// Builder adds up profiles and keeps all nodes; Merge folds small nodes instead. It is not safe for concurrent use.
type Builder struct {
	graph
	show func(name string) string
	made map[madeOf]uint32 // frame numbers by madeOf; only for the profile being added
	// no mapping of the profile being added names a file
	noFiles bool
	edges   edges
	texts   texts

	ratio float64    // factor for the values of the base's samples
	base  bool       // the base is being added
	was   string     // name of the program in the base
	is    string     // name of the same program in the new profiles
	part  *part      // the part of stacks to add; nil for whole stacks
	stack []position // the sample's stack, root first; scratch of add
}

// graph is the sum of stacks. A Tree is written from it.
type graph struct {
	sampleType profile.ValueType
	total      int64
	index      *index // the frames
	nodes      []node // a parent comes before its children; the first is the root

	diff   *Diff      // nil unless profiles are compared
	ofBase [][2]int64 // by node, the base's share of self and total; nil unless profiles are compared
	scratch
}

func newGraph() graph { return graph{index: &index{}, nodes: make([]node, 1)} }

// madeOf is the key of a frame of a named function. A lookup takes a fraction of the time of building the frame, and
// most functions occur at many locations.
type madeOf struct {
	function *profile.Function
	mapping  *profile.Mapping
	inlined  bool
}

// node is a frame below its callers.
type node struct {
	frame       uint32
	parent      uint32
	line        int32 // source line, 0 if unknown or if there are several
	folded      int32 // number of folded nodes below it: in its total, but not in nodes
	self, total int64
}

// NewBuilder returns an empty Builder. show, if not nil, maps the names of functions to the names to show.
func NewBuilder(show func(name string) string) *Builder {
	return &Builder{graph: newGraph(), show: show}
}

// Nodes returns the number of nodes. Each takes some 100 bytes of memory.
func (b *Builder) Nodes() int { return len(b.nodes) }

// Unit returns the unit of values, such as nanoseconds, or "" before the first Add.
func (g *graph) Unit() string { return g.sampleType.Unit }

// Total returns the sum of the samples' values.
func (g *graph) Total() int64 { return g.total }

// Add adds the values of a profile's default sample type, which must be the same for all profiles.
func (b *Builder) Add(p *profile.Profile) error {
	index, err := p.SampleIndexByName("")
	if err != nil {
		return err
	}
	if b.sampleType, err = sameType(b.sampleType, *p.SampleType[index]); err != nil {
		return err
	}
	b.beginProfile(p)
	known := newPerLocation[position](p)
	for _, s := range p.Sample {
		b.add(s, s.Value[index], known)
	}
	b.made = nil
	return nil
}

func (b *Builder) beginProfile(p *profile.Profile) {
	b.made = make(map[madeOf]uint32, len(p.Function))
	b.noFiles = !slices.ContainsFunc(p.Mapping, func(m *profile.Mapping) bool { return m.File != "" })
}

// position is a frame at a line.
type position struct {
	frame uint32
	line  int32
}

func (p position) hash() uint32 { return pairHash(p.frame, uint32(p.line)) }

// shortLine returns a line number, or 0 if it is out of range.
func shortLine(line int64) int32 {
	if line < 0 || line > math.MaxInt32 {
		return 0
	}
	return int32(line)
}

// add adds a sample. known caches the positions of locations, root first.
func (b *Builder) add(s *profile.Sample, value int64, known *perLocation[position]) {
	if b.base {
		value = int64(math.Round(float64(value) * b.ratio))
	}
	if value == 0 {
		return
	}
	stack := b.stackOf(s, known)
	if b.part != nil {
		call := slices.IndexFunc(stack, func(p position) bool { return b.part.isPartOf(b.index.frameAt(p.frame)) })
		if call < 0 {
			return
		}
		from, to := b.part.bounds(call, len(stack))
		stack = stack[from:to]
	}
	b.addStack(stack, value)
}

// addStack adds a stack, or the part of a stack that b adds, root first. It may change the slice.
func (b *Builder) addStack(stack []position, value int64) {
	if b.part != nil && b.part.callers {
		slices.Reverse(stack)
	}
	at := uint32(0)
	for _, p := range stack {
		at = b.child(at, p)
	}
	b.count(at, value)
}

// stackOf returns the positions of a sample, root first. The slice is valid until the next call.
func (b *Builder) stackOf(s *profile.Sample, known *perLocation[position]) []position {
	b.stack = b.stack[:0]
	for i := len(s.Location) - 1; i >= 0; i-- {
		positions := known.valuesOf(s.Location[i])
		if *positions == nil {
			*positions = b.positions(s.Location[i])
		}
		b.stack = append(b.stack, *positions...)
	}
	return b.stack
}

// count adds to a node's self.
func (b *Builder) count(at uint32, value int64) {
	b.total += value
	b.nodes[at].self += value
	if b.base {
		b.ofBase[at][0] += value
	}
}

// child returns the node of a position below at.
func (b *Builder) child(at uint32, p position) uint32 {
	child, isNew := b.edges.getChild(b.nodes, at, p.frame)
	if isNew {
		b.nodes = append(b.nodes, node{frame: p.frame, parent: at, line: p.line})
		if b.diff != nil {
			b.ofBase = append(b.ofBase, [2]int64{})
		}
	} else if b.nodes[child].line != p.line {
		b.nodes[child].line = 0
	}
	return child
}

// settle computes the totals of nodes.
func (b *Builder) settle() {
	for i := range b.nodes {
		b.nodes[i].total = b.nodes[i].self
	}
	for i := len(b.nodes) - 1; i > 0; i-- {
		n := &b.nodes[i]
		b.nodes[n.parent].total += n.total
	}
	for i := range b.ofBase {
		b.ofBase[i][1] = b.ofBase[i][0]
	}
	for i := len(b.ofBase) - 1; i > 0; i-- {
		b.ofBase[b.nodes[i].parent][1] += b.ofBase[i][1]
	}
}

// positions returns the positions of a location, outermost function first.
func (b *Builder) positions(l *profile.Location) []position {
	if len(l.Line) == 0 {
		name := AddressName(l)
		return []position{{frame: b.frame(b.sameFrame(frame{name: name, mapping: mappingOf(l), kind: Unnamed}))}}
	}
	out := make([]position, 0, len(l.Line))
	for i := len(l.Line) - 1; i >= 0; i-- {
		out = append(out, position{frame: b.frameAt(l, i), line: shortLine(b.lineOf(&l.Line[i]))})
	}
	return out
}

// frameAt returns the number of the frame at a line of a location.
func (b *Builder) frameAt(l *profile.Location, line int) uint32 {
	of := madeOf{l.Line[line].Function, l.Mapping, line < len(l.Line)-1}
	if number, ok := b.made[of]; ok {
		return number
	}
	f := frame{mapping: mappingOf(l), inlined: of.inlined}
	if of.function != nil {
		f.name, f.file, f.startLine = b.shown(of.function.Name), of.function.Filename, of.function.StartLine
	}
	hasName := f.name != ""
	if !hasName {
		f.name = AddressName(l)
	}
	f.kind = KindOf(l.Mapping, f.name, f.inlined)
	if b.noFiles && f.kind == Other { // profiles of other profilers, and folded stacks
		f.kind = Native
		if f.inlined {
			f.kind = Inlined
		}
	}
	number := b.frame(b.sameFrame(f))
	if hasName {
		b.made[of] = number
	}
	return number
}

// shown returns the name to show for a function.
func (b *Builder) shown(name string) string {
	if b.show == nil {
		return name
	}
	return b.show(name)
}

// frame returns the number of a frame.
func (b *Builder) frame(f frame) uint32 { return b.index.frame(b.texts.share(&f)) }

// maxSpareNodes is the largest number of nodes of a Tree for which reset keeps the memory.
const maxSpareNodes = 2 * DefaultMaxNodes

// reset empties g, which must not compare profiles. It keeps the frames, and the memory of the nodes and of the last
// Tree for reuse.
func (g *graph) reset() {
	g.sampleType, g.total = profile.ValueType{}, 0
	g.index.shrink()
	if g.tree != nil && cap(g.tree.Nodes.Frame) <= maxSpareNodes {
		g.spare = g.tree
	}
	g.tree = nil
}

// scratch is memory that a graph reuses.
type scratch struct {
	tallies               tallies
	children, begins      []uint32 // of children
	frameIDs, functionIDs []uint32 // of writer

	tree  *Tree // the last Tree
	spare *Tree // a Tree whose memory the next Tree reuses, or nil

	files     numbering[sharedText] // in Tree.Strings
	fileTexts []int32               // indexes into Tree.Strings, by number in files
	nameTexts []int32               // indexes of names in Tree.Strings, by function in the Tree
}

// sharedText is an interned string.
type sharedText struct{ of unique.Handle[string] }

func (t sharedText) hash() uint32 { return spread(addressOf(t.of)) }

// grown returns a slice of n arbitrary values, in the memory of the given slice if its capacity suffices. Otherwise it
// allocates a slice with room for at least most values.
func grown[T any](of []T, n, most int) []T {
	if cap(of) < n {
		return make([]T, n, max(n+n/8, most))
	}
	return of[:n]
}

// emptied returns a slice of n zero values, in the memory of the given slice if possible.
func emptied[T any](of *[]T, n int) []T {
	*of = grown(*of, n, 0)
	clear(*of)
	return *of
}
