package ebpf

import (
	"maps"

	"github.com/headwater/headwater/ebpf"
)

// addStats returns the counters of both and the gauges of now.
func addStats(past, now ebpf.Stats) ebpf.Stats {
	sum := now
	sum.Expected += past.Expected
	sum.Delivered += past.Delivered
	sum.Idle += past.Idle
	sum.Ignored += past.Ignored
	sum.Lost += past.Lost
	sum.PagesEvicted += past.PagesEvicted
	sum.Copies += past.Copies
	sum.CopiedBytes += past.CopiedBytes
	sum.Uncopied += past.Uncopied
	sum.Outcomes = addCounts(past.Outcomes, now.Outcomes)
	sum.KnownSymbols = addCounts(past.KnownSymbols, now.KnownSymbols)
	sum.UnknownSymbols = addCounts(past.UnknownSymbols, now.UnknownSymbols)
	sum.Errors = addCounts(past.Errors, now.Errors)
	sum.UnknownModules = addCounts(past.UnknownModules, now.UnknownModules)
	return sum
}

func addCounts(a, b map[string]uint64) map[string]uint64 {
	sum := maps.Clone(b)
	if sum == nil {
		sum = make(map[string]uint64, len(a))
	}
	for name, n := range a {
		sum[name] += n
	}
	return sum
}
