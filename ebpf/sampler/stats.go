package sampler

import (
	"slices"

	"github.com/headwater/headwater/ebpf/common/counter"
	"github.com/headwater/headwater/ebpf/common/limit"
	"github.com/headwater/headwater/ebpf/kernel"
	"github.com/headwater/headwater/ebpf/language"
	"github.com/headwater/headwater/ebpf/language/merge"
)

// Reasons why samples that were due are not delivered.
const (
	LostToFullLogs   = "log_full"  // taken, but the log had no room
	LostToThrottling = "throttled" // the kernel had stopped the clock, see its perf_event_max_sample_rate

	// The timer did not run in its period: interrupts were off, or the hypervisor ran other guests, until the next one
	// was due; or an interrupt handler ran on an idle CPU, whose clock may stand.
	LostToSkippedTimers = "timer_skipped"
)

// Stats are counters since Open and gauges of the present state. Fields without a row in Counters are lists, or maps by
// text or reader to which a session adds the counts of profiles.
type Stats struct {
	Expected     uint64            // samples due: busy time of the CPUs divided by the period; to within a few
	Delivered    uint64            // samples that were taken and not lost, including ignored ones
	Idle         uint64            // samples that hit an idle CPU, in addition to the above; not every idle CPU has any
	Ignored      uint64            // samples that hit a process without a target
	Lost         map[string]uint64 // samples due, but not delivered, by reason: LostToFullLogs and so on
	EventSamples uint64            // samples of other kinds, see Config.Periods, including ignored ones
	EventsLost   uint64            // part of EventSamples: lost because the log had no room
	BPFTime      uint64            // microseconds in BPF programs, see Config.CountTime
	RecordsLost  uint64            // records of processes and mappings that the kernel had no room for

	StackCopies    uint64 // samples whose walk missed a table, so that they carried a copy of their stack
	StackCopyBytes uint64
	StacksUncopied uint64 // samples that needed a copy, but came too fast one after another

	Processes   uint64 // processes known now
	Executables uint64 // distinct executables known now
	Pages       uint64 // pages of unwind rows resident
	Rows        uint64 // unwind rows in these pages
	RowBytes    uint64 // memory that the rows take
	UsedBytes   uint64 // memory that rows, directories of pages and mappings take
	TableBytes  uint64 // memory of the unwind tables in the kernel, used or not

	PagesEvicted uint64 // pages of unwind rows dropped: not recently looked up, or to make room

	Chains         map[string]uint64 // chains of frames that interpreters keep, by how they ended
	RuntimeFrames  map[string]uint64 // frames of language runtimes that have a function's name, by language
	RuntimeUnnamed map[string]uint64 // frames of language runtimes without a name, by language
	ChainsUnplaced uint64            // chains whose place among the native frames was not certain
	CodesCarried   uint64            // new code objects that samples named
	CodesUncarried uint64            // new code objects that came too fast one after another

	Languages []merge.LanguageStats // frames of language runtimes; most first, bounded

	Errors    map[string]uint64       // errors that cost names or stacks, and how often
	LimitHits map[limit.Reader]uint64 // how often readers of foreign bytes stopped at a bound
}

// Counters returns the table of the figures, each with its name, help text, kind and place.
func Counters() []counter.Row[Stats] {
	return slices.Concat(sampleCounters(), unwindCounters(), interpreterCounters())
}

