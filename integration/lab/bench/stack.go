package main

import "time"

// stack is a stack that a profiler reported, and its number of samples.
type stack struct {
	comm    string
	count   int
	frames  int  // of the user part
	unnamed int  // number of frames without a function name
	broken  bool // the user part ends early, according to the profiler
	reason  string
	pid     int      // 0 if the profiler was not asked for processes
	script  []string // compiled or interpreted functions of a language runtime, leaf first

	// The samples were taken within these times. For a profiler without times of samples, they are the times of the
	// whole profile.
	after, before time.Time
}

// isWhole reports whether the stack is complete and has that number of user frames.
func (s stack) isWhole(frames int) bool { return !s.broken && s.frames == frames }

// fullBelow is like full, but allows frames of functions that the program's leaf calls.
func (s stack) fullBelow(frames int) bool {
	const called = 3 // clock_gettime and its callees
	return !s.broken && s.frames >= frames && s.frames <= frames+called
}

// share is the number of complete stacks among some samples, with the reasons for incomplete ones.
type share struct {
	complete, all int
	reasons       map[string]int
}

func (s *share) addStacks(stacks ...stack) {
	for _, one := range stacks {
		s.all += one.count
		if !one.broken {
			s.complete += one.count
			continue
		}
		if s.reasons == nil {
			s.reasons = map[string]int{}
		}
		s.reasons[one.reason] += one.count
	}
}

// percent returns the complete share, and false if there were no samples.
func (s *share) percent() (float64, bool) {
	return 100 * float64(s.complete) / float64(s.all), s.all > 0
}

// hasUserPart reports whether the sample comes from a program and includes part of its user stack.
func (s stack) hasUserPart() bool { return s.frames > 0 || s.broken }

// count returns the number of samples of a process name for which fits returns true.
func count(stacks []stack, comm string, fits func(stack) bool) (n int) {
	for _, s := range stacks {
		if s.comm == comm && fits(s) {
			n += s.count
		}
	}
	return n
}
