package verify

import (
	"github.com/headwater/headwater/ebpf/kernel"
	"github.com/headwater/headwater/ebpf/unwind"
	"github.com/headwater/headwater/ebpf/verify/reference"
)

// Difference says how a walk differs from the reference.
type Difference string

// The differences.
const (
	Same       Difference = ""            // as far as both go
	OtherFrame Difference = "other_frame" // a frame is another one
	EndedEarly Difference = "ended_early" // called complete, but the reference goes on
	PastRoot   Difference = "past_root"   // goes on beyond the outermost frame
	Missing    Difference = "missing"     // ends early and says so, but the reference goes on, or has found the root
)

// Extent says how much of a stack could be compared.
type Extent string

// The extents.
const (
	Whole         Extent = "whole"          // the reference reached the root, or the stacks differ before it ends
	InPart        Extent = "in_part"        // the reference ended between the leaf and the root
	NotComparable Extent = "not_comparable" // the reference did not find the leaf's caller
)

// comparison is what became of one stack. Both sides begin with the sampled pc, so the
// leaf is no frame that has to be found: it counts only where its file is another one.
type comparison struct {
	difference  Difference
	extent      Extent
	at          int // index of the frame whose caller is found differently; -1: none
	compared    int // callers that both should have
	agreed      int // of these, equal
	missing     int // of these, beyond the end of a walk that knows that it is incomplete
	uncheckable int // callers beyond the end of a reference walk that could not go on
}

// comparer compares stacks by a way to compare frames.
type comparer func(kernel.Frame, reference.Frame) bool

// stacks compares the frames of a walk with those of the reference, position by
// position, leaf first.
func (same comparer) stacks(ours []kernel.Frame, outcome unwind.Outcome, s *reference.Stack) comparison {
	theirs := located(s)
	both := min(len(ours), len(theirs))
	c := comparison{at: -1, compared: max(both-1, 0)}
	for i := range both {
		equal := same(ours[i], theirs[i]) || stoppedAt(ours, i, outcome) && ours[i].Vaddr == theirs[i].PC
		if equal && i > 0 {
			c.agreed++
		}
		if !equal && i == 0 { // the same pc in another file
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

// compareEnds compares where stacks end whose frames are the same.
func (c *comparison) compareEnds(ours, theirs int, outcome unwind.Outcome, root bool) {
	both := min(ours, theirs)
	last := both - 1
	fewer, more := theirs-max(both, 1), ours-max(both, 1) // callers
	cut := outcome == unwind.DepthLimit                   // as many frames as there may be
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

// located returns the frames of the reference but for the last one if it is not known
// in which file that is.
func located(s *reference.Stack) []reference.Frame {
	last := len(s.Frames) - 1
	if last >= 0 && s.Frames[last].File == nil && s.End != reference.NoFile {
		return s.Frames[:last]
	}
	return s.Frames
}

// stoppedAt reports whether a walk ended at frame i because it does not know in which
// file that is, and says so.
func stoppedAt(ours []kernel.Frame, i int, outcome unwind.Outcome) bool {
	return i == len(ours)-1 && ours[i].Exe == 0 && !outcome.Complete()
}
