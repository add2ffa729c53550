package top

import (
	"cmp"
	"slices"
)

// box is a function below its callers in a flame graph.
type box struct {
	x, width    int // in columns
	depth       int // 0: the root box
	frame       int32
	parent      int // index of the parent box; -1 for the root box
	self, total int64
}

// all is the frame number of the root box.
const all = -1

// flame lays out stacks as a flame graph of a width in columns. The boxes are in preorder, children by value. Boxes
// narrower than a column are left out. zoom is the path from below the root box to the box that takes the whole width.
func flame(stacks []counted, zoom []int32, width int) []box {
	l := layout{width: int64(width), total: sumValues(stacks)}
	l.addStacks(stacks, 0, box{frame: all, parent: -1, width: width}, zoom)
	return l.boxes
}

type layout struct {
	width int64
	total int64 // value of the zoomed box
	boxes []box
}

// addStacks adds a box that starts at offset begin, and the boxes below it. All stacks pass through the box.
func (l *layout) addStacks(stacks []counted, begin int64, b box, zoom []int32) {
	ended := 0 // number of stacks that end here; they sort first
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
	if l.total = sumValues(stacks); len(stacks) > 0 { // draw only this child, at full width
		l.addStacks(stacks, 0, box{x: b.x, width: b.width, depth: b.depth + 1, frame: zoom[0], parent: at}, zoom[1:])
	}
}

// children adds the boxes below a box from offset begin on, largest first.
func (l *layout) children(groups [][]counted, begin int64, parent int) {
	depth := l.boxes[parent].depth
	column := func(value int64) int { return int(float64(value) / float64(l.total) * float64(l.width)) }
	for _, g := range groups {
		x, end := column(begin), column(begin+sumValues(g))
		if end > x {
			l.addStacks(g, begin, box{x: x, width: end - x, depth: depth + 1, frame: g[0].frames[depth], parent: parent}, nil)
		}
		begin += sumValues(g)
	}
}

// groups divides sorted stacks by their frame at a depth, largest group first.
func groups(stacks []counted, depth int) (out [][]counted) {
	for len(stacks) > 0 {
		n := 1
		for n < len(stacks) && stacks[n].frames[depth] == stacks[0].frames[depth] {
			n++
		}
		out = append(out, stacks[:n:n])
		stacks = stacks[n:]
	}
	slices.SortStableFunc(out, func(a, b []counted) int { return cmp.Compare(sumValues(b), sumValues(a)) })
	return out
}

// frameAt returns the frame of a stack at a depth, or all if the stack is not that deep.
func frameAt(c counted, depth int) int32 {
	if depth >= len(c.frames) {
		return all
	}
	return c.frames[depth]
}

// pathOf returns the frames from below the root box to a box.
func pathOf(boxes []box, at int) (out []int32) {
	for ; at > 0; at = boxes[at].parent {
		out = append(out, boxes[at].frame)
	}
	slices.Reverse(out)
	return out
}

// findBox returns the box with a path, or its nearest existing ancestor.
func findBox(boxes []box, frames []int32) (at int) {
	for _, f := range frames {
		next := slices.IndexFunc(boxes, func(b box) bool { return b.parent == at && b.frame == f })
		if next < 0 {
			break
		}
		at = next
	}
	return at
}
