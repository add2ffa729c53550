package trie

// tally adds up self and total of groups of frames. A group that is on the way to a node more than once counts once in
// its total.
type tally struct {
	of     []uint32 // group by frame
	groups []tallied
}

// tallied is what a group has.
type tallied struct {
	self, total int64
	base        [2]int64 // of self and total, what is of the base
	active      bool     // on the way from the root
}

// newTally returns an empty tally in the memory of groups that are needed no more, if there is room, and that memory.
func newTally(in []tallied, of []uint32, groups int) (*tally, []tallied) {
	if cap(in) < groups {
		in = make([]tallied, groups, groups+groups/8)
	}
	in = in[:groups]
	clear(in)
	return &tally{of: of, groups: in}, in
}

// enter adds a node that is on the way, and reports whether it is the outermost one of its group.
func (t *tally) enter(n *node, base [2]int64) bool {
	group := &t.groups[t.of[n.frame]]
	outermost := !group.active
	group.self += n.self
	group.base[0] += base[0]
	if outermost {
		group.total += n.total
		group.base[1] += base[1]
	}
	group.active = true
	return outermost
}

// leave takes a node off the way, with what enter answered.
func (t *tally) leave(n *node, outermost bool) {
	if outermost {
		t.groups[t.of[n.frame]].active = false
	}
}

// appendTo appends self and total of a group, in multiples of scale.
func (t *tally) appendTo(self, total []int64, group uint32, scale int64) ([]int64, []int64) {
	return append(self, t.groups[group].self/scale), append(total, t.groups[group].total/scale)
}

// appendBaseTo appends what is of the base.
func (t *tally) appendBaseTo(self, total []int64, group uint32, scale int64) ([]int64, []int64) {
	return append(self, t.groups[group].base[0]/scale), append(total, t.groups[group].base[1]/scale)
}

// functionNumbers number the functions of frames: those of one name and file are one.
type functionNumbers struct {
	of      []uint32 // by frame
	numbers map[functionKey]uint32
}

// extend numbers the functions of frames that were added since the last call.
func (f *functionNumbers) extend(frames []frame) {
	if f.numbers == nil {
		f.numbers = map[functionKey]uint32{}
	}
	for i := len(f.of); i < len(frames); i++ {
		key := functionKey{frames[i].name, frames[i].mapping.file}
		number, ok := f.numbers[key]
		if !ok {
			number = uint32(len(f.numbers))
			f.numbers[key] = number
		}
		f.of = append(f.of, number)
	}
}

// sum computes self and total of each frame, function and kind, of all that the tree is a part of.
func (w *writer) sum() {
	s := &w.scratch
	s.sameFrame, s.kindOf = grown(s.sameFrame, len(w.frames)), grown(s.kindOf, len(w.frames))
	frames, kindOf := s.sameFrame, s.kindOf
	for i := range w.frames {
		frames[i], kindOf[i] = uint32(i), uint32(w.frames[i].kind)
	}
	w.functions.extend(w.frames)
	w.byFrame, s.byFrame = newTally(s.byFrame, frames, len(frames))
	w.byFunction, s.byFunction = newTally(s.byFunction, w.functions.of, len(w.functions.numbers))
	s.frameIDs, s.functionIDs = grown(s.frameIDs, len(frames)), grown(s.functionIDs, len(w.functions.numbers))
	w.frameIDs, w.functionIDs = s.frameIDs, s.functionIDs
	clear(w.frameIDs)
	clear(w.functionIDs)
	byKind, _ := newTally(nil, kindOf, kinds)
	of, children := w.Builder, w.children
	if of.whole != nil {
		of = of.whole
		of.settle()
		children = of.children()
	}
	for _, child := range children.of(0) {
		w.enter(of, children, child, byKind)
	}
	out := &w.tree.Kinds
	for kind := range uint32(kinds) {
		out.Self, out.Total = byKind.appendTo(out.Self, out.Total, kind, w.tree.Scale)
	}
}

// enter adds a node and all below it.
func (w *writer) enter(of *Builder, all *children, at uint32, byKind *tally) {
	n, base := &of.nodes[at], of.baseOf(at)
	frame, function, kind := w.byFrame.enter(n, base), w.byFunction.enter(n, base), byKind.enter(n, base)
	for _, child := range all.of(at) {
		w.enter(of, all, child, byKind)
	}
	w.byFrame.leave(n, frame)
	w.byFunction.leave(n, function)
	byKind.leave(n, kind)
}
