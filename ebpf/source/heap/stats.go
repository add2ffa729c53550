package heap

import (
	"github.com/headwater/headwater/ebpf/common/counter"
	"github.com/headwater/headwater/ebpf/kernel"
)

// Stats are counted since New.
type Stats struct {
	Files   uint64   // files with an allocator whose calls are seen
	Failed  uint64   // files with an allocator whose calls cannot be seen
	Blocks  uint64   // blocks in use that are known now
	Bytes   uint64   // bytes that they stand for
	Paused  []Paused // processes that are not sampled for a while, because probes slow them down too much, by PID
	Slowed  uint64   // number of Paused
	Samples uint64   // blocks of wanted processes, including blocks that were freed before they were read
	// Missed are blocks that were not sampled, by reason.
	Missed map[string]uint64
	// Failure is why the calls of a failed file are not seen; nil if no file has failed.
	Failure error
	// Errors are the reasons why calls of allocators are not seen, and how often each occurred.
	Errors map[string]uint64
}

// Reasons why blocks are not sampled.
const (
	MissedFull = "too_many_blocks" // the table of blocks in use was full
	MissedLost = "full_buffer"
	MissedBusy = "too_many_threads" // too many threads were in an allocator
)

// Counters returns the table of the figures, each with its name, help text, kind and place.
func Counters() []counter.Row[Stats] {
	return []counter.Row[Stats]{
		counter.One(counter.Gauge, "pyroscope_ebpf_heap_files", "heap_files",
			"Files with an allocator whose calls are sampled.", func(s *Stats) *uint64 { return &s.Files }),
		counter.One(counter.Gauge, "pyroscope_ebpf_heap_files_failed", "heap_files_failed",
			"Files with an allocator whose calls cannot be sampled; the debug info has the errors.",
			func(s *Stats) *uint64 { return &s.Failed }),
		counter.One(counter.Gauge, "pyroscope_ebpf_heap_processes_paused", "heap_processes_paused",
			"Processes whose memory is not sampled for a while, because probes would take more of their CPU time than "+
				"heap's overhead_limit.", func(s *Stats) *uint64 { return &s.Slowed }),
		counter.One(counter.Gauge, "pyroscope_ebpf_heap_blocks", "heap_blocks",
			"Sampled blocks of memory in use.", func(s *Stats) *uint64 { return &s.Blocks }),
		counter.One(counter.Gauge, "pyroscope_ebpf_heap_bytes", "heap_bytes",
			"Bytes in use that the sampled blocks represent.", func(s *Stats) *uint64 { return &s.Bytes }),
		counter.One(counter.Total, "pyroscope_ebpf_heap_samples_total", "heap_samples",
			"Blocks of memory that were sampled when processes with a target allocated them.",
			func(s *Stats) *uint64 { return &s.Samples }),
		counter.Many("pyroscope_ebpf_heap_missed_total", "reason", "heap_missed",
			"Blocks of memory of any process, not recorded because a table was full: too_many_blocks, full_buffer, "+
				"too_many_threads.", func(s *Stats) *map[string]uint64 { return &s.Missed }),
	}
}

// missed returns the figures of the kernel by reason.
func missed(m kernel.HeapMissed) map[string]uint64 {
	return map[string]uint64{MissedFull: m.Full, MissedLost: m.Lost, MissedBusy: m.Busy}
}
