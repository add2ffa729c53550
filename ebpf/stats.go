package ebpf

import (
	"slices"

	"github.com/headwater/headwater/ebpf/common/counter"
	"github.com/headwater/headwater/ebpf/common/limit"
	"github.com/headwater/headwater/ebpf/language/merge"
	"github.com/headwater/headwater/ebpf/profile"
	"github.com/headwater/headwater/ebpf/sampler"
	"github.com/headwater/headwater/ebpf/source/heap"
	"github.com/headwater/headwater/ebpf/source/offcpu"
	"github.com/headwater/headwater/ebpf/source/probe"
)

// SamplerStats count samples, and the data by which their stacks are unwound.
type SamplerStats = sampler.Stats

// ProfileStats count the parts of profiles.
type ProfileStats = profile.Stats

// BinaryStats counts the incomplete stacks that ended in one binary.
type BinaryStats = profile.BinaryStats

// UnnamedStats counts the frames in one binary without a function's name.
type UnnamedStats = profile.UnnamedStats

// LanguageStats counts the frames of one language runtime.
type LanguageStats = merge.LanguageStats

// Reasons why samples that were due are not delivered.
const (
	LostToFullLogs      = sampler.LostToFullLogs
	LostToThrottling    = sampler.LostToThrottling
	LostToSkippedTimers = sampler.LostToSkippedTimers
	LostToTheEnd        = "session_ended" // taken, but not collected before the session ended
)

// Stats are counters since the start of the session and gauges of its present state. The figures of the table, see
// Counters, are numbers; Binaries, Unnamed and Languages are lists with texts, and not in the table.
type Stats struct {
	SamplerStats
	ProfileStats
	OffCPU offcpu.Stats
	Probes probe.Stats
	Heap   heap.Stats

	FilesLate    uint64 // pieces of work on files that take so long that the session does not wait for them
	FilesHanging uint64 // late pieces of work that make no progress
	FilesRefused uint64 // pieces of work that were put off because other work hangs

	// Errors that cost names or stacks but do not stop the session, such as unreadable files, and how often each
	// occurred; the first few hundred kinds, the rest as one.
	Errors map[string]uint64

	// LimitHits counts by reader how often untrusted data exceeded a bound, which costs the names or stacks of its
	// file.
	LimitHits map[string]uint64
}

// Counters returns the table of the figures of Stats, each with its name, help text, kind and place.
// docs/architecture/adding.md describes how to add one.
func Counters() []counter.Row[Stats] {
	return slices.Concat(
		counter.Of(sampler.Counters(), func(s *Stats) *sampler.Stats { return &s.SamplerStats }),
		counter.Of(profile.Counters(), func(s *Stats) *profile.Stats { return &s.ProfileStats }),
		counter.Of(offcpu.Counters(), func(s *Stats) *offcpu.Stats { return &s.OffCPU }),
		counter.Of(probe.Counters(), func(s *Stats) *probe.Stats { return &s.Probes }),
		counter.Of(heap.Counters(), func(s *Stats) *heap.Stats { return &s.Heap }),
		fileCounters())
}

// fileCounters are the figures of the files from which names and rows are read.
func fileCounters() []counter.Row[Stats] {
	return []counter.Row[Stats]{
		counter.One(counter.Gauge, "pyroscope_ebpf_files_late", "files_late",
			"Files that take long to read: names or stacks of them are missing until they are read.",
			func(s *Stats) *uint64 { return &s.FilesLate }),
		counter.One(counter.Gauge, "pyroscope_ebpf_files_hanging", "files_hanging",
			"Late files without progress, such as files of a mount whose server is gone.",
			func(s *Stats) *uint64 { return &s.FilesHanging }),
		counter.One(counter.Total, "pyroscope_ebpf_files_refused_total", "",
			"Files not read because other files of the same mount or user hang.",
			func(s *Stats) *uint64 { return &s.FilesRefused }),
		counter.Many("pyroscope_ebpf_reader_limit_hits_total", "reader", "limit_hits",
			"Number of times that untrusted data exceeded a limit of its reader.",
			func(s *Stats) *map[string]uint64 { return &s.LimitHits }),
		counter.Many("", "error", "errors",
			"Errors that cost names or stacks but stop nothing.",
			func(s *Stats) *map[string]uint64 { return &s.Errors }),
	}
}

// Stats returns counters since Start and gauges of the present state; after Close, of the state at the end.
func (s *Session) Stats() Stats {
	if last := s.last.Load(); last != nil {
		return *last
	}
	of, _ := s.collector.Stats() // after an error the kernel's counters are zero
	late, hanging, refused := s.files.Counts()
	return Stats{
		SamplerStats: of.Sampler, ProfileStats: of.Profile, OffCPU: of.OffCPU, Probes: of.Probes, Heap: of.Heap,
		FilesLate: uint64(late), FilesHanging: uint64(hanging), FilesRefused: refused,
		Errors:    errorsOf(&of.Profile, of.Sampler.Errors, of.OffCPU.Errors, of.Probes.Errors, of.Heap.Errors),
		LimitHits: limitHits(of.Sampler.LimitHits, of.Profile.LimitHits),
	}
}

// keepStats keeps the figures of a session that ends. Samples that were not collected are lost.
func (s *Session) keepStats() {
	last := s.Stats()
	if used := last.Profiled + last.Ignored; last.Delivered > used {
		last.Lost[LostToTheEnd], last.Delivered = last.Delivered-used, used
	}
	s.last.Store(&last)
}

// maxErrors bounds the distinct errors of Stats.
const maxErrors = 512

// errorsOf returns the errors that cost names or stacks, and how often each occurred.
func errorsOf(profiles *profile.Stats, others ...map[string]uint64) map[string]uint64 {
	all := limit.Texts{Most: maxErrors}
	for _, of := range others {
		for text, n := range of {
			all.Add(text, n)
		}
	}
	for _, text := range profiles.Errors {
		all.Add(text, 1)
	}
	return all.Counts()
}

// limitHits adds up how often readers of untrusted data stopped at a bound.
func limitHits(parts ...map[limit.Reader]uint64) map[string]uint64 {
	sum := map[string]uint64{}
	for _, hits := range parts {
		for reader, n := range hits {
			sum[string(reader)] += n
		}
	}
	return sum
}
