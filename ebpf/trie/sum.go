package trie

// tally adds up self and total of groups of frames. A group that is on the way to a node more than once counts once in
// its total.
type tally struct {
	of     []uint32 // group by frame; nil: each is one of its own
	groups []tallied
	base   [][2]int64 // by group, what of self and total is of the base; nil unless two profiles are compared
}

// tallied is what a group has.
type tallied struct {
	self, total int64
	active      bool // on the way from the root
}

// newTally returns a tally with groups that have nothing yet.
func newTally(groups []tallied, of []uint32, compares bool) *tally {
	t := &tally{of: of, groups: groups}
	if compares {
		t.base = make([][2]int64, len(groups))
	}
	return t
}

// group returns the number of a frame's group.
func (t *tally) group(frame uint32) uint32 {
	if t.of == nil {
		return frame
	}
	return t.of[frame]
}

// enter adds a node that is on the way, and reports whether it is the outermost one of its group.
func (t *tally) enter(n *node, base [2]int64) bool {
	number := t.group(n.frame)
	group := &t.groups[number]
	outermost := !group.active
	group.self += n.self
	if outermost {
		group.total += n.total
	}
	if t.base != nil {
		t.base[number][0] += base[0]
		if outermost {
			t.base[number][1] += base[1]
		}
	}
	group.active = true
	return outermost
}

// leave takes a node off the way, with what enter answered.
func (t *tally) leave(n *node, outermost bool) {
	if outermost {
		t.groups[t.group(n.frame)].active = false
	}
}

// appendTo appends self and total of a group, in multiples of scale.
func (t *tally) appendTo(self, total []int64, group uint32, scale int64) ([]int64, []int64) {
	return append(self, t.groups[group].self/scale), append(total, t.groups[group].total/scale)
}

// appendBaseTo appends what is of the base.
func (t *tally) appendBaseTo(self, total []int64, group uint32, scale int64) ([]int64, []int64) {
	return append(self, t.base[group][0]/scale), append(total, t.base[group][1]/scale)
}

// sum computes self and total of each frame, function and kind, of all that the tree is a part of.
func (w *writer) sum() {
	x, s := w.index, &w.scratch.sum
	s.makeRoom(w.Builder, len(x.frames.values), len(x.functions.values))
	w.byFrame = newTally(s.byFrame, nil, w.diff != nil)
	w.byFunction = newTally(s.byFunction, x.functionOf, w.diff != nil)
	w.frameIDs, w.functionIDs = s.frameIDs, s.functionIDs
	byKind := newTally(make([]tallied, kinds), x.kindOf, false)
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

// sumScratch is what sum needs by frame and by function.
type sumScratch struct {
	byFrame, byFunction   []tallied
	frameIDs, functionIDs []uint32
	room                  room
}

// makeRoom makes room for that many frames and functions of b, which have nothing yet.
func (s *sumScratch) makeRoom(b *Builder, frames, functions int) {
	if cap(s.byFrame) < frames || cap(s.byFunction) < functions {
		s.release()
		f, g := frames+frames/8, functions+functions/8
		s.room = newRoom(b, bytesOf[tallied](f)+bytesOf[tallied](g)+bytesOf[uint32](f)+bytesOf[uint32](g))
		populate(&s.room, s.room.left)
		s.byFrame, s.byFunction = take[tallied](&s.room, f), take[tallied](&s.room, g)
		s.frameIDs, s.functionIDs = take[uint32](&s.room, f), take[uint32](&s.room, g)
	}
	s.byFrame, s.byFunction = s.byFrame[:frames], s.byFunction[:functions]
	s.frameIDs, s.functionIDs = s.frameIDs[:frames], s.functionIDs[:functions]
	clear(s.byFrame)
	clear(s.byFunction)
	clear(s.frameIDs)
	clear(s.functionIDs)
}

// release gives the room back.
func (s *sumScratch) release() {
	s.room.release()
	*s = sumScratch{}
}
