package trie

import (
	"slices"

	"github.com/google/pprof/profile"
)

// Frame is what is known of a frame.
type Frame struct{ Name, File, Binary, BuildID string }

// Choice says what of a Folded is added. The zero value means all.
type Choice struct {
	// Sample says which samples are added, by their labels and the name of their outermost frame; nil: all.
	Sample func(labels *profile.Sample, outermost string) bool
	// With has conditions, for each of which a stack must have a frame; Without is one that no frame of it may meet.
	With    []func(Frame) bool
	Without func(Frame) bool
	// Root names a frame that is added as the outermost one; nil: there is none.
	Root func(labels *profile.Sample) string
}

// maxConditions is how many conditions a Choice may have together.
const maxConditions = 8

// Added is what was added of a Folded.
type Added struct {
	Total  int64             // value of the samples
	Labels []*profile.Sample // have the labels of the samples
}

// walker is told of stacks, as a way through the tree that they make.
type walker interface {
	// begin comes first, with all places that enter may name.
	begin(t table)
	// enter goes to a place at a depth, from 1 on, below what was entered last at the depth before.
	enter(depth int, place uint32)
	// sample has the value of samples that end where the way is, at that depth; 0 is the root.
	sample(depth int, value int64)
}

// walk leads a walker to all samples that are chosen, and to nothing else.
func (f *Folded) walk(c Choice, to walker) (added Added) {
	t := f.tableOf(c)
	to.begin(t)
	conditions := c.conditionsOf(f)
	for i := range f.sets {
		if total, any := f.walkSet(i, c, conditions, to); any {
			added.Total += total
			added.Labels = append(added.Labels, f.sets[i].labels)
		}
	}
	return added
}

// tableOf returns what the stacks are made of that are chosen: with a root for each set, if there are roots.
func (f *Folded) tableOf(c Choice) table {
	if c.Root == nil {
		return f.table
	}
	t := table{slices.Clip(f.places), f.frames}
	for i := range f.sets {
		name := c.Root(f.sets[i].labels)
		root := frame{name: name, kind: KindOf(nil, name, false)}
		t.places = append(t.places, place{of: root.share(), frame: uint32(t.frames)})
		t.frames++
	}
	return t
}

// walkSet leads a walker to the samples of one set. It returns their total, and whether there are any.
func (f *Folded) walkSet(i int, c Choice, conditions *conditions, to walker) (total int64, any bool) {
	s, below := &f.sets[i], 0
	if c.Root != nil {
		below = 1
	}
	path := []uint32{uint32(len(f.places) + i)}[:below] // places, by depth
	entered := 0                                        // levels of the path
	sample := func(depth int, value int64) {
		for ; entered < depth; entered++ {
			to.enter(entered+1, path[entered])
		}
		to.sample(depth, value*f.scale)
		total, any = total+value*f.scale, true
	}
	if s.hasSelf(c, conditions) {
		sample(below, s.self)
	}
	s.eachNode(f, c, conditions, func(n *setNode) {
		depth := below + n.depth
		path = append(path[:depth-1], n.place)
		entered = min(entered, depth-1)
		if n.self != 0 {
			sample(depth, n.self)
		}
	})
	return total, any
}

// isAll reports whether c chooses everything as it is.
func (c *Choice) isAll() bool {
	return c.Sample == nil && len(c.With) == 0 && c.Without == nil && c.Root == nil
}

// chosen returns what is chosen of f.
func (f *Folded) chosen(c Choice) (of *Folded, added Added) {
	if c.isAll() {
		for i := range f.sets {
			added.Total += f.sets[i].total * f.scale
			added.Labels = append(added.Labels, f.sets[i].labels)
		}
		return f, added
	}
	of = &Folded{sampleType: f.sampleType, scale: f.scale, table: f.tableOf(c)}
	conditions := c.conditionsOf(f)
	for i := range f.sets {
		w := setWalker{of: of}
		total, any := f.walkSet(i, c, conditions, &w)
		if !any {
			continue
		}
		added.Total += total
		added.Labels = append(added.Labels, f.sets[i].labels)
		of.sets = append(of.sets, set{f.sets[i].labels, w.data, w.self, total / f.scale})
		of.nodes += w.nodes
	}
	return of, added
}

