package trie

import (
	"cmp"
	"math"
	"slices"
	"sort"
	"unique"
)

// Tree is what is shown: JSON of few and short arrays. A frame is a function; a node is a
// frame below its callers. Texts are indexes into Strings.
type Tree struct {
	Type  string `json:"type"`  // what is counted, such as "cpu"
	Unit  string `json:"unit"`  // of the values, such as "nanoseconds"
	Scale int64  `json:"scale"` // all values are in multiples of it
	Total int64  `json:"total"` // of all samples

	Kinds     Kinds     `json:"kinds"`
	Strings   []string  `json:"strings"`
	Mappings  Mappings  `json:"mappings"`
	Frames    Frames    `json:"frames"`
	Functions Functions `json:"functions"`
	Nodes     Nodes     `json:"nodes"`
	Omitted   Omitted   `json:"omitted"`

	Diff *Diff `json:"diff,omitempty"` // nil unless two profiles are compared
}

// Kinds are the columns of the kinds of frames. Self is of the samples whose leaf is of a kind,
// Total of those that have a frame of it.
type Kinds struct {
	Name  []string `json:"name"`
	Self  []int64  `json:"self"`
	Total []int64  `json:"total"`
}

// Mappings are the files that code is in.
type Mappings struct {
	File    []int32 `json:"file"`
	BuildID []int32 `json:"build"`
}

// Functions are the columns of what people call a function: all frames of one name and file, inlined or not, of
// whatever build. Self and Total are of the whole profile.
type Functions struct {
	Self  []int64 `json:"self"`
	Total []int64 `json:"total"`

	// With Tree.Diff: what is of the base.
	BaseSelf  []int64 `json:"base_self,omitempty"`
	BaseTotal []int64 `json:"base_total,omitempty"`
}

// Frames are the columns of the frames. Self and Total are of the whole profile, with what
// is omitted from the nodes. A frame that is below itself counts once in Total.
type Frames struct {
	Name    []int32 `json:"name"`
	File    []int32 `json:"file"`
	Start   []int64 `json:"start"`   // the line where the function begins, 0 if not known
	Mapping []int32 `json:"mapping"` // -1 for none
	Kind    []int32 `json:"kind"`    // into Kinds
	Inlined []int32 `json:"inlined"` // 1 for a function inlined into its caller
	Of      []int32 `json:"of"`      // into Functions
	Self    []int64 `json:"self"`
	Total   []int64 `json:"total"`

	// With Tree.Diff: what is of the base.
	BaseSelf  []int64 `json:"base_self,omitempty"`
	BaseTotal []int64 `json:"base_total,omitempty"`
}

// Nodes are the columns of the nodes in preorder: the children of a node follow it, the
// largest first, and are one deeper. The first node is the root, which is no frame.
type Nodes struct {
	Frame []int32 `json:"frame"` // -1 for the root; for Small ones -1-n, with n the number of nodes that it stands for
	Depth []int32 `json:"depth"`
	Line  []int32 `json:"line"` // where the frame was, 0 if that is several or unknown lines
	Self  []int64 `json:"self"`
	Total []int64 `json:"total"`

	// With Tree.Diff: what is of the base.
	BaseSelf  []int64 `json:"base_self,omitempty"`
	BaseTotal []int64 `json:"base_total,omitempty"`
}

// Omitted says what the nodes do not show.
type Omitted struct {
	Nodes int   `json:"nodes"` // as many as were folded
	Self  int64 `json:"self"`  // value of the samples that end in them
	Below int64 `json:"below"` // nodes were folded whose total is below this
}

// Limits of a Tree unless Options say otherwise.
const (
	DefaultShare    = 0.001
	DefaultEnough   = 12_000
	DefaultMaxNodes = 20_000
	maxTopFrames    = 200 // functions by self that are in the tree though no node shows them
)

// Options say what is too small to show.
type Options struct {
	Share    float64 // nodes with less than this share of all may be folded; 0 for DefaultShare, negative for none
	Enough   int     // of these, nodes are folded until as many are left; 0 for DefaultEnough
	MaxNodes int     // at most as many nodes are left, whatever their share; 0 for DefaultMaxNodes
}

