package verify

import (
	"github.com/headwater/headwater/ebpf/kernel"
	"github.com/headwater/headwater/ebpf/unwind"
	"github.com/headwater/headwater/ebpf/verify/reference"
)

// Difference is the way in which a walk differs from the reference.
type Difference string

// The differences.
const (
	Same       Difference = ""            // the same, up to the end of the shorter one
	OtherFrame Difference = "other_frame" // a frame differs
	EndedEarly Difference = "ended_early" // reported as complete, but the reference continues
	PastRoot   Difference = "past_root"   // continues past the outermost frame
	Missing    Difference = "missing"     // reported as incomplete, and the reference continues or reaches the root
)

// Extent is the part of a stack that could be compared.
type Extent string

// The extents.
const (
	Whole         Extent = "whole"          // the reference reached the root, or the stacks differ before it ends
	InPart        Extent = "in_part"        // the reference ended between the leaf and the root
	NotComparable Extent = "not_comparable" // the reference did not find the leaf's caller
)

// comparison is the result for one stack. Both sides start with the sampled pc, so the leaf need not be found: it
// counts only if its file differs.
type comparison struct {
	difference  Difference
	extent      Extent
	at          int // index of the frame whose caller differs; -1 if none
	compared    int // callers that both sides should have
	agreed      int // equal callers of compared
	missing     int // callers of compared past the end of a walk that reports that it is incomplete
	uncheckable int // callers past the end of a reference walk that stopped before the root
}

// comparer reports whether two frames are the same. Its methods compare stacks.
type comparer func(kernel.Frame, reference.Frame) bool

// stacks compares the frames of a walk with the frames of the reference, position by position, leaf first.
func (same comparer) stacks(ours []kernel.Frame, outcome unwind.Outcome, s *reference.Stack) comparison {
	theirs := located(s)
	both := min(len(ours), len(theirs))
	c := comparison{at: -1, compared: max(both-1, 0)}
	for i := range both {
		equal := same(ours[i], theirs[i]) || stoppedAt(ours, i, outcome) && ours[i].Vaddr == theirs[i].PC
		if equal && i > 0 {
			c.agreed++
		}
		if !equal && i == 0 { // the pc is the same, but in a different file
			c.compared++
		}
		if !equal && c.difference == Same {
			c.difference, c.at = OtherFrame, max(i-1, 0)
		}
	}
	if c.difference == Same {
		c.compareEnds(len(ours), len(theirs), outcome, s.End.Root())
	}
	switch {
	case c.difference == OtherFrame || s.End.Root():
		c.extent = Whole
	case c.compared > 0:
		c.extent = InPart
	default:
		c.extent = NotComparable
	}
	return c
}

// compareEnds compares the ends of two stacks with equal frames.
func (c *comparison) compareEnds(ours, theirs int, outcome unwind.Outcome, root bool) {
	both := min(ours, theirs)
	last := both - 1
	fewer, more := theirs-max(both, 1), ours-max(both, 1) // callers
	cut := outcome == unwind.DepthLimit                   // the walk has the maximum number of frames
	switch {
	case fewer > 0 && outcome.Complete():
		c.difference, c.at = EndedEarly, last
		c.compared += fewer
	case (fewer > 0 || root) && !outcome.Complete() && !cut:
		c.difference, c.at, c.missing = Missing, last, max(fewer, 0)
		c.compared += c.missing
	case more > 0 && root:
		c.difference, c.at = PastRoot, last
		c.compared += more
	default:
		c.uncheckable = max(more, 0)
	}
}

// located returns the frames of the reference, without the last one if its file is unknown.
func located(s *reference.Stack) []reference.Frame {
	last := len(s.Frames) - 1
	if last >= 0 && s.Frames[last].File == nil && s.End != reference.NoFile {
		return s.Frames[:last]
	}
	return s.Frames
}

// stoppedAt reports whether an incomplete walk ended at frame i because the file of the frame is unknown.
func stoppedAt(ours []kernel.Frame, i int, outcome unwind.Outcome) bool {
	return i == len(ours)-1 && ours[i].Exe == 0 && !outcome.Complete()
}
