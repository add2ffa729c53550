package offcpu

import (
	"time"

	"github.com/headwater/headwater/ebpf/counter"
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
			"Looks at all threads, to see what those do that are on no CPU.",
			func(s *Stats) *uint64 { return &s.Passes }),
		counter.One(counter.Gauge, "pyroscope_ebpf_off_cpu_threads", "off_cpu_threads",
			"Threads that the last of them has seen, of processes with a target.",
			func(s *Stats) *uint64 { return &s.Threads }),
		counter.One(counter.Gauge, "pyroscope_ebpf_off_cpu_threads_kept", "",
			"Of these, threads that wait, and whose stack need not be read again.",
			func(s *Stats) *uint64 { return &s.Kept }),
		counter.One(counter.Total, "pyroscope_ebpf_off_cpu_stacks_read_total", "off_cpu_stacks_read",
			"Stacks read, of threads that had run since the look before.",
			func(s *Stats) *uint64 { return &s.Read }),
		counter.One(counter.Total, "pyroscope_ebpf_off_cpu_stacks_moved_total", "off_cpu_stacks_moved",
			"Of these, stacks whose thread ran while they were read: they have the outcome moved.",
			func(s *Stats) *uint64 { return &s.Dropped }),
		counter.One(counter.Total, "pyroscope_ebpf_off_cpu_stacks_not_read_total", "off_cpu_stacks_not_read",
			"Stacks that were not read as there were too many at once: a random choice of the others has their time.",
			func(s *Stats) *uint64 { return &s.Unread }),
		counter.One(counter.Total, "pyroscope_ebpf_off_cpu_wakers_total", "off_cpu_wakers",
			"Waits of which it was seen who ended them, if the label waker is wanted.",
			func(s *Stats) *uint64 { return &s.Wakers }),
		counter.One(counter.Total, "pyroscope_ebpf_off_cpu_wakers_lost_total", "off_cpu_wakers_lost",
			"Waits of which it was not seen, as too many ended between two looks: they have no label waker.",
			func(s *Stats) *uint64 { return &s.WakersLost }),
		counter.Many("pyroscope_ebpf_off_cpu_thread_nanoseconds_total", "state", "off_cpu_thread_nanoseconds",
			"Time of threads, by what they did: running is for the profile of CPU time. The sum is threads x time.",
			func(s *Stats) *map[string]uint64 { return &s.Time }),
	}
}
