package server

import (
	"cmp"
	"slices"
	"time"
)

// Status is the profiler's condition, for the overview.
type Status struct {
	Healthy bool
	Message string // one sentence; the reason if not healthy

	SampleRate int           // samples per second and CPU
	Interval   time.Duration // between two rounds of collecting

	Targets     int // usable targets in the configuration
	TargetsOnly bool

	// Since the profiler's start.
	Processes, Executables       uint64 // known now
	Expected, Delivered, Ignored uint64 // samples: due on busy CPUs, received, of processes without a target
	Lost                         map[string]uint64
	Outcomes                     []Outcome
	Incomplete                   []Incomplete // binaries in which stacks ended early, most samples first
	Languages                    []Language

	ByName, ByPID bool     // whether a profile's samples have their process's name and ID
	SampleLabels  []string // labels that samples carry
}

// Outcome counts the user stacks that ended in one way.
type Outcome struct {
	Name    string
	Text    string // a sentence that explains it
	Good    bool   // the stack is complete, or there is no stack to unwind
	Samples uint64
}

// Incomplete counts the stacks that ended early in a binary.
type Incomplete struct {
	File, Outcome string
	Samples       uint64
}

// Language counts the frames of one language runtime.
type Language struct {
	Name           string // with the version: "python 3.11"
	Named, Unnamed uint64
	NotRead        uint64 // part of Unnamed: could not be read from the process
	Hint           string // why functions have no names, and a remedy; may be empty
}

// shownIncomplete is the number of binaries with incomplete stacks on the page.
const shownIncomplete = 15

// FirstIncomplete returns the binaries that the page shows.
func (s Status) FirstIncomplete() []Incomplete {
	return s.Incomplete[:min(len(s.Incomplete), shownIncomplete)]
}

// total is the sum of counts.
func total(counts map[string]uint64) (sum uint64) {
	for _, n := range counts {
		sum += n
	}
	return sum
}

// outcomeRow is an outcome in the overview.
type outcomeRow struct {
	Outcome
	Share float64 // of all samples, 0 to 1
}

// outcomeRows returns the outcomes that occurred, most samples first.
func outcomeRows(outcomes []Outcome) []outcomeRow {
	var sum uint64
	for _, o := range outcomes {
		sum += o.Samples
	}
	var rows []outcomeRow
	for _, o := range outcomes {
		if o.Samples > 0 {
			rows = append(rows, outcomeRow{o, share(o.Samples, sum)})
		}
	}
	slices.SortStableFunc(rows, func(a, b outcomeRow) int {
		return cmp.Or(compareDown(a.Samples, b.Samples), cmp.Compare(a.Name, b.Name))
	})
	return rows
}

// share returns n/sum, or 0 if sum is 0.
func share(n, sum uint64) float64 {
	if sum == 0 {
		return 0
	}
	return float64(n) / float64(sum)
}

func compareDown(a, b uint64) int {
	switch {
	case a > b:
		return -1
	case a < b:
		return 1
	default:
		return 0
	}
}
