package offcpu

import (
	"time"

	"github.com/headwater/headwater/ebpf/common/counter"
	"github.com/headwater/headwater/ebpf/kernel"
)

// Stats are counted since New.
type Stats struct {
	Passes  uint64
	Threads uint64 // seen by the last pass
	Kept    uint64 // part of Threads: threads whose stack is kept
	Read    uint64 // stacks that were read
	Dropped uint64 // part of Read: stacks whose thread ran during the read; they end at a frame that says so
	Unread  uint64 // stacks that had to be read and were not, beyond MaxReads
	Wakers  uint64 // waits whose waker was seen
	// WakersLost are waits whose waker was not seen, because too many waits ended between two passes.
	WakersLost uint64
	// Time is the time that threads were credited with, in ns, by their state at the passes. The sum over all states is
	// the sum of all threads' time between passes.
	Time map[string]uint64
	// Errors are the reasons why passes failed, and how often.
	Errors map[string]uint64
}

// times is the time that threads were credited with, by state.
type times [kernel.Ended + 1]time.Duration

// byName returns the times that are not 0.
func (t *times) byName() map[string]uint64 {
	out := map[string]uint64{}
	for state, d := range t {
		if d > 0 {
			out[kernel.ThreadState(state).String()] = uint64(d)
		}
	}
	return out
}

// Counters returns the table of the figures, each with its name, help text, kind and place.
func Counters() []counter.Row[Stats] {
	return []counter.Row[Stats]{
		counter.One(counter.Total, "pyroscope_ebpf_off_cpu_passes_total", "off_cpu_passes",
			"Scans of all threads for off-CPU time.",
			func(s *Stats) *uint64 { return &s.Passes }),
		counter.One(counter.Gauge, "pyroscope_ebpf_off_cpu_threads", "off_cpu_threads",
			"Threads seen in the last off-CPU scan, of processes with a target.",
			func(s *Stats) *uint64 { return &s.Threads }),
		counter.One(counter.Gauge, "pyroscope_ebpf_off_cpu_threads_kept", "",
			"Threads of the last off-CPU scan that still wait: their stacks are not read again.",
			func(s *Stats) *uint64 { return &s.Kept }),
		counter.One(counter.Total, "pyroscope_ebpf_off_cpu_stacks_read_total", "off_cpu_stacks_read",
			"Stacks read, of threads that ran after the previous off-CPU scan.",
			func(s *Stats) *uint64 { return &s.Read }),
		counter.One(counter.Total, "pyroscope_ebpf_off_cpu_stacks_moved_total", "off_cpu_stacks_moved",
			"Stacks whose thread ran while they were read: they have the outcome moved.",
			func(s *Stats) *uint64 { return &s.Dropped }),
		counter.One(counter.Total, "pyroscope_ebpf_off_cpu_stacks_not_read_total", "off_cpu_stacks_not_read",
			"Stacks not read because too many threads ran: a random choice was read, and has the time of all.",
			func(s *Stats) *uint64 { return &s.Unread }),
		counter.One(counter.Total, "pyroscope_ebpf_off_cpu_wakers_total", "off_cpu_wakers",
			"Waits whose waker was recorded, for the label waker.",
			func(s *Stats) *uint64 { return &s.Wakers }),
		counter.One(counter.Total, "pyroscope_ebpf_off_cpu_wakers_lost_total", "off_cpu_wakers_lost",
			"Waits without the label waker, because too many waits ended between two off-CPU scans.",
			func(s *Stats) *uint64 { return &s.WakersLost }),
		counter.Many("pyroscope_ebpf_off_cpu_thread_nanoseconds_total", "state", "off_cpu_thread_nanoseconds",
			"Time of threads by state. The state running belongs to the CPU profile. The sum is threads x time.",
			func(s *Stats) *map[string]uint64 { return &s.Time }),
	}
}