// Tree returns the sum of what was added. It is the caller's until Reset.
func (b *Builder) Tree(o Options) *Tree {
	if o.Share == 0 {
		o.Share = DefaultShare
	}
	if o.Enough <= 0 {
		o.Enough = DefaultEnough
	}
	if o.MaxNodes <= 0 {
		o.MaxNodes = DefaultMaxNodes
	}
	b.settle()
	scale := b.scale()
	b.emptyTree()
	w := writer{Builder: b, children: b.children(), byMapping: map[[2]unique.Handle[string]]int32{}}
	w.tree.Type, w.tree.Unit, w.tree.Scale, w.tree.Diff = b.sampleType.Type, b.sampleType.Unit, scale, b.diff
	w.fold(o)
	w.tree.Omitted.Below = w.below
	w.tree.Total = b.total / w.tree.Scale
	w.sum()
	w.makeRoom(o.Enough)
	w.node(0, 0)
	w.top()
	w.tree.Omitted.Self /= w.tree.Scale
	w.tree.Omitted.Below /= w.tree.Scale
	return w.tree
}

// makeRoom makes room for about as many nodes, and for their frames.
func (w *writer) makeRoom(nodes int) {
	n, out := min(nodes+nodes/8, len(w.nodes)+len(w.nodes)/8), &w.tree.Nodes
	out.Frame, out.Depth, out.Line = slices.Grow(out.Frame, n), slices.Grow(out.Depth, n), slices.Grow(out.Line, n)
	out.Self, out.Total = slices.Grow(out.Self, n), slices.Grow(out.Total, n)
	frames := min(n/2, len(w.index.frames.values)) // many nodes are of frames that others are of, too
	w.tree.Frames.grow(frames)
	of := &w.tree.Functions
	of.Self, of.Total = slices.Grow(of.Self, frames), slices.Grow(of.Total, frames)
	w.tree.Strings, w.nameTexts = slices.Grow(w.tree.Strings, frames), slices.Grow(w.nameTexts, frames)
}

// grow makes room for about as many frames.
func (f *Frames) grow(n int) {
	for _, column := range []*[]int32{&f.Name, &f.File, &f.Mapping, &f.Kind, &f.Inlined, &f.Of} {
		*column = slices.Grow(*column, n)
	}
	for _, column := range []*[]int64{&f.Start, &f.Self, &f.Total} {
		*column = slices.Grow(*column, n)
	}
}

// emptyTree makes an empty Tree, in the memory of one that was there before Reset.
func (b *Builder) emptyTree() {
	t := b.spare
	if t == nil {
		t, b.files = &Tree{Kinds: Kinds{Name: kindNames()}}, numbering[sharedText]{}
	}
	b.spare, b.tree = nil, t
	m, f, n := &t.Mappings, &t.Frames, &t.Nodes
	for _, column := range []*[]int32{
		&m.File, &m.BuildID, &f.Name, &f.File, &f.Mapping, &f.Kind, &f.Inlined, &f.Of, &n.Frame, &n.Depth, &n.Line,
	} {
		*column = emptied(*column)
	}
	for _, column := range []*[]int64{
		&t.Kinds.Self, &t.Kinds.Total, &f.Start, &f.Self, &f.Total, &t.Functions.Self, &t.Functions.Total,
		&n.Self, &n.Total,
	} {
		*column = emptied(*column)
	}
	clear(t.Strings) // they may be of frames that nobody else has
	t.Strings = emptied(t.Strings)
	b.files.clear()
	b.fileTexts, b.nameTexts = b.fileTexts[:0], b.nameTexts[:0]
	t.Omitted = Omitted{}
}

// emptied returns an empty slice, which is [] in JSON and not null, in the memory of another.
func emptied[T any](column []T) []T {
	if column == nil {
		return []T{}
	}
	return column[:0]
}

// scale returns the largest number that divides all values.
func (b *Builder) scale() int64 {
	if b.whole != nil {
		return b.whole.scale()
	}
	var scale int64
	for i := range b.nodes {
		scale = commonDivisor(commonDivisor(scale, b.nodes[i].self), b.baseOf(uint32(i))[0])
		if scale == 1 {
			break
		}
	}
	return max(1, scale)
}

// commonDivisor returns the largest number that divides both; 0 is divided by all.
func commonDivisor(x, y int64) int64 {
	for y != 0 {
		x, y = y, x%y
	}
	return x
}

// children are the children of each node.
type children struct {
	list []uint32 // those of the first node, then those of the second, and so on
	from []uint32 // where they begin, by node, and at last the end
}

