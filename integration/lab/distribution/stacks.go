package main

import (
	"fmt"
	"path/filepath"

	"github.com/headwater/headwater/integration/testkit/walks"
)

// stack is a stack of either side.
type stack struct {
	time   uint64 // CLOCK_MONOTONIC, ns
	frames []frame
}

// frame is a place in a file: for the leaf the sampled instruction, for callers the last byte of the call.
type frame struct {
	file    string // base name
	address uint64 // an ELF virtual address
}

// kinds returns the kinds that a stack counts for: one for each frame except the leaf, which is the path of calls from
// the root to this frame, and one for the whole stack. For the leaf only the file counts, because there are too many
// different instructions.
func (s *stack) kinds() []string {
	var kinds []string
	path := ""
	for i := len(s.frames) - 1; i > 0; i-- {
		path += fmt.Sprintf("%s+0x%x > ", s.frames[i].file, s.frames[i].address)
		kinds = append(kinds, path)
	}
	return append(kinds, path+s.frames[0].file)
}

// stacksOf returns the profiler's stacks. An incomplete stack has too few frames, and counts as a different stack.
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
