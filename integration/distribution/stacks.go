package main

import (
	"fmt"
	"path/filepath"

	"github.com/headwater/headwater/integration/walks"
)

// stack is a stack of either side.
type stack struct {
	time   uint64 // CLOCK_MONOTONIC, ns
	frames []frame
}

// frame is a place in a file: of the leaf the instruction that was sampled, of callers
// the last byte of the call.
type frame struct {
	file    string // its base name
	address uint64 // an ELF virtual address
}

// kinds are what a stack counts as: one kind for each frame but the leaf, which is the
// path of calls from the root to there, and one for all of it. Of the leaf the file
// counts and not the instruction: there are too many of these.
func (s *stack) kinds() []string {
	var kinds []string
	path := ""
	for i := len(s.frames) - 1; i > 0; i-- {
		path += fmt.Sprintf("%s+0x%x > ", s.frames[i].file, s.frames[i].address)
		kinds = append(kinds, path)
	}
	return append(kinds, path+s.frames[0].file)
}

// stacksOf returns the profiler's stacks. What it could not finish has fewer frames than
// it should have, and is another stack.
func stacksOf(all []walks.Walk) (stacks []stack) {
	for _, w := range all {
		s := stack{time: w.Time}
		for _, f := range w.Frames {
			at := f.Address
			if f.Return {
				at--
			}
			s.frames = append(s.frames, frame{filepath.Base(f.File), at})
		}
		if len(s.frames) > 0 {
			stacks = append(stacks, s)
		}
	}
	return stacks
}
