package pprof

import "fmt"

// unnamed stands for a stack without frames.
const unnamed = "[unknown]"

// shorten returns stack with at most limit locations: those next to the leaf and
// those next to the root, and between them one that says how many are missing.
// Pyroscope would cut the leaf side without a trace.
func shorten(stack []*Location, limit int) []*Location {
	if len(stack) <= limit {
		return stack
	}
	root := (limit - 1) / 2
	leaf := limit - 1 - root
	missing := len(stack) - leaf - root
	short := make([]*Location, 0, limit)
	short = append(short, stack[:leaf]...)
	short = append(short, pseudoFrame(fmt.Sprintf("[truncated %d frames]", missing)))
	return append(short, stack[len(stack)-root:]...)
}

// pseudoFrame returns a location that is a name only.
func pseudoFrame(name string) *Location {
	return &Location{Lines: []Line{{Function: name}}}
}
