package top

import (
	"cmp"
	"slices"
)

// box is a function below its callers, as a flame graph shows it.
type box struct {
	x, width    int // in columns
	depth       int // 0: all
	frame       int32
	parent      int // its place among the boxes; -1: it is the one of all
	self, total int64
}

// all is the frame of the box of everything.
const all = -1

// flame lays stacks out over some columns. The boxes are in preorder, children by value. Those that have less than
// a column are left out. zoom is the path to the box that takes the whole width, from below that of all on.
func flame(stacks []counted, zoom []int32, width int) []box {
	l := layout{width: int64(width), total: sum(stacks)}
	l.add(stacks, 0, box{frame: all, parent: -1, width: width}, zoom)
	return l.boxes
}

type layout struct {
	width int64
	total int64 // value of the box that takes the whole width
	boxes []box
}

// add adds a box that begins at a value, and those below it. All of stacks are in it.
func (l *layout) add(stacks []counted, begin int64, b box, zoom []int32) {
	ended := 0 // stacks that end here come first
	slices.SortFunc(stacks, func(x, y counted) int { return cmp.Compare(frameAt(x, b.depth), frameAt(y, b.depth)) })
	for _, c := range stacks {
		b.total += c.value
		if frameAt(c, b.depth) == all {
			b.self += c.value
			ended++
		}
	}
	at := len(l.boxes)
	l.boxes = append(l.boxes, b)
	stacks = stacks[ended:]
	if len(zoom) == 0 {
		l.children(groups(stacks, b.depth), begin, at)
		return
	}
	stacks = slices.DeleteFunc(stacks, func(c counted) bool { return c.frames[b.depth] != zoom[0] })
	if l.total = sum(stacks); len(stacks) > 0 { // it alone, over the whole width
		l.add(stacks, 0, box{x: b.x, width: b.width, depth: b.depth + 1, frame: zoom[0], parent: at}, zoom[1:])
	}
}

// children adds the boxes below a box that begins at a value, the largest first.
func (l *layout) children(groups [][]counted, begin int64, parent int) {
	depth := l.boxes[parent].depth
	column := func(value int64) int { return int(float64(value) / float64(l.total) * float64(l.width)) }
	for _, g := range groups {
		x, end := column(begin), column(begin+sum(g))
		if end > x {
			l.add(g, begin, box{x: x, width: end - x, depth: depth + 1, frame: g[0].frames[depth], parent: parent}, nil)
		}
		begin += sum(g)
	}
}

// groups divides sorted stacks by their frame at a depth, the largest group first.
func groups(stacks []counted, depth int) (out [][]counted) {
	for len(stacks) > 0 {
		n := 1
		for n < len(stacks) && stacks[n].frames[depth] == stacks[0].frames[depth] {
			n++
		}
		out = append(out, stacks[:n:n])
		stacks = stacks[n:]
	}
	slices.SortStableFunc(out, func(a, b []counted) int { return cmp.Compare(sum(b), sum(a)) })
	return out
}

// frameAt returns a frame of a stack, all if it is not as deep.
func frameAt(c counted, depth int) int32 {
	if depth >= len(c.frames) {
		return all
	}
	return c.frames[depth]
}

// pathOf returns the frames from below the box of all to a box.
func pathOf(boxes []box, at int) (out []int32) {
	for ; at > 0; at = boxes[at].parent {
		out = append(out, boxes[at].frame)
	}
	slices.Reverse(out)
	return out
}

// find returns the box with a path, or the nearest one above it that there is.
func find(boxes []box, frames []int32) (at int) {
	for _, f := range frames {
		next := slices.IndexFunc(boxes, func(b box) bool { return b.parent == at && b.frame == f })
		if next < 0 {
			break
		}
		at = next
	}
	return at
}