// of returns the children of a node, the largest first.
func (c *children) of(at uint32) []uint32 { return c.list[c.from[at]:c.from[at+1]] }

// children returns the children of each node.
func (b *Builder) children() *children {
	b.scratch.children, b.begins = grown(b.scratch.children, len(b.nodes)-1), grown(b.begins, len(b.nodes)+1)
	populate(&b.room, b.scratch.children)
	populate(&b.room, b.begins)
	c := &children{list: b.scratch.children, from: b.begins}
	clear(c.from)
	for i := 1; i < len(b.nodes); i++ {
		c.from[b.nodes[i].parent]++
	}
	end := uint32(0)
	for i, n := range c.from { // ends, which become begins as the list is filled from its back
		end += n
		c.from[i] = end
	}
	for i := len(b.nodes) - 1; i > 0; i-- {
		at := &c.from[b.nodes[i].parent]
		*at--
		c.list[*at] = uint32(i)
	}
	for i := range b.nodes {
		if list := c.of(uint32(i)); len(list) > 1 {
			slices.SortFunc(list, b.compareNodes)
		}
	}
	return c
}

// compareNodes orders the children of a node, the largest first.
func (b *Builder) compareNodes(x, y uint32) int {
	m, n := &b.nodes[x], &b.nodes[y]
	if m.total != n.total {
		return cmp.Compare(n.total, m.total)
	}
	return compareFrames(b.index.at(m.frame), b.index.at(n.frame))
}

// writer writes a Builder's sum as a Tree.
type writer struct {
	*Builder
	children   *children
	below      int64 // nodes with less are folded,
	belowNear  int64 // and so are those with less than this
	near       int   // that are not deeper than this
	byFrame    *tally
	byFunction *tally

	byMapping   map[[2]unique.Handle[string]]int32 // by file and build ID
	frameIDs    []uint32                           // places in the tree by frame, from 1 on; 0: none yet
	functionIDs []uint32                           // and by function
}

// fold decides what is too small to show: the smallest nodes, and of those that are equal the
// deepest.
func (w *writer) fold(o Options) {
	small := int64(math.Ceil(o.Share * float64(w.Builder.total)))
	limit := o.Enough
	if !w.raise(limit, small) {
		limit = o.MaxNodes
		if !w.exceeds(limit) {
			return // all that is left is large
		}
		w.raise(limit, math.MaxInt64)
	}
	if w.belowNear < w.below { // there may be room for more
		w.near = sort.Search(w.deepest(0)+1, func(depth int) bool {
			w.near = depth
			return w.exceeds(limit)
		}) - 1
	}
}

func (w *writer) exceeds(limit int) bool { return w.count(0, 0, limit) > limit }

// raise folds nodes with ever more, up to the given value, until as many are left as the limit says, and reports
// whether that is so.
func (w *writer) raise(limit int, most int64) bool {
	below := max(w.below, w.tree.Scale)
	steps := []int64{below}
	for below < most && below <= w.Builder.total {
		below = min(most, below+below/4+1)
		steps = append(steps, below)
	}
	use := func(step int) {
		w.below, w.belowNear = steps[step], steps[max(0, step-1)]
		if step == 0 {
			w.belowNear = w.below
		}
	}
	step := sort.Search(len(steps), func(step int) bool {
		use(step)
		return !w.exceeds(limit)
	})
	use(min(step, len(steps)-1))
	return step < len(steps)
}

// deepest returns how many levels are below a node.
func (w *writer) deepest(at uint32) (levels int) {
	for _, child := range w.children.of(at) {
		levels = max(levels, 1+w.deepest(child))
	}
	return levels
}

// shown returns the children of a node of that depth that are large enough, and the others.
func (w *writer) shown(at uint32, depth int) (large, small []uint32) {
	below := w.below
	if depth < w.near {
		below = w.belowNear
	}
	list := w.children.of(at)
	n := 0
	for n < len(list) && w.nodes[list[n]].total >= below {
		n++
	}
	return list[:n], list[n:]
}

// count returns how many nodes are written below at; no more than some above limit are counted.
func (w *writer) count(at uint32, depth, limit int) (n int) {
	large, small := w.shown(at, depth)
	if len(small) > 0 {
		n++
	}
	for _, child := range large {
		if n > limit {
			break
		}
		n += 1 + w.count(child, depth+1, limit-n)
	}
	return n
}

