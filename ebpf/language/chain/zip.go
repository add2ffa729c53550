package chain

// Placed is the frames of a chain, frames[From:To], that run on one native evaluation frame.
type Placed struct{ From, To int }

// Frame is the data of a chain frame that Place needs.
type Frame struct {
	Last   bool // its caller is native code
	Hidden bool
}

// Native is the data of the native stack that Place needs.
type Native struct {
	Evaluations int  // number of evaluation frames
	Whole       bool // the stack reaches the outermost frame
	Leaf        bool // the leaf is an evaluation frame
	LeafEnters  bool // the leaf is an evaluation frame without chain frames: not pushed yet, or already popped
	LeafMay     bool // the leaf is an evaluation frame that may have no chain frames
}

// Place returns the chain frames that each native evaluation frame runs, both leaf first. It returns false, and places
// no frames, if the placement is not certain.
//
// A native frame has no run if its function had not started, or had already ended, when the sample was taken. Only the
// leaf can be in that state, so whole stacks are aligned from their outermost frame, and incomplete stacks from the
// leaf.
func Place(frames []Frame, whole bool, n Native) ([]Placed, bool) {
	runs := runsOf(frames)
	if !whole || !n.Whole {
		return placePart(runs, whole, n)
	}
	if len(runs) == n.Evaluations+1 && allHidden(frames, runs[len(runs)-1]) {
		runs = runs[:len(runs)-1] // the frame of the thread itself
	}
	if n.LeafEnters && len(runs) > 0 && len(runs) == n.Evaluations {
		runs = runs[1:] // remains of an earlier call
	}
	switch {
	case len(runs) == n.Evaluations:
		return runs, true
	case len(runs) == n.Evaluations-1 && n.Leaf:
		return append([]Placed{{}}, runs...), true
	}
	return nil, false
}

// placePart aligns incomplete chains or stacks from the leaf.
func placePart(runs []Placed, whole bool, n Native) ([]Placed, bool) {
	if n.LeafEnters || n.LeafMay {
		return nil, false // it is unknown whether the leaf has a run
	}
	if n.Whole && len(runs) > n.Evaluations || whole && len(runs) < n.Evaluations {
		return nil, false
	}
	out := make([]Placed, n.Evaluations)
	copy(out, runs)
	return out, true
}

// runsOf returns the runs of a chain: each ends with a frame that native code called.
func runsOf(frames []Frame) (runs []Placed) {
	from := 0
	for i, f := range frames {
		if f.Last || i == len(frames)-1 {
			runs = append(runs, Placed{from, i + 1})
			from = i + 1
		}
	}
	return runs
}

func allHidden(frames []Frame, p Placed) bool {
	for _, f := range frames[p.From:p.To] {
		if !f.Hidden {
			return false
		}
	}
	return true
}
