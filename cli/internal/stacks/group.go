package stacks

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
)

// maxListed is the maximum number of threads listed per group.
const maxListed = 8

// group is a list of threads that are shown with one stack.
type group []*Thread

// groups returns the threads one by one, or, if equal is set, grouped by equal stacks, the largest group first.
func (r *Report) groups(equal bool) (out []group) {
	at := map[string]int{}
	for i := range r.Threads {
		t := &r.Threads[i]
		key := fmt.Sprint(t.State, t.Signal, t.Wait, t.Whole, t.Reason, t.Frames)
		if n, ok := at[key]; ok && equal {
			out[n] = append(out[n], t)
			continue
		}
		at[key] = len(out)
		out = append(out, group{t})
	}
	slices.SortStableFunc(out, func(a, b group) int { return cmp.Compare(len(b), len(a)) })
	return out
}

func (g group) write(b *strings.Builder) {
	first := g[0]
	if len(g) == 1 {
		fmt.Fprintf(b, "Thread %d %q (%s)\n", first.TID, first.Name, first.state())
		first.writeStack(b)
		return
	}
	fmt.Fprintf(b, "%d threads %s (%s)\n", len(g), g.listThreads(), g.state())
	first.writeStack(b)
}

// listThreads lists the first threads of the group.
func (g group) listThreads() string {
	var parts []string
	for _, t := range g[:min(len(g), maxListed)] {
		parts = append(parts, fmt.Sprintf("%d %q", t.TID, t.Name))
	}
	if len(g) > maxListed {
		parts = append(parts, fmt.Sprintf("and %d more", len(g)-maxListed))
	}
	return strings.Join(parts, ", ")
}

// state returns the common state, with the shortest and the longest time.
func (g group) state() string {
	first := *g[0]
	if first.State == "running" || first.OffSeconds == nil {
		if first.State == "running" {
			return "running"
		}
		return first.state()
	}
	low, high := *first.OffSeconds, *first.OffSeconds
	for _, t := range g[1:] {
		if t.OffSeconds != nil {
			low, high = min(low, *t.OffSeconds), max(high, *t.OffSeconds)
		}
	}
	first.OffSeconds = &low
	text := first.state()
	if most := duration(high); most != duration(low) {
		text += " to " + most
	}
	return text
}