// sampleCounters are the figures of samples and their stacks.
func sampleCounters() []counter.Row[Stats] {
	return []counter.Row[Stats]{
		counter.One(counter.Total, "pyroscope_ebpf_samples_expected_total", "samples_expected",
			"Samples that were due: busy time of CPUs divided by the sampling period.",
			func(s *Stats) *uint64 { return &s.Expected }),
		counter.One(counter.Total, "pyroscope_ebpf_samples_delivered_total", "samples_delivered",
			"Samples that were taken and not lost; compare with samples_expected_total.",
			func(s *Stats) *uint64 { return &s.Delivered }),
		counter.One(counter.Total, "pyroscope_ebpf_samples_idle_total", "samples_idle",
			"Timer events on idle CPUs; not every idle CPU has timer events.",
			func(s *Stats) *uint64 { return &s.Idle }),
		counter.One(counter.Total, "pyroscope_ebpf_samples_ignored_total", "samples_ignored",
			"Samples of processes without a target.",
			func(s *Stats) *uint64 { return &s.Ignored }),
		counter.Many("pyroscope_ebpf_samples_lost_total", "reason", "samples_lost",
			"Samples that were due and not delivered, by reason: log_full, throttled, timer_skipped, session_ended.",
			func(s *Stats) *map[string]uint64 { return &s.Lost }),
		counter.One(counter.Total, "pyroscope_ebpf_event_samples_total", "event_samples",
			"Samples of page faults, including processes without a target.",
			func(s *Stats) *uint64 { return &s.EventSamples }),
		counter.One(counter.Total, "pyroscope_ebpf_event_samples_lost_total", "event_samples_lost",
			"Samples of page faults, lost because the buffer was full.",
			func(s *Stats) *uint64 { return &s.EventsLost }),
		counter.One(counter.Total, "pyroscope_ebpf_bpf_microseconds_total", "bpf_microseconds",
			"Microseconds in BPF programs; counted only with overhead_limit.",
			func(s *Stats) *uint64 { return &s.BPFTime }),
		counter.One(counter.Total, "pyroscope_ebpf_side_band_lost_total", "side_band_lost",
			"Records of processes and mappings, lost because the kernel's buffer was full: samples of these processes have "+
				"the outcome records_lost.",
			func(s *Stats) *uint64 { return &s.RecordsLost }),
		counter.One(counter.Total, "pyroscope_ebpf_stacks_copied_total", "stacks_copied",
			"Samples with a copy of their stack, to be finished in user space.",
			func(s *Stats) *uint64 { return &s.StackCopies }),
		counter.One(counter.Total, "pyroscope_ebpf_stacks_copied_bytes_total", "",
			"Bytes of stacks copied.",
			func(s *Stats) *uint64 { return &s.StackCopyBytes }),
		counter.One(counter.Total, "pyroscope_ebpf_stacks_not_copied_total", "",
			"Samples without the copy of their stack that they needed, because they came too fast.",
			func(s *Stats) *uint64 { return &s.StacksUncopied }),
	}
}

// unwindCounters are the figures of the data by which stacks are unwound.
func unwindCounters() []counter.Row[Stats] {
	return []counter.Row[Stats]{
		counter.One(counter.Gauge, "pyroscope_ebpf_processes", "processes",
			"Processes known.",
			func(s *Stats) *uint64 { return &s.Processes }),
		counter.One(counter.Gauge, "pyroscope_ebpf_executables", "executables",
			"Distinct executables known.",
			func(s *Stats) *uint64 { return &s.Executables }),
		counter.One(counter.Gauge, "pyroscope_ebpf_unwind_pages", "unwind_pages",
			"Pages of unwind rows in kernel memory.",
			func(s *Stats) *uint64 { return &s.Pages }),
		counter.One(counter.Gauge, "pyroscope_ebpf_unwind_rows", "",
			"Unwind rows in kernel memory.",
			func(s *Stats) *uint64 { return &s.Rows }),
		counter.One(counter.Gauge, "pyroscope_ebpf_unwind_row_bytes", "",
			"Kernel memory of the unwind rows.",
			func(s *Stats) *uint64 { return &s.RowBytes }),
		counter.One(counter.Gauge, "pyroscope_ebpf_unwind_used_bytes", "",
			"Kernel memory of unwind rows, directories of pages and mappings.",
			func(s *Stats) *uint64 { return &s.UsedBytes }),
		counter.One(counter.Gauge, "pyroscope_ebpf_unwind_table_bytes", "unwind_table_bytes",
			"Kernel memory of the unwind tables, used or not.",
			func(s *Stats) *uint64 { return &s.TableBytes }),
		counter.One(counter.Total, "pyroscope_ebpf_unwind_pages_evicted_total", "unwind_pages_evicted",
			"Pages of unwind rows evicted, because they were unused or other pages needed the memory.",
			func(s *Stats) *uint64 { return &s.PagesEvicted }),
	}
}

