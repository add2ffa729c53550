package tree

import (
	"cmp"
	"math"
	"slices"
	"unique"
)

// Tree is the sum of profiles in a form to show: JSON of a few short arrays. A frame is a function; a node is a frame
// below its callers. Columns of names and files hold indexes into Strings.
type Tree struct {
	Type  string `json:"type"`  // the sample type, such as "cpu"
	Unit  string `json:"unit"`  // unit of the values, such as "nanoseconds"
	Scale int64  `json:"scale"` // all values are multiples of it
	Total int64  `json:"total"` // value of all samples

	Kinds     Kinds     `json:"kinds"`
	Strings   []string  `json:"strings"`
	Mappings  Mappings  `json:"mappings"`
	Frames    Frames    `json:"frames"`
	Functions Functions `json:"functions"`
	Nodes     Nodes     `json:"nodes"`
	Omitted   Omitted   `json:"omitted"`

	Diff *Diff `json:"diff,omitempty"` // nil unless two profiles are compared
}

// Kinds are the columns of the kinds of frames. Self is the value of the samples whose leaf is of the kind, Total the
// value of the samples with any frame of the kind.
type Kinds struct {
	Name  []string `json:"name"`
	Self  []int64  `json:"self"`
	Total []int64  `json:"total"`
}

// Mappings are the columns of the files with the code.
type Mappings struct {
	File    []int32 `json:"file"`
	BuildID []int32 `json:"build"`
}

// Functions are the columns of the functions. All frames of one name and file, inlined or not, of any build, are one
// function. Self and Total are for the whole profile.
type Functions struct {
	Self  []int64 `json:"self"`
	Total []int64 `json:"total"`

	// With Tree.Diff, the base's share.
	BaseSelf  []int64 `json:"base_self,omitempty"`
	BaseTotal []int64 `json:"base_total,omitempty"`
}

// Frames are the columns of the frames. Self and Total are for the whole profile, including omitted nodes. A recursive
// frame counts once in Total.
type Frames struct {
	Name    []int32 `json:"name"`
	File    []int32 `json:"file"`
	Start   []int64 `json:"start"`   // first line of the function, 0 if unknown
	Mapping []int32 `json:"mapping"` // index into Mappings, -1 for none
	Kind    []int32 `json:"kind"`    // index into Kinds
	Inlined []int32 `json:"inlined"` // 1 for a function inlined into its caller
	Of      []int32 `json:"of"`      // index into Functions
	Self    []int64 `json:"self"`
	Total   []int64 `json:"total"`

	// With Tree.Diff, the base's share.
	BaseSelf  []int64 `json:"base_self,omitempty"`
	BaseTotal []int64 `json:"base_total,omitempty"`
}

// Nodes are the columns of the nodes in preorder: the children of a node follow it, the largest first, at the next
// depth. The first node is the root, which has no frame.
type Nodes struct {
	Frame []int32 `json:"frame"` // -1 for the root; -1-n for a Small node that stands for n nodes
	Depth []int32 `json:"depth"`
	Line  []int32 `json:"line"` // source line, 0 if unknown or if there are several
	Self  []int64 `json:"self"`
	Total []int64 `json:"total"`

	// With Tree.Diff, the base's share.
	BaseSelf  []int64 `json:"base_self,omitempty"`
	BaseTotal []int64 `json:"base_total,omitempty"`
}

// Omitted describes the nodes that were folded.
type Omitted struct {
	Nodes int   `json:"nodes"` // number of folded nodes
	Self  int64 `json:"self"`  // value of the samples that end in folded nodes
	Below int64 `json:"below"` // only nodes with a total below this were folded
}

// Limits of a Tree unless Options say otherwise.
const (
	DefaultShare    = 0.001
	DefaultEnough   = 12_000
	DefaultMaxNodes = 20_000
	maxTopFrames    = 200 // functions with the largest self to write even if no node shows them
)

// Options limit the nodes of a Tree. Nodes with a smaller share than Share are folded, the smallest first, until Enough
// are left.
type Options struct {
	Share    float64 // nodes with a smaller share of the total may be folded; 0 for DefaultShare, negative for none
	Enough   int     // number of nodes at which folding by Share stops; 0 for DefaultEnough
	MaxNodes int     // maximum number of nodes, regardless of their share; 0 for DefaultMaxNodes
}

// withDefaults returns o with defaults for the unset fields.
func (o Options) withDefaults() Options {
	if o.Share == 0 {
		o.Share = DefaultShare
	}
	if o.Enough <= 0 {
		o.Enough = DefaultEnough
	}
	if o.MaxNodes <= 0 {
		o.MaxNodes = DefaultMaxNodes
	}
	return o
}