// setWalker writes stacks into a set.
type setWalker struct {
	encoder
	of    *Folded
	self  int64
	nodes int
}

func (w *setWalker) begin(table) {}

func (w *setWalker) enter(depth int, at uint32) {
	w.encoder.enter(depth, at, w.of.places[at].frame)
	w.nodes++
}

func (w *setWalker) sample(depth int, value int64) {
	if depth == 0 {
		w.self = value / w.of.scale
		return
	}
	w.encoder.sample(value / w.of.scale)
}

// EachOutermost passes what is chosen of f by labels and outermost frame, whose name is "" for samples without frames.
func (f *Folded) EachOutermost(c Choice, visit func(labels *profile.Sample, outermost string, value int64)) {
	conditions := c.conditionsOf(f)
	for i := range f.sets {
		s := &f.sets[i]
		var outermost string
		var sum int64
		pass := func() {
			if sum != 0 {
				visit(s.labels, outermost, sum*f.scale)
			}
			sum = 0
		}
		s.eachNode(f, c, conditions, func(n *setNode) {
			if n.depth == 1 {
				pass()
				outermost = f.places[n.place].of.name()
			}
			sum += n.self
		})
		pass()
		if s.hasSelf(c, conditions) {
			visit(s.labels, "", s.self*f.scale)
		}
	}
}

// hasSelf reports whether samples without a frame are chosen.
func (s *set) hasSelf(c Choice, conditions *conditions) bool {
	return s.self != 0 && conditions.none() && (c.Sample == nil || c.Sample(s.labels, ""))
}

// setNode is a node of a set.
type setNode struct {
	depth int // from 1 on
	place uint32
	self  int64 // of the samples that are chosen, in multiples of Folded.scale
}

// eachNode passes the nodes of a set in preorder. A node is visit's until the next one.
func (s *set) eachNode(of *Folded, c Choice, conditions *conditions, visit func(*setNode)) {
	keep := true
	var n setNode
	for r := (reader{s.nodes}); len(r.data) > 0; {
		first := r.unsigned()
		if first&isTwin != 0 {
			r.unsigned()
		}
		n = setNode{depth: n.depth + 1 - int(first>>flagBits), place: uint32(r.unsigned())}
		if n.depth == 1 && c.Sample != nil {
			keep = c.Sample(s.labels, of.places[n.place].of.name())
		}
		conditions.enter(n.depth, of.places[n.place].frame)
		if first&hasSelf != 0 {
			if value := r.signed(); keep && conditions.met(n.depth) {
				n.self = value
			}
		}
		visit(&n)
	}
}

// conditions follows which conditions of a Choice the frames of a stack meet. nil: there are none.
type conditions struct {
	of     []uint16 // by frame, a bit for each that it meets
	want   uint16   // bits that a stack must have
	refuse uint16   // and the one that it must not have
	path   []uint16 // by depth, what the frames so far meet
}

// conditionsOf looks at each frame once.
func (c *Choice) conditionsOf(of *Folded) *conditions {
	if len(c.With) == 0 && c.Without == nil {
		return nil
	}
	out := &conditions{of: make([]uint16, of.frames), want: 1<<min(len(c.With), maxConditions) - 1}
	if c.Without != nil {
		out.refuse = 1 << maxConditions
	}
	of.eachFrame(func(number uint32, of sharedFrame) {
		f := of.open()
		about := Frame{Name: f.name, File: f.file, Binary: f.mapping.file, BuildID: f.mapping.buildID}
		for bit, has := range c.With {
			if has(about) {
				out.of[number] |= 1 << bit
			}
		}
		if c.Without != nil && c.Without(about) {
			out.of[number] |= out.refuse
		}
	})
	return out
}

func (c *conditions) none() bool { return c == nil || c.want == 0 }

// enter notes the frame at a depth, from 1 on.
func (c *conditions) enter(depth int, frame uint32) {
	if c == nil {
		return
	}
	for len(c.path) <= depth {
		c.path = append(c.path, 0)
	}
	c.path[depth] = c.path[depth-1] | c.of[frame]
}

// met reports whether the stack down to a depth meets them.
func (c *conditions) met(depth int) bool {
	return c == nil || c.path[depth]&c.want == c.want && c.path[depth]&c.refuse == 0
}
