package ebpf

import (
	"cmp"
	"fmt"
	"maps"
	"slices"

	"github.com/headwater/headwater/ebpf/kernel"
	"github.com/headwater/headwater/ebpf/unwind"
)

// maxBinaries bounds the distinct places where incomplete stacks are counted.
const maxBinaries = 4096

// shownBinaries is how many of them Stats has.
const shownBinaries = 50

// binaryKey is where and why stacks ended early.
type binaryKey struct {
	exe     uint32
	outcome unwind.Outcome
}

func newStats() Stats {
	return Stats{
		Outcomes:       map[string]uint64{},
		KnownSymbols:   map[string]uint64{},
		UnknownSymbols: map[string]uint64{},
		UnknownModules: map[string]uint64{},
	}
}

// countOutcome counts how a sample's user part ended.
func (s *Session) countOutcome(sample *kernel.Sample) {
	s.stats.Outcomes[sample.Outcome.String()]++
	if !hasUserPart(sample.Outcome) || sample.Outcome.Complete() {
		return
	}
	key := binaryKey{outcome: sample.Outcome}
	if n := len(sample.User); n > 0 {
		key.exe = sample.User[n-1].Exe
	}
	if _, ok := s.binary[key]; ok || len(s.binary) < maxBinaries {
		s.binary[key]++
	}
}

func (s *Session) countSymbols(service string, c symbolCounts) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.stats.KnownSymbols[service] += c.known
	s.stats.UnknownSymbols[service] += c.unknown
	s.stats.UnknownModules[service] += c.noModule
}

// Stats returns counters since Start and gauges of the present state.
func (s *Session) Stats() Stats {
	s.mu.Lock()
	out := s.stats
	out.Outcomes = maps.Clone(out.Outcomes)
	out.KnownSymbols = maps.Clone(out.KnownSymbols)
	out.UnknownSymbols = maps.Clone(out.UnknownSymbols)
	out.UnknownModules = maps.Clone(out.UnknownModules)
	binaries, unnamed := maps.Clone(s.binary), maps.Clone(s.unnamed)
	s.mu.Unlock()

	out.Binaries = s.describeBinaries(binaries)
	out.Unnamed = s.describeUnnamed(unnamed, out.UnknownModules)
	out.Errors = s.tracker.Errors()
	out.Processes, out.Executables = s.tracker.Counts()
	usage := s.kernel.Tables().Usage()
	out.Pages, out.PagesEvicted = usage.Pages, usage.Evicted
	out.Rows, out.RowBytes, out.UsedBytes, out.TableBytes = usage.Rows, usage.RowBytes, usage.Used, usage.Reserved
	if err := s.symbolizer.KernelStatus().Err; err != nil {
		out.Errors["kernel symbols: "+err.Error()]++
	}
	for file, problem := range s.symbolizer.Problems() {
		out.Errors[fmt.Sprintf("debug info of %s: %v", file, problem)]++
	}
	if c, err := s.kernel.Counters(); err == nil {
		out.Expected, out.Idle, out.Ignored, out.Lost = c.Expected, c.Idle, c.Ignored, c.Lost
		out.Copies, out.CopiedBytes, out.Uncopied = c.Copies, c.CopiedBytes, c.Uncopied
		out.Delivered = c.Ticks - c.Idle - c.Lost
	}
	return out
}

func (s *Session) describeBinaries(counts map[binaryKey]uint64) []BinaryStats {
	var out []BinaryStats
	for key, n := range counts {
		b := BinaryStats{File: unknownFunction, Outcome: key.outcome.String(), Samples: n}
		if e := s.tracker.Executable(key.exe); e != nil {
			b.File, b.BuildID = e.Path, e.BuildID
		}
		out = append(out, b)
	}
	slices.SortFunc(out, func(a, b BinaryStats) int {
		return cmp.Or(cmp.Compare(b.Samples, a.Samples), cmp.Compare(a.File, b.File), cmp.Compare(a.Outcome, b.Outcome))
	})
	return out[:min(len(out), shownBinaries)]
}
