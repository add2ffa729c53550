package trie

import (
	"hash/maphash"
	"unique"
)

// tally adds up self and total of groups of frames. A group that is on the way to a node more than once counts once in
// its total.
type tally struct {
	of     []uint32 // group by frame
	groups []tallied
	base   [][2]int64 // by group, what of self and total is of the base; nil unless two profiles are compared
}

// tallied is what a group has.
type tallied struct {
	self, total int64
	active      bool // on the way from the root
}

// newTally returns an empty tally in the memory of groups that are needed no more, if there is room, and that memory.
func newTally(in []tallied, of []uint32, groups int, compares bool) (*tally, []tallied) {
	in = grown(in, groups)
	clear(in)
	t := &tally{of: of, groups: in}
	if compares {
		t.base = make([][2]int64, groups)
	}
	return t, in
}

// enter adds a node that is on the way, and reports whether it is the outermost one of its group.
func (t *tally) enter(n *node, base [2]int64) bool {
	number := t.of[n.frame]
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
		t.groups[t.of[n.frame]].active = false
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

// functions are the functions of frames: those of one name and file are one.
type functions struct {
	of      []uint32               // by frame
	first   []unique.Handle[frame] // of each function
	numbers functionNumbers
}

// extend numbers the functions of frames that were added since the last call.
func (f *functions) extend(frames []unique.Handle[frame]) {
	key := func(number uint32) functionKey { return functionOf(f.first[number]) }
	for _, added := range frames[len(f.of):] {
		slot := f.numbers.slot(functionOf(added), len(f.first), key)
		if *slot == 0 {
			f.first = append(f.first, added)
			*slot = uint32(len(f.first))
		}
		f.of = append(f.of, *slot-1)
	}
}

func functionOf(of unique.Handle[frame]) functionKey {
	f := of.Value()
	return functionKey{f.name, f.mapping.file}
}

// functionKey is what frames of one function have in common.
type functionKey struct{ name, binary string }

// functionNumbers find functions: a hash table of their numbers. A map with their names as keys would take several
// times the memory.
type functionNumbers struct {
	slots []uint32 // functions' numbers and one, by hash; 0: none. Their number is a power of two
}

// slot returns where the number of a function and one is, or 0 where it is to be. All functions have numbers below
// known, and key returns what they are found by.
func (f *functionNumbers) slot(of functionKey, known int, key func(number uint32) functionKey) *uint32 {
	if 2*(known+1) > len(f.slots) {
		f.slots = make([]uint32, max(minEdges, 2*len(f.slots)))
		for i := range known {
			*f.find(key(uint32(i)), key) = uint32(i + 1)
		}
	}
	return f.find(of, key)
}

// clear forgets all functions, and keeps the memory.
func (f *functionNumbers) clear() { clear(f.slots) }

func (f *functionNumbers) find(of functionKey, key func(number uint32) functionKey) *uint32 {
	mask := uint64(len(f.slots) - 1)
	for at := maphash.Comparable(functionSeed, of) & mask; ; at = (at + 1) & mask {
		if slot := &f.slots[at]; *slot == 0 || key(*slot-1) == of {
			return slot
		}
	}
}

var functionSeed = maphash.MakeSeed()

// sum computes self and total of each frame, function and kind, of all that the tree is a part of.
func (w *writer) sum() {
	s := &w.scratch
	s.sameFrame, s.kindOf = grown(s.sameFrame, len(w.frames)), grown(s.kindOf, len(w.frames))
	frames, kindOf := s.sameFrame, s.kindOf
	for i := range w.frames {
		frames[i], kindOf[i] = uint32(i), uint32(w.frames[i].Value().kind)
	}
	w.functions.extend(w.frames)
	w.byFrame, s.byFrame = newTally(s.byFrame, frames, len(frames), w.diff != nil)
	w.byFunction, s.byFunction = newTally(s.byFunction, w.functions.of, len(w.functions.first), w.diff != nil)
	s.frameIDs, s.functionIDs = grown(s.frameIDs, len(frames)), grown(s.functionIDs, len(w.functions.first))
	w.frameIDs, w.functionIDs = s.frameIDs, s.functionIDs
	clear(w.frameIDs)
	clear(w.functionIDs)
	byKind, _ := newTally(nil, kindOf, kinds, false)
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