// node writes a node and those below it.
func (w *writer) node(at uint32, depth int) {
	n := &w.nodes[at]
	id := int32(-1)
	if at != 0 {
		id = w.frameID(n.frame)
	}
	w.write(id, depth, n, w.baseOf(at))
	large, small := w.shown(at, depth)
	for _, child := range large {
		w.node(child, depth+1)
	}
	if len(small) == 0 {
		return
	}
	var rest node
	var base [2]int64
	nodes := 0
	for _, child := range small {
		rest.total += w.nodes[child].total
		base[1] += w.baseOf(child)[1]
		nodes += w.size(child)
	}
	rest.self, base[0] = rest.total, base[1]
	w.write(int32(-1-nodes), depth+1, &rest, base)
	w.tree.Omitted.Nodes += nodes
	w.tree.Omitted.Self += rest.total
}

// size returns the number of nodes of a subtree.
func (w *writer) size(at uint32) int {
	n := 1
	for _, child := range w.children.of(at) {
		n += w.size(child)
	}
	return n
}

func (w *writer) write(frame int32, depth int, n *node, base [2]int64) {
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

// top writes the functions with most self that no node shows.
func (w *writer) top() {
	compare := func(x, y uint32) int {
		if m, n := w.byFrame.groups[x].self, w.byFrame.groups[y].self; m != n {
			return cmp.Compare(n, m)
		}
		return compareFrames(w.index.at(x), w.index.at(y))
	}
	ids := make([]uint32, 0, maxTopFrames+1) // in order: to sort all functions takes several times as long
	for i := range w.byFrame.groups {
		id := uint32(i)
		if w.byFrame.groups[id].self <= 0 || len(ids) == maxTopFrames && compare(id, ids[maxTopFrames-1]) > 0 {
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

// frameID returns the place of a frame in the tree.
func (w *writer) frameID(id uint32) int32 {
	if at := w.frameIDs[id]; at > 0 {
		return int32(at - 1)
	}
	f, out := w.index.at(id).of.Value(), &w.tree.Frames
	at := int32(len(out.Name))
	w.frameIDs[id] = uint32(at + 1)
	of := w.functionID(w.index.functionOf[id])
	out.Of = append(out.Of, of)
	out.Name = append(out.Name, w.nameTexts[of])
	out.File = append(out.File, w.fileText(f.file))
	out.Start = append(out.Start, f.startLine)
	out.Mapping = append(out.Mapping, w.mapping(f.function.binary, f.buildID))
	out.Kind = append(out.Kind, int32(f.kind))
	inlined := int32(0)
	if f.inlined {
		inlined = 1
	}
	out.Inlined = append(out.Inlined, inlined)
	out.Self, out.Total = w.byFrame.appendTo(out.Self, out.Total, id, w.tree.Scale)
	if w.tree.Diff != nil {
		out.BaseSelf, out.BaseTotal = w.byFrame.appendBaseTo(out.BaseSelf, out.BaseTotal, id, w.tree.Scale)
	}
	return at
}

// functionID returns the place of a function in the tree.
func (w *writer) functionID(id uint32) int32 {
	if at := w.functionIDs[id]; at > 0 {
		return int32(at - 1)
	}
	out := &w.tree.Functions
	at := int32(len(out.Self))
	w.functionIDs[id] = uint32(at + 1)
	w.nameTexts = append(w.nameTexts, w.text(w.index.functions.values[id].name))
	out.Self, out.Total = w.byFunction.appendTo(out.Self, out.Total, id, w.tree.Scale)
	if w.tree.Diff != nil {
		out.BaseSelf, out.BaseTotal = w.byFunction.appendBaseTo(out.BaseSelf, out.BaseTotal, id, w.tree.Scale)
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

// fileText returns the place of the name of a file, or of a build ID, in the tree's texts.
func (w *writer) fileText(of unique.Handle[string]) int32 {
	number, isNew := w.files.number(sharedText{of})
	if isNew {
		w.fileTexts = append(w.fileTexts, w.text(of.Value()))
	}
	return w.fileTexts[number]
}

// text adds a text to those of the tree, and returns its place.
func (w *writer) text(s string) int32 {
	w.tree.Strings = append(w.tree.Strings, s)
	return int32(len(w.tree.Strings) - 1)
}