// small returns the total below which a node has less than Share of the whole.
func (o Options) small(total int64) int64 { return int64(math.Ceil(o.Share * float64(total))) }

// Tree returns the sum of the added profiles.
func (b *Builder) Tree(o Options) *Tree {
	b.settle()
	b.tallies.begin(b.index)
	children := childrenOf(b.nodes, &b.scratch.children, &b.begins)
	for _, child := range children.childrenOf(0) {
		b.tally(child, children)
	}
	return b.write(o.withDefaults(), b.scale(), nil)
}

// tally adds a node and all nodes below it to the tallies.
func (b *Builder) tally(at uint32, all *children) {
	n := &b.nodes[at]
	outer := b.tallies.enter(n.frame)
	for _, child := range all.childrenOf(at) {
		b.tally(child, all)
	}
	if b.ofBase != nil {
		b.tallies.addBase(n.frame, b.ofBase[at], outer)
	}
	b.tallies.leave(n.frame, n.self, n.total, outer)
}

// write returns a Tree of the nodes and the tallies. The totals of nodes must be set. The nodes to show are written
// into the memory of room.
func (g *graph) write(o Options, scale int64, room []node) *Tree {
	g.emptyTree()
	w := writer{
		graph: g, byMapping: map[[2]unique.Handle[string]]int32{},
		frameIDs:    emptied(&g.scratch.frameIDs, len(g.index.frames.values)),
		functionIDs: emptied(&g.scratch.functionIDs, len(g.index.functions.values)),
	}
	w.tree.Type, w.tree.Unit, w.tree.Scale, w.tree.Diff = g.sampleType.Type, g.sampleType.Unit, scale, g.diff
	w.foldNodes(o, room)
	w.tree.Total = g.total / scale
	kinds := &w.tree.Kinds
	for kind := range kinds.Name {
		kinds.Self, kinds.Total = w.tallies.kinds[kind].appendTo(kinds.Self, kinds.Total, scale)
	}
	w.makeRoom()
	w.node(0, 0)
	w.writeTop()
	w.tree.Omitted.Self /= w.tree.Scale
	w.tree.Omitted.Below /= w.tree.Scale
	return w.tree
}

// makeRoom makes room for the nodes, and for an estimated number of frames.
func (w *writer) makeRoom() {
	n, out := len(w.nodes), &w.tree.Nodes
	for i := range w.nodes {
		if w.nodes[i].folded > 0 {
			n++
		}
	}
	out.Frame, out.Depth, out.Line = slices.Grow(out.Frame, n), slices.Grow(out.Depth, n), slices.Grow(out.Line, n)
	out.Self, out.Total = slices.Grow(out.Self, n), slices.Grow(out.Total, n)
	frames := min(n/2, len(w.index.frames.values)) // many nodes share a frame
	w.tree.Frames.growTo(frames)
	of := &w.tree.Functions
	of.Self, of.Total = slices.Grow(of.Self, frames), slices.Grow(of.Total, frames)
	w.tree.Strings, w.nameTexts = slices.Grow(w.tree.Strings, frames), slices.Grow(w.nameTexts, frames)
}

// growTo makes room for n more frames.
func (f *Frames) growTo(n int) {
	for _, column := range []*[]int32{&f.Name, &f.File, &f.Mapping, &f.Kind, &f.Inlined, &f.Of} {
		*column = slices.Grow(*column, n)
	}
	for _, column := range []*[]int64{&f.Start, &f.Self, &f.Total} {
		*column = slices.Grow(*column, n)
	}
}

// foldNodes drops the nodes that are too small to show.
func (w *writer) foldNodes(o Options, room []node) {
	f := folding{nodes: w.graph.nodes, depths: depthsOf(w.graph.nodes, &w.begins)}
	f.marks = emptied(&w.scratch.children, len(f.nodes))
	f.foldNodes(o, w.total, w.tree.Scale)
	w.tree.Omitted.Below = min(f.far, w.total+1)
	var moved []uint32
	w.nodes, moved = compact(room, f.nodes, f.least, f.depths, &w.scratch.children)
	for i, base := range w.graph.ofBase {
		if int(moved[i]) == len(w.ofBase) { // the node was kept
			w.ofBase = append(w.ofBase, base)
		}
	}
	w.children = childrenOf(w.nodes, &w.scratch.children, &w.begins)
	for at := range w.nodes {
		if list := w.children.childrenOf(uint32(at)); len(list) > 1 {
			slices.SortFunc(list, w.compareNodes)
		}
	}
}

