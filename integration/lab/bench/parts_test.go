package main

import (
	"testing"

	"github.com/google/pprof/profile"
	"github.com/stretchr/testify/require"
)

// TestPartOf: the first of agentParts that matches a stack decides, so a garbage collection always counts as such.
func TestPartOf(t *testing.T) {
	const headwater = "github.com/headwater/headwater/"
	for want, stack := range map[string][]string{
		"memory given back, garbage collected": {
			"runtime.scanobject", "runtime.gcDrain", "runtime.gcBgMarkWorker.func2", "runtime.gcBgMarkWorker",
		},
		"folded for the page": {
			"runtime.mapaccess2", headwater + "flame/tree.Fold", headwater + "component/pyroscope/ebpf.(*session).collect",
		},
		"addresses named": {
			"pread", headwater + "ebpf/symbol.(*Symbolizer).Frames", headwater + "ebpf/profile.(*Builder).collect",
		},
		"profiles made of stacks": {
			headwater + "ebpf/profile.(*namer).location", headwater + "ebpf/profile.(*Builder).collect",
		},
		"samples read":     {"memmove", headwater + "ebpf/kernel.(*Profiler).ReadSamples"},
		"the Go scheduler": {"futex_wait", "runtime.findRunnable", "runtime.schedule", "runtime.mcall"},
		otherPart:          {"do_exit"},
	} {
		s := &profile.Sample{}
		for _, name := range stack {
			s.Location = append(s.Location, &profile.Location{Line: []profile.Line{{Function: &profile.Function{Name: name}}}})
		}
		require.Equal(t, want, partOf(s), stack)
	}
}
