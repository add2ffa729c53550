package chain

// Placed says what runs on each native evaluation frame: frames[From:To] of a chain.
type Placed struct{ From, To int }

// Frame is what Place has to know of a frame of a chain.
type Frame struct {
	Last   bool // native code called it
	Hidden bool
}

// Native is what Place has to know of the native stack.
type Native struct {
	Evaluations int  // frames of the evaluation
	Whole       bool // the stack reaches the outermost frame
	Leaf        bool // the leaf is one of them
	LeafEnters  bool // the leaf is one of them, and has no frames of the chain yet, or no more
	LeafMay     bool // the leaf is one of them, and may have none
}

// Place says which frames of a chain each native frame of the evaluation runs, both leaf first.
// It reports false where that is not certain; nothing is placed then.
//
// A frame whose function was not begun when the sample was taken has no run yet, one whose
// function has ended has none any more. As that is the leaf alone, whole stacks are aligned
// from their outermost frame on, others from the leaf.
func Place(frames []Frame, whole bool, n Native) ([]Placed, bool) {
	runs := runsOf(frames)
	if !whole || !n.Whole {
		return placePart(runs, whole, n)
	}
	if len(runs) == n.Evaluations+1 && allHidden(frames, runs[len(runs)-1]) {
		runs = runs[:len(runs)-1] // of the thread itself
	}
	if n.LeafEnters && len(runs) > 0 && len(runs) == n.Evaluations {
		runs = runs[1:] // left by a call of before
	}
	switch {
	case len(runs) == n.Evaluations:
		return runs, true
	case len(runs) == n.Evaluations-1 && n.Leaf:
		return append([]Placed{{}}, runs...), true
	}
	return nil, false
}

// placePart aligns what is not whole from the leaf on.
func placePart(runs []Placed, whole bool, n Native) ([]Placed, bool) {
	if n.LeafEnters || n.LeafMay {
		return nil, false // the leaf has a run, or has none
	}
	if n.Whole && len(runs) > n.Evaluations || whole && len(runs) < n.Evaluations {
		return nil, false
	}
	out := make([]Placed, n.Evaluations)
	copy(out, runs)
	return out, true
}

// runsOf returns the runs of a chain.
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