// emptyTree makes an empty Tree, in the memory of the Tree that reset kept, if any.
func (g *graph) emptyTree() {
	t := g.spare
	if t == nil {
		t, g.files = &Tree{Kinds: Kinds{Name: kindNames()}}, numbering[sharedText]{}
	}
	g.spare, g.tree = nil, t
	m, f, n := &t.Mappings, &t.Frames, &t.Nodes
	for _, column := range []*[]int32{
		&m.File, &m.BuildID, &f.Name, &f.File, &f.Mapping, &f.Kind, &f.Inlined, &f.Of, &n.Frame, &n.Depth, &n.Line,
	} {
		*column = emptyColumn(*column)
	}
	for _, column := range []*[]int64{
		&t.Kinds.Self, &t.Kinds.Total, &f.Start, &f.Self, &f.Total, &t.Functions.Self, &t.Functions.Total,
		&n.Self, &n.Total,
	} {
		*column = emptyColumn(*column)
	}
	clear(t.Strings) // so that the strings of dropped frames can be freed
	t.Strings = emptyColumn(t.Strings)
	g.files.clear()
	g.fileTexts, g.nameTexts = g.fileTexts[:0], g.nameTexts[:0]
	t.Omitted = Omitted{}
}

// emptyColumn empties a slice and keeps its memory. The result is never nil: JSON must have [], not null.
func emptyColumn[T any](column []T) []T {
	if column == nil {
		return []T{}
	}
	return column[:0]
}

// scale returns the largest number that divides all values.
func (b *Builder) scale() int64 {
	var scale int64
	for i := range b.nodes {
		if scale = commonDivisor(scale, b.nodes[i].self); b.ofBase != nil {
			scale = commonDivisor(scale, b.ofBase[i][0])
		}
		if scale == 1 {
			break
		}
	}
	return max(1, scale)
}

// commonDivisor returns the greatest common divisor of x and y. 0 counts as a multiple of every number.
func commonDivisor(x, y int64) int64 {
	for y != 0 {
		x, y = y, x%y
	}
	return x
}

// children are the children of each node.
type children struct {
	list []uint32 // the children of the first node, of the second node, and so on
	from []uint32 // start in list by node, then the end of list
}

// childrenOf returns the children of a node.
func (c *children) childrenOf(at uint32) []uint32 { return c.list[c.from[at]:c.from[at+1]] }

// childrenOf returns the children of each node. It uses the memory of lists and begins.
func childrenOf(nodes []node, lists, begins *[]uint32) *children {
	*lists, *begins = grown(*lists, len(nodes)-1, cap(nodes)), grown(*begins, len(nodes)+1, cap(nodes)+1)
	c := &children{list: *lists, from: *begins}
	clear(c.from)
	for i := 1; i < len(nodes); i++ {
		c.from[nodes[i].parent]++
	}
	end := uint32(0)
	for i, n := range c.from { // ends; filling the list from the back turns them into starts
		end += n
		c.from[i] = end
	}
	for i := len(nodes) - 1; i > 0; i-- {
		at := &c.from[nodes[i].parent]
		*at--
		c.list[*at] = uint32(i)
	}
	return c
}

// compareNodes orders the children of a node by total, the largest first.
func (w *writer) compareNodes(x, y uint32) int {
	m, n := &w.nodes[x], &w.nodes[y]
	if m.total != n.total {
		return cmp.Compare(n.total, m.total)
	}
	return compareFrames(w.index.frameAt(m.frame), w.index.frameAt(n.frame))
}

// writer writes a graph as a Tree.
type writer struct {
	*graph
	nodes    []node // the nodes to show
	ofBase   [][2]int64
	children *children

	byMapping   map[[2]unique.Handle[string]]int32 // by file and build ID
	frameIDs    []uint32                           // index in the tree plus 1, by frame; 0 if not written yet
	functionIDs []uint32                           // the same by function
}

// node writes a node and all nodes below it.
func (w *writer) node(at uint32, depth int) {
	n := &w.nodes[at]
	id := int32(-1)
	if at != 0 {
		id = w.frameID(n.frame)
	}
	base := w.baseOf(at)
	w.writeNode(id, depth, n, base)
	rest, ofBase := n.total-n.self, base[1]-base[0] // the value of the folded children
	for _, child := range w.children.childrenOf(at) {
		w.node(child, depth+1)
		rest, ofBase = rest-w.nodes[child].total, ofBase-w.baseOf(child)[1]
	}
	if n.folded == 0 {
		return
	}
	w.writeNode(-1-n.folded, depth+1, &node{self: rest, total: rest}, [2]int64{ofBase, ofBase})
	w.tree.Omitted.Nodes += int(n.folded)
	w.tree.Omitted.Self += rest
}

// baseOf returns the base's share of a node's self and total.
func (w *writer) baseOf(at uint32) (base [2]int64) {
	if w.ofBase != nil {
		base = w.ofBase[at]
	}
	return base
}

