package tree

import (
	"slices"

	"github.com/google/pprof/profile"
)

// Frame describes a frame to the conditions of a Choice.
type Frame struct{ Name, File, Binary, BuildID string }

// Choice selects samples of a Folded to add. The zero value selects all.
type Choice struct {
	// Sample selects samples by their labels and the name of their outermost frame; nil selects all.
	Sample func(labels *profile.Sample, outermost string) bool
	// With holds conditions: a stack must have a frame that meets each. Without is a condition that no frame may meet.
	With    []func(Frame) bool
	Without func(Frame) bool
	// Root returns the name of a frame to add as the outermost one of a stack; nil adds none.
	Root func(labels *profile.Sample) string
}

// maxConditions is the maximum number of conditions in Choice.With.
const maxConditions = 8

// Added describes the samples that were added from a Folded.
type Added struct {
	Total  int64             // value of the added samples
	Labels []*profile.Sample // one for each set of labels of the added samples
}

// walker receives stacks as a walk through the tree that they form.
type walker interface {
	// begin is called first, with all places that may be passed to enter.
	begin(t table)
	// enter moves to a place at a depth of 1 or more, below the place that was entered last at the depth above.
	enter(depth int, place uint32)
	// sample passes the value of samples that end at the current place at a depth; depth 0 is the root.
	sample(depth int, value int64)
}

// walkSamples passes the chosen samples, and only these, to a walker.
func (f *Folded) walkSamples(c Choice, to walker) (added Added) {
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

// tableOf returns the table of the chosen stacks: the table of f, plus a root for each set if c.Root is set.
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

// walkSet passes the chosen samples of one set to a walker. It returns their total, and whether there are any.
func (f *Folded) walkSet(i int, c Choice, conditions *conditions, to walker) (total int64, any bool) {
	s, below := &f.sets[i], 0
	if c.Root != nil {
		below = 1
	}
	path := []uint32{uint32(len(f.places) + i)}[:below] // places by depth
	entered := 0                                        // number of levels of path that were entered
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

// isAll reports whether c chooses all samples unchanged.
func (c *Choice) isAll() bool {
	return c.Sample == nil && len(c.With) == 0 && c.Without == nil && c.Root == nil
}

// chosen returns a Folded with the chosen samples of f.
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

// EachOutermost calls visit with the value of the chosen samples of f for each combination of labels and outermost
// frame. outermost is "" for samples without frames.
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
				outermost = f.places[n.place].of.frameName()
			}
			sum += n.self
		})
		pass()
		if s.hasSelf(c, conditions) {
			visit(s.labels, "", s.self*f.scale)
		}
	}
}

// hasSelf reports whether s has samples without a frame and they are chosen.
func (s *set) hasSelf(c Choice, conditions *conditions) bool {
	return s.self != 0 && conditions.haveNone() && (c.Sample == nil || c.Sample(s.labels, ""))
}

// setNode is a node of a set.
type setNode struct {
	depth int // from 1
	place uint32
	self  int64 // value of the chosen samples, in multiples of Folded.scale
}

// eachNode calls visit for the nodes of a set in preorder. A node is valid until visit returns.
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
			keep = c.Sample(s.labels, of.places[n.place].of.frameName())
		}
		conditions.enter(n.depth, of.places[n.place].frame)
		if first&hasSelf != 0 {
			if value := r.signed(); keep && conditions.areMet(n.depth) {
				n.self = value
			}
		}
		visit(&n)
	}
}

// conditions tracks which conditions of a Choice the frames of a stack meet. It is nil if there are no conditions.
type conditions struct {
	of     []uint16 // by frame, one bit per condition that the frame meets
	want   uint16   // bits of With, which a stack must have
	refuse uint16   // bit of Without, which a stack must not have
	path   []uint16 // by depth, the bits of the frames down to it
}

// conditionsOf evaluates the conditions of c once for each frame.
func (c *Choice) conditionsOf(of *Folded) *conditions {
	if len(c.With) == 0 && c.Without == nil {
		return nil
	}
	out := &conditions{of: make([]uint16, of.frames), want: 1<<min(len(c.With), maxConditions) - 1}
	if c.Without != nil {
		out.refuse = 1 << maxConditions
	}
	of.eachFrame(func(number uint32, of sharedFrame) {
		f := of.openFrame()
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

func (c *conditions) haveNone() bool { return c == nil || c.want == 0 }

// enter records the frame at a depth of 1 or more.
func (c *conditions) enter(depth int, frame uint32) {
	if c == nil {
		return
	}
	for len(c.path) <= depth {
		c.path = append(c.path, 0)
	}
	c.path[depth] = c.path[depth-1] | c.of[frame]
}

// areMet reports whether the stack down to a depth meets all conditions.
func (c *conditions) areMet(depth int) bool {
	return c == nil || c.path[depth]&c.want == c.want && c.path[depth]&c.refuse == 0
}
