package main

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"text/tabwriter"
	"time"
)

// Report is the result of a comparison.
type Report struct {
	P        float64 `json:"p"`        // probability of such a difference between equal distributions
	Ours     int     `json:"ours"`     // stacks
	Theirs   int     `json:"theirs"`   // stacks
	Kinds    int     `json:"kinds"`    // of stacks, without the rare ones
	Blocks   int     `json:"blocks"`   // of time
	Mean     float64 `json:"frames"`   // mean number of frames in their stacks
	Clearest Kind    `json:"clearest"` // difference
	Largest  []Kind  `json:"largest"`  // differences
	Most     string  `json:"-"`        // the kind of the clearest difference
}

// Kind is a kind of stack, see stack.kinds, with its numbers of occurrences.
type Kind struct {
	Stack  string `json:"stack"`
	Ours   int    `json:"ours"`
	Theirs int    `json:"theirs"`
}

const (
	block     = 250 * time.Millisecond
	minBlocks = 16
	shown     = 8 // kinds
)

// compare compares the stacks of two sides in the period that both sampled.
func compare(ours, theirs []stack) (*Report, error) {
	if len(ours) == 0 || len(theirs) == 0 {
		return nil, fmt.Errorf("%d stacks of the profiler, %d of perf", len(ours), len(theirs))
	}
	byTime := func(a, b stack) int { return cmp.Compare(a.time, b.time) }
	begin := max(slices.MinFunc(ours, byTime).time, slices.MinFunc(theirs, byTime).time)
	end := min(slices.MaxFunc(ours, byTime).time, slices.MaxFunc(theirs, byTime).time)
	if end < begin || (end-begin)/uint64(block) < minBlocks {
		return nil, errors.New("the profiler and perf sampled less than four seconds together")
	}
	blocks := make([]pair, (end-begin)/uint64(block)+1)
	for i := range blocks {
		blocks[i] = pair{newSide(), newSide()}
	}
	all := pair{newSide(), newSide()}
	for _, s := range ours {
		if s.time >= begin && s.time <= end {
			blocks[(s.time-begin)/uint64(block)].ours.addKinds(s.kinds())
			all.ours.addKinds(s.kinds())
		}
	}
	frames := 0
	for _, s := range theirs {
		if s.time >= begin && s.time <= end {
			blocks[(s.time-begin)/uint64(block)].theirs.addKinds(s.kinds())
			all.theirs.addKinds(s.kinds())
			frames += len(s.frames)
		}
	}
	r := &Report{Ours: all.ours.stacks, Theirs: all.theirs.stacks, Blocks: len(blocks)}
	r.Mean = float64(frames) / float64(max(r.Theirs, 1))
	r.P, r.Most = permutationTest(blocks)
	r.listKinds(commonKinds(blocks), &all)
	return r, nil
}

// listKinds fills in the kinds whose counts differ most, and the kind with the most significant difference.
func (r *Report) listKinds(kinds []string, all *pair) {
	r.Kinds = len(kinds)
	for _, kind := range kinds {
		k := Kind{kind, all.ours.kinds[kind], all.theirs.kinds[kind]}
		if kind == r.Most {
			r.Clearest = k
		}
		r.Largest = append(r.Largest, k)
	}
	difference := func(k Kind) int { return max(k.Ours-k.Theirs, k.Theirs-k.Ours) }
	slices.SortStableFunc(r.Largest, func(a, b Kind) int {
		return cmp.Or(difference(b)-difference(a), a.Ours-b.Ours, cmp.Compare(a.Stack, b.Stack))
	})
	// A function that always makes the same call has the same counts as its callee.
	r.Largest = slices.CompactFunc(r.Largest, func(a, b Kind) bool {
		return a.Ours == b.Ours && a.Theirs == b.Theirs && strings.HasPrefix(b.Stack, a.Stack)
	})
	r.Largest = r.Largest[:min(shown, len(r.Largest))]
}

// print writes the report as text.
func (r *Report) print(w io.Writer) {
	fmt.Fprintf(w, "%d stacks of the profiler, %d of perf with %.1f frames on average, of %d kinds, "+
		"in %d blocks of time\n", r.Ours, r.Theirs, r.Mean, r.Kinds, r.Blocks)
	fmt.Fprintf(w, "p = %.2g that equal distributions differ like this\n", r.P)
	table := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(table, "profiler\tperf\tclearest difference, then the largest ones")
	for _, k := range append([]Kind{r.Clearest}, r.Largest...) {
		fmt.Fprintf(table, "%d\t%d\t%s\n", k.Ours, k.Theirs, k.Stack)
	}
	table.Flush()
}