func (w *writer) writeNode(frame int32, depth int, n *node, base [2]int64) {
	out, scale := &w.tree.Nodes, w.tree.Scale
	out.Frame = append(out.Frame, frame)
	out.Depth = append(out.Depth, int32(depth))
	out.Line = append(out.Line, n.line)
	out.Self = append(out.Self, n.self/scale)
	out.Total = append(out.Total, n.total/scale)
	if w.tree.Diff != nil {
		out.BaseSelf, out.BaseTotal = append(out.BaseSelf, base[0]/scale), append(out.BaseTotal, base[1]/scale)
	}
}

// writeTop writes the frames with the largest self, including frames that no node shows.
func (w *writer) writeTop() {
	compare := func(x, y uint32) int {
		if m, n := w.tallies.frames[x].self, w.tallies.frames[y].self; m != n {
			return cmp.Compare(n, m)
		}
		return compareFrames(w.index.frameAt(x), w.index.frameAt(y))
	}
	ids := make([]uint32, 0, maxTopFrames+1) // sorted; sorting all frames takes several times as long
	for i := range w.tallies.frames {
		id := uint32(i)
		if w.tallies.frames[id].self <= 0 || len(ids) == maxTopFrames && compare(id, ids[maxTopFrames-1]) > 0 {
			continue
		}
		at, _ := slices.BinarySearchFunc(ids, id, compare)
		ids = slices.Insert(ids, at, id)
		ids = ids[:min(len(ids), maxTopFrames)]
	}
	for _, id := range ids {
		w.frameID(id)
	}
}

// frameID returns the index of a frame in the tree, and writes the frame if it is not there yet.
func (w *writer) frameID(id uint32) int32 {
	if at := w.frameIDs[id]; at > 0 {
		return int32(at - 1)
	}
	f, out := w.index.frameAt(id).of.Value(), &w.tree.Frames
	at := int32(len(out.Name))
	w.frameIDs[id] = uint32(at + 1)
	of := w.functionID(w.index.functionOf[id])
	out.Of = append(out.Of, of)
	out.Name = append(out.Name, w.nameTexts[of])
	out.File = append(out.File, w.fileText(f.file))
	out.Start = append(out.Start, f.startLine)
	out.Mapping = append(out.Mapping, w.mapping(f.function.of.Value().binary, f.buildID))
	out.Kind = append(out.Kind, int32(f.kind))
	inlined := int32(0)
	if f.inlined {
		inlined = 1
	}
	out.Inlined = append(out.Inlined, inlined)
	out.Self, out.Total = w.tallies.frames[id].appendTo(out.Self, out.Total, w.tree.Scale)
	if w.tree.Diff != nil {
		out.BaseSelf, out.BaseTotal = w.tallies.base.frames[id].appendTo(out.BaseSelf, out.BaseTotal, w.tree.Scale)
	}
	return at
}

// functionID returns the index of a function in the tree, and writes the function if it is not there yet.
func (w *writer) functionID(id uint32) int32 {
	if at := w.functionIDs[id]; at > 0 {
		return int32(at - 1)
	}
	out := &w.tree.Functions
	at := int32(len(out.Self))
	w.functionIDs[id] = uint32(at + 1)
	w.nameTexts = append(w.nameTexts, w.textIndex(w.index.functions.values[id].of.Value().name))
	out.Self, out.Total = w.tallies.functions[id].appendTo(out.Self, out.Total, w.tree.Scale)
	if w.tree.Diff != nil {
		out.BaseSelf, out.BaseTotal = w.tallies.base.functions[id].appendTo(out.BaseSelf, out.BaseTotal, w.tree.Scale)
	}
	return at
}

func (w *writer) mapping(file, buildID unique.Handle[string]) int32 {
	key := [2]unique.Handle[string]{file, buildID}
	at, ok := w.byMapping[key]
	switch {
	case ok:
	case file.Value() == "" && buildID.Value() == "":
		at = -1
	default:
		at = int32(len(w.tree.Mappings.File))
		w.tree.Mappings.File = append(w.tree.Mappings.File, w.fileText(file))
		w.tree.Mappings.BuildID = append(w.tree.Mappings.BuildID, w.fileText(buildID))
	}
	w.byMapping[key] = at
	return at
}

// fileText returns the index of a file name or build ID in the tree's strings.
func (w *writer) fileText(of unique.Handle[string]) int32 {
	number, isNew := w.files.number(sharedText{of})
	if isNew {
		w.fileTexts = append(w.fileTexts, w.textIndex(of.Value()))
	}
	return w.fileTexts[number]
}

// textIndex appends a string to the tree's strings and returns its index.
func (w *writer) textIndex(s string) int32 {
	w.tree.Strings = append(w.tree.Strings, s)
	return int32(len(w.tree.Strings) - 1)
}
