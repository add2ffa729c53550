package main

import "time"

// stack is what a profiler reported of some samples.
type stack struct {
	comm    string
	count   int
	frames  int  // of the user part
	unnamed int  // of these, without the name of a function
	broken  bool // the user part ends early, by the profiler's own account
	reason  string
	pid     int      // 0 if the profiler was not asked for it
	script  []string // functions that a language runtime has compiled or interpreted, leaf first

	// The samples were taken within these times. A profiler that says no time of
	// each has those of the whole profile.
	after, before time.Time
}

// full reports whether the stack is whole and has that number of user frames.
func (s stack) full(frames int) bool { return !s.broken && s.frames == frames }

// fullBelow is full, but functions that the program's leaf calls may come on top.
func (s stack) fullBelow(frames int) bool {
	const called = 3 // clock_gettime, and what it needs
	return !s.broken && s.frames >= frames && s.frames <= frames+called
}

// share is how many of some samples are complete, and why others are not.
type share struct {
	complete, all int
	reasons       map[string]int
}

func (s *share) add(stacks ...stack) {
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

// hasUserPart reports whether the sample is of a program and shows any of it.
func (s stack) hasUserPart() bool { return s.frames > 0 || s.broken }

// count returns how many samples of a process's name fit.
func count(stacks []stack, comm string, fits func(stack) bool) (n int) {
	for _, s := range stacks {
		if s.comm == comm && fits(s) {
			n += s.count
		}
	}
	return n
}
