package trie

// tally adds up self and total of groups of frames. A group that is on the way to a node more than once counts once in
// its total.
type tally struct {
	of          []int // group by frame
	self, total []int64
	was         [][2]int64 // of self and total, what is of the base
	active      []bool     // on the way from the root
}

func newTally(of []int, groups int) *tally {
	return &tally{
		of: of, self: make([]int64, groups), total: make([]int64, groups), was: make([][2]int64, groups),
		active: make([]bool, groups),
	}
}

// enter adds a node that is on the way, and reports whether it is the outermost one of its group.
func (t *tally) enter(n *node) bool {
	group := t.of[n.frame]
	outermost := !t.active[group]
	t.self[group] += n.self
	t.was[group][0] += n.was[0]
	if outermost {
		t.total[group] += n.total
		t.was[group][1] += n.was[1]
	}
	t.active[group] = true
	return outermost
}

// leave takes a node off the way, with what enter answered.
func (t *tally) leave(n *node, outermost bool) { t.active[t.of[n.frame]] = !outermost }

// appendTo appends self and total of a group, in multiples of scale.
func (t *tally) appendTo(self, total []int64, group int, scale int64) ([]int64, []int64) {
	return append(self, t.self[group]/scale), append(total, t.total[group]/scale)
}

// appendBaseTo appends what is of the base.
func (t *tally) appendBaseTo(self, total []int64, group int, scale int64) ([]int64, []int64) {
	return append(self, t.was[group][0]/scale), append(total, t.was[group][1]/scale)
}

// functions numbers the functions of the frames: those of one name and file are one.
func (b *Builder) functions() (of []int, n int) {
	type function struct{ name, file string }
	numbers := map[function]int{}
	for _, f := range b.frames {
		key := function{f.name, f.mapping.file}
		number, ok := numbers[key]
		if !ok {
			number = len(numbers)
			numbers[key] = number
		}
		of = append(of, number)
	}
	return of, len(numbers)
}

// sum computes self and total of each frame, function and kind, of all that the tree is a part of.
func (w *writer) sum() {
	frames, kindOf := make([]int, len(w.frames)), make([]int, len(w.frames))
	for i, f := range w.frames {
		frames[i], kindOf[i] = i, int(f.kind)
	}
	w.byFrame = newTally(frames, len(frames))
	w.byFunction = newTally(w.functions())
	byKind := newTally(kindOf, kinds)
	nodes, children := w.nodes, w.children
	if w.whole != nil {
		nodes, children = w.whole.nodes, w.whole.children()
	}
	var visit func(at uint32)
	visit = func(at uint32) {
		n := &nodes[at]
		frame, function, kind := w.byFrame.enter(n), w.byFunction.enter(n), byKind.enter(n)
		for _, child := range children[at] {
			visit(child)
		}
		w.byFrame.leave(n, frame)
		w.byFunction.leave(n, function)
		byKind.leave(n, kind)
	}
	for _, child := range children[0] {
		visit(child)
	}
	out := &w.tree.Kinds
	for kind := range kinds {
		out.Self, out.Total = byKind.appendTo(out.Self, out.Total, kind, w.tree.Scale)
	}
}
