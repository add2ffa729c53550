package verify

import "github.com/headwater/headwater/ebpf/kernel"

// Difference says how a walk differs from the reference.
type Difference string

// The differences.
const (
	Same       Difference = ""            // as far as both go
	OtherFrame Difference = "other_frame" // a frame is another one
	EndedEarly Difference = "ended_early" // called complete, but the reference goes on
	PastRoot   Difference = "past_root"   // goes on behind the outermost frame
)

// comparison is what became of one stack.
type comparison struct {
	difference  Difference
	at          int // index of the frame whose caller is found differently
	compared    int // frames that both should have
	agreed      int // of these, equal
	uncheckable int // frames behind the end of a reference walk that could not go on
	missing     int // frames behind the end of a walk that knows that it is incomplete
}

// compareStacks compares the frames of a walk with those of the reference,
// position by position, leaf first.
func compareStacks(frames []kernel.Frame, complete bool, t *truth) comparison {
	c := comparison{compared: min(len(frames), len(t.frames)), at: -1}
	for i := range c.compared {
		if sameFrame(frames[i], t.frames[i]) {
			c.agreed++
		} else if c.difference == Same {
			c.difference, c.at = OtherFrame, max(i-1, 0)
		}
	}
	ours, theirs := len(frames)-c.compared, len(t.frames)-c.compared
	switch {
	case c.difference != Same:
	case theirs > 0 && complete:
		c.difference, c.at = EndedEarly, c.compared-1
		c.compared += theirs
	case theirs > 0:
		c.missing = theirs
	case ours > 0 && t.end.Complete():
		c.difference, c.at = PastRoot, c.compared-1
		c.compared += ours
	default:
		c.uncheckable = ours
	}
	return c
}

// sameFrame compares where frames are; flags say how they are shown and were
// found.
func sameFrame(a, b kernel.Frame) bool { return a.Exe == b.Exe && a.Address == b.Address }
