package server

import (
	"maps"
	"slices"

	"github.com/google/pprof/profile"
)

// grouping is a way to group the samples of a flame graph: by the values of a label.
type grouping struct{ Label, Text string }

// groupings returns the labels that the profiler sets, with their names for users, in the order of the menu.
func groupings() []grouping {
	return []grouping{
		{"comm", "process"}, {"pid", "process ID"}, {"thread_name", "thread"}, {"thread_id", "thread ID"},
		{"state", "thread state"}, {"wait", "reason of the wait"},
		{"waker", "waker"}, {"cpu", "CPU"}, {"numa_node", "NUMA node"},
	}
}

// groupingsOf returns the ways to group samples with these labels: first the profiler's labels, then all other labels
// by name. The chosen label is always offered.
func groupingsOf(labels []string, chosen string) (out []grouping) {
	rest := map[string]bool{}
	for _, label := range labels {
		rest[label] = true
	}
	if chosen != "" {
		rest[chosen] = true
	}
	for _, g := range groupings() {
		if rest[g.Label] {
			out = append(out, g)
			delete(rest, g.Label)
		}
	}
	for _, label := range slices.Sorted(maps.Keys(rest)) {
		out = append(out, grouping{label, label})
	}
	return out
}

// labelSet is a set of sample labels.
type labelSet map[string]bool

// addLabelsOf adds the labels of samples.
func (l labelSet) addLabelsOf(samples []*profile.Sample) {
	for _, s := range samples {
		for key := range s.Label {
			l[key] = true
		}
		for key := range s.NumLabel {
			l[key] = true
		}
	}
}
