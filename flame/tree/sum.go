package tree

// tallies add up self and total of frames, functions and kinds during a walk through all nodes. The walk must call
// enter for a node before the nodes below it, and leave after them.
type tallies struct {
	frames    []frameTally // by frame
	functions []tally      // by function
	kinds     [kinds]tally
	base      baseTallies
}

// tally is the sum of the nodes of one frame, function or kind. A recursive one counts once in its total.
type tally struct {
	self, total int64
	active      bool // on the current path
}

// frameTally is the tally of a frame, with the frame's kind and function.
type frameTally struct {
	tally
	kind     Kind
	function uint32
}

// outermost records whether a node is the outermost one of its frame, function and kind on the path.
type outermost struct{ frame, function, kind bool }

// begin makes zero tallies for all frames of x.
func (t *tallies) begin(x *index) {
	t.frames = grown(t.frames, len(x.frames.values), 0)
	for i := range t.frames {
		t.frames[i] = frameTally{kind: x.kindOf[i], function: x.functionOf[i]}
	}
	t.functions = emptied(&t.functions, len(x.functions.values))
	t.kinds, t.base = [kinds]tally{}, baseTallies{}
}

// enter puts a node on the current path. Its result must be passed to leave.
func (t *tallies) enter(frame uint32) outermost {
	f := &t.frames[frame]
	return outermost{f.enter(), t.functions[f.function].enter(), t.kinds[f.kind].enter()}
}

// leave removes a node from the current path, and adds its values.
func (t *tallies) leave(frame uint32, self, total int64, of outermost) {
	f := &t.frames[frame]
	f.leave(self, total, of.frame)
	t.functions[f.function].leave(self, total, of.function)
	t.kinds[f.kind].leave(self, total, of.kind)
}

func (t *tally) enter() (outermost bool) {
	outermost = !t.active
	t.active = true
	return outermost
}

func (t *tally) leave(self, total int64, outermost bool) {
	t.self += self
	if outermost {
		t.total += total
		t.active = false
	}
}

// appendTo appends self and total, in multiples of scale.
func (t *tally) appendTo(self, total []int64, scale int64) ([]int64, []int64) {
	return append(self, t.self/scale), append(total, t.total/scale)
}

// baseTallies are the base's share of tallies, if profiles are compared.
type baseTallies struct{ frames, functions []tally }

// addBase adds the base's share of a node. of is the result of enter for the node.
func (t *tallies) addBase(frame uint32, base [2]int64, of outermost) {
	if t.base.frames == nil {
		t.base = baseTallies{make([]tally, len(t.frames)), make([]tally, len(t.functions))}
	}
	t.base.frames[frame].leave(base[0], base[1], of.frame)
	t.base.functions[t.frames[frame].function].leave(base[0], base[1], of.function)
}