// interpreterCounters are the figures of frames of language runtimes.
func interpreterCounters() []counter.Row[Stats] {
	return []counter.Row[Stats]{
		counter.Many("pyroscope_ebpf_interpreter_chains_total", "end", "interpreter_chains",
			"Chains of interpreter frames of threads, by the end of reading them.",
			func(s *Stats) *map[string]uint64 { return &s.Chains }),
		counter.Many("pyroscope_ebpf_runtime_frames_total", "language", "runtime_frames",
			"Named frames of functions that interpreters run or language runtimes compile.",
			func(s *Stats) *map[string]uint64 { return &s.RuntimeFrames }),
		counter.Many("pyroscope_ebpf_runtime_frames_unnamed_total", "language", "runtime_frames_unnamed",
			"Unnamed frames of functions that interpreters run or language runtimes compile; the debug info has the reasons.",
			func(s *Stats) *map[string]uint64 { return &s.RuntimeUnnamed }),
		counter.One(counter.Total, "pyroscope_ebpf_interpreter_chains_unplaced_total", "interpreter_chains_unplaced",
			"Chains of interpreter frames not shown, because their place among the native frames was uncertain.",
			func(s *Stats) *uint64 { return &s.ChainsUnplaced }),
		counter.One(counter.Total, "pyroscope_ebpf_interpreter_codes_carried_total", "",
			"New code objects whose names samples carried.",
			func(s *Stats) *uint64 { return &s.CodesCarried }),
		counter.One(counter.Total, "pyroscope_ebpf_interpreter_codes_not_carried_total", "",
			"New code objects whose names samples could not carry, because they came too fast: their names are read later.",
			func(s *Stats) *uint64 { return &s.CodesUncarried }),
	}
}

// Stats returns the present figures. With an error the kernel's counters are zero.
func (s *Sampler) Stats() (Stats, error) {
	processes, executables := s.tracker.Counts()
	tables := s.kernel.Tables().Usage()
	out := Stats{
		RecordsLost: s.sideBand.lostRecords(),
		Processes:   uint64(processes), Executables: uint64(executables),
		Pages: uint64(tables.Pages), Rows: uint64(tables.Rows), RowBytes: tables.RowBytes,
		UsedBytes: tables.Used, TableBytes: tables.Reserved, PagesEvicted: tables.Evicted,
		ChainsUnplaced: s.completer.merger.Unplaced(),
		Languages:      s.completer.merger.Stats(),
		RuntimeFrames:  map[string]uint64{}, RuntimeUnnamed: map[string]uint64{},
		Errors: s.tracker.Errors(), LimitHits: s.tracker.LimitHits(),
	}
	for _, l := range out.Languages {
		out.RuntimeFrames[l.Name], out.RuntimeUnnamed[l.Name] = l.Named, l.Unnamed()
	}
	for _, err := range s.failures() {
		out.Errors[err.Error()]++
	}
	c, err := s.kernel.Counters()
	if err != nil {
		return out, err
	}
	out.addKernel(&c)
	out.Ignored += s.ignored.Load() // ignored by user space only
	return out, nil
}

// addKernel sets the figures that the kernel side has counted.
func (s *Stats) addKernel(c *kernel.Counters) {
	s.Expected, s.Idle, s.Ignored, s.Delivered = c.Expected, c.Idle, c.Ignored, c.Ticks-c.Idle-c.Lost
	s.Lost = map[string]uint64{LostToFullLogs: c.Lost, LostToThrottling: c.Throttled, LostToSkippedTimers: c.Skipped}
	s.BPFTime = uint64(c.Ran.Microseconds())
	s.EventSamples, s.EventsLost = c.Events, c.EventsLost
	s.StackCopies, s.StackCopyBytes, s.StacksUncopied = c.StackCopies, c.StackCopyBytes, c.StacksUncopied
	s.CodesCarried, s.CodesUncarried = c.CodesNamed, c.CodesUnnamed
	s.Chains = map[string]uint64{}
	for end, n := range c.Chains {
		if language.ChainEnd(end) != language.ChainNone {
			s.Chains[language.ChainEnd(end).String()] = n
		}
	}
}
