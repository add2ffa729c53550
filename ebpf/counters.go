package ebpf

import (
	"slices"

	"github.com/headwater/headwater/ebpf/counter"
	"github.com/headwater/headwater/ebpf/profile"
	"github.com/headwater/headwater/ebpf/runtime"
	"github.com/headwater/headwater/ebpf/sampler"
	"github.com/headwater/headwater/ebpf/target"
)

// BinaryStats counts the incomplete stacks that ended in one binary.
type BinaryStats = profile.BinaryStats

// UnnamedStats counts the frames in one binary that have no function's name.
type UnnamedStats = profile.UnnamedStats

// LanguageStats counts the frames of one language runtime.
type LanguageStats = sampler.LanguageStats

// Why samples that were due are not delivered.
const (
	LostToFullLogs   = "log_full"      // taken, but there was no room for it
	LostToThrottling = "throttled"     // the kernel had stopped the clock, see its perf_event_max_sample_rate
	LostToTheEnd     = "session_ended" // taken, but nobody collected it before the session ended

	// The timer did not run in its period. Interrupts were off, or the hypervisor ran others,
	// until the next one was due; or an interrupt handler ran on an idle CPU, whose clock may stand.
	LostToSkippedTimers = "timer_skipped"
)

// Stats are counters since the session began and gauges of its present state.
type Stats struct {
	Expected    uint64            // samples due: time that CPUs were busy over the period; to within a few
	Delivered   uint64            // samples that were taken and not lost, the ignored ones included
	Idle        uint64            // samples that hit an idle CPU, besides the above; not every idle CPU has any
	Ignored     uint64            // samples that hit a process without a target
	Lost        map[string]uint64 // samples due, but not delivered, by reason: LostToFullLogs and so on
	RecordsLost uint64            // of processes and mappings, that the kernel had no room for
	Outcomes    map[string]uint64 // samples by outcome of the user stack, see unwind.Outcome

	StackCopies    uint64 // samples whose walk missed a table, so that they carried a copy of their stack
	StackCopyBytes uint64
	StacksUncopied uint64 // samples that should have, but came too fast one after another

	Processes   uint64 // processes known now
	Executables uint64 // distinct executables known now
	Pages       uint64 // pages of unwind rows resident
	Rows        uint64 // unwind rows in them
	RowBytes    uint64 // memory that the rows take
	UsedBytes   uint64 // memory that rows, directories of pages and mappings take
	TableBytes  uint64 // memory of the unwind tables in the kernel, used or not

	PagesEvicted uint64 // pages of unwind rows given up: not looked up lately, or to make room for others

	Chains         map[string]uint64 // chains of frames that interpreters keep, by how they ended
	RuntimeFrames  map[string]uint64 // frames of language runtimes that have a function's name, by language
	RuntimeUnnamed map[string]uint64 // that have none
	ChainsUnplaced uint64            // chains whose place among the native frames was not certain
	CodesCarried   uint64            // code objects that samples carried the names of
	CodesUncarried uint64            // that should, but came too fast one after another

	JITBytes   uint64 // memory of the names that just-in-time compilers wrote
	JITDropped uint64 // functions that there was no room for in it

	FilesLate    uint64 // pieces of work on files that take so long that nobody waits for them
	FilesHanging uint64 // those that do not go on
	FilesRefused uint64 // pieces of work that were put off because others hang

	KnownSymbols   map[string]uint64 // frames named, by service_name
	UnknownSymbols map[string]uint64 // frames in a known file without a name, by service_name
	UnknownModules map[string]uint64 // frames outside any known file, by service_name

	// Errors that cost names or stacks but stop nothing, such as files that cannot
	// be read, and how often each came; the first few hundred kinds, the others as one.
	Errors map[string]uint64

	// LimitHits counts by reader how often bytes that others control went beyond a
	// bound, which costs the names or stacks of their file.
	LimitHits map[string]uint64

	Binaries []BinaryStats  // stacks that ended early, by binary; most first, bounded
	Unnamed  []UnnamedStats // frames without a function's name, by binary; most first, bounded

	Languages []LanguageStats // frames of language runtimes; most first, bounded

	profiled uint64 // samples in profiles that were collected
}

// Counters returns the table of the figures of Stats, each with its name, help text, kind and
// place. docs/architecture/adding.md says what a new one takes.
func Counters() []counter.Row[Stats] {
	return slices.Concat(sampleCounters(), unwindCounters(), interpreterCounters(), nameCounters())
}

// The kinds, for short.
const total, gauge = counter.Total, counter.Gauge

// sampleCounters are the figures of samples and their stacks.
func sampleCounters() []counter.Row[Stats] {
	return []counter.Row[Stats]{
		one(total, "pyroscope_ebpf_samples_expected_total", "samples_expected",
			"Samples that were due: time that CPUs were busy over the period.",
			func(s *Stats) *uint64 { return &s.Expected }),
		one(total, "pyroscope_ebpf_samples_delivered_total", "samples_delivered",
			"Samples that were taken and not lost; compare with samples_expected_total.",
			func(s *Stats) *uint64 { return &s.Delivered }),
		one(total, "pyroscope_ebpf_samples_idle_total", "samples_idle",
			"Timer events that hit an idle CPU; not every idle CPU has any.",
			func(s *Stats) *uint64 { return &s.Idle }),
		one(total, "pyroscope_ebpf_samples_ignored_total", "samples_ignored",
			"Samples of processes without a target.",
			func(s *Stats) *uint64 { return &s.Ignored }),
		many("pyroscope_ebpf_samples_lost_total", "reason", "samples_lost",
			"Samples that were due and not delivered, by reason: log_full, throttled, timer_skipped, session_ended.",
			func(s *Stats) *map[string]uint64 { return &s.Lost }),
		many("pyroscope_ebpf_samples_total", "outcome", "outcomes",
			"Samples by how unwinding their user stack ended.",
			func(s *Stats) *map[string]uint64 { return &s.Outcomes }),
		one(total, "pyroscope_ebpf_side_band_lost_total", "side_band_lost",
			"Records of processes and mappings that the kernel had no room for: samples of those have the outcome records_lost.",
			func(s *Stats) *uint64 { return &s.RecordsLost }),
		one(total, "pyroscope_ebpf_stacks_copied_total", "stacks_copied",
			"Samples that carried a copy of their stack, to be finished in user space.",
			func(s *Stats) *uint64 { return &s.StackCopies }),
		one(total, "pyroscope_ebpf_stacks_copied_bytes_total", "",
			"Bytes of stacks copied.",
			func(s *Stats) *uint64 { return &s.StackCopyBytes }),
		one(total, "pyroscope_ebpf_stacks_not_copied_total", "",
			"Samples that should have carried a copy, but came too fast one after another.",
			func(s *Stats) *uint64 { return &s.StacksUncopied }),
	}
}

// unwindCounters are the figures of what stacks are unwound by.
func unwindCounters() []counter.Row[Stats] {
	return []counter.Row[Stats]{
		one(gauge, "pyroscope_ebpf_processes", "processes",
			"Processes known.",
			func(s *Stats) *uint64 { return &s.Processes }),
		one(gauge, "pyroscope_ebpf_executables", "executables",
			"Distinct executables known.",
			func(s *Stats) *uint64 { return &s.Executables }),
		one(gauge, "pyroscope_ebpf_unwind_pages", "unwind_pages",
			"Pages of unwind rows in kernel memory.",
			func(s *Stats) *uint64 { return &s.Pages }),
		one(gauge, "pyroscope_ebpf_unwind_rows", "",
			"Unwind rows in them.",
			func(s *Stats) *uint64 { return &s.Rows }),
		one(gauge, "pyroscope_ebpf_unwind_row_bytes", "",
			"Kernel memory that the unwind rows take.",
			func(s *Stats) *uint64 { return &s.RowBytes }),
		one(gauge, "pyroscope_ebpf_unwind_used_bytes", "",
			"Kernel memory that unwind rows, directories of pages and mappings take.",
			func(s *Stats) *uint64 { return &s.UsedBytes }),
		one(gauge, "pyroscope_ebpf_unwind_table_bytes", "unwind_table_bytes",
			"Kernel memory of the unwind tables, used or not.",
			func(s *Stats) *uint64 { return &s.TableBytes }),
		one(total, "pyroscope_ebpf_unwind_pages_evicted_total", "unwind_pages_evicted",
			"Pages of unwind rows given up: not looked up lately, or to make room for others.",
			func(s *Stats) *uint64 { return &s.PagesEvicted }),
	}
}

// interpreterCounters are the figures of frames of language runtimes.
func interpreterCounters() []counter.Row[Stats] {
	return []counter.Row[Stats]{
		many("pyroscope_ebpf_interpreter_chains_total", "end", "interpreter_chains",
			"Chains of frames that interpreters keep of a thread, by how reading them ended.",
			func(s *Stats) *map[string]uint64 { return &s.Chains }),
		many("pyroscope_ebpf_runtime_frames_total", "language", "runtime_frames",
			"Frames of functions that interpreters run or language runtimes compile, with a name.",
			func(s *Stats) *map[string]uint64 { return &s.RuntimeFrames }),
		many("pyroscope_ebpf_runtime_frames_unnamed_total", "language", "runtime_frames_unnamed",
			"Those without a name: debug info says why.",
			func(s *Stats) *map[string]uint64 { return &s.RuntimeUnnamed }),
		one(total, "pyroscope_ebpf_interpreter_chains_unplaced_total", "interpreter_chains_unplaced",
			"Chains that are not shown, as their place among the native frames was not certain.",
			func(s *Stats) *uint64 { return &s.ChainsUnplaced }),
		one(total, "pyroscope_ebpf_interpreter_codes_carried_total", "",
			"Code objects that samples carried the names of, as they were new.",
			func(s *Stats) *uint64 { return &s.CodesCarried }),
		one(total, "pyroscope_ebpf_interpreter_codes_not_carried_total", "",
			"Code objects that were new, but came too fast one after another: their names are read later.",
			func(s *Stats) *uint64 { return &s.CodesUncarried }),
	}
}

// nameCounters are the figures of names and the files that they are read from.
func nameCounters() []counter.Row[Stats] {
	return []counter.Row[Stats]{
		one(gauge, "pyroscope_ebpf_files_late", "files_late",
			"Files that take so long to read that nobody waits for them: names or stacks are missing meanwhile.",
			func(s *Stats) *uint64 { return &s.FilesLate }),
		one(gauge, "pyroscope_ebpf_files_hanging", "files_hanging",
			"Late files that do not go on, as those of a mount whose server is gone.",
			func(s *Stats) *uint64 { return &s.FilesHanging }),
		one(total, "pyroscope_ebpf_files_refused_total", "",
			"Files that were not read because others of the same mount or user hang.",
			func(s *Stats) *uint64 { return &s.FilesRefused }),
		one(gauge, "pyroscope_ebpf_jit_names_bytes", "jit_names_bytes",
			"Memory of the names that just-in-time compilers wrote.",
			func(s *Stats) *uint64 { return &s.JITBytes }),
		one(total, "pyroscope_ebpf_jit_functions_dropped_total", "jit_functions_dropped",
			"Functions of just-in-time compilers that there was no room for.",
			func(s *Stats) *uint64 { return &s.JITDropped }),
		many("pyroscope_symtab_known_symbols_total", target.LabelServiceName, "",
			"Frames that were named.",
			func(s *Stats) *map[string]uint64 { return &s.KnownSymbols }),
		many("pyroscope_symtab_unknown_symbols_total", target.LabelServiceName, "",
			"Frames of a known file that have no name.",
			func(s *Stats) *map[string]uint64 { return &s.UnknownSymbols }),
		many("pyroscope_symtab_unknown_modules_total", target.LabelServiceName, "",
			"Frames outside any known file.",
			func(s *Stats) *map[string]uint64 { return &s.UnknownModules }),
		many("pyroscope_ebpf_reader_limit_hits_total", "reader", "limit_hits",
			"How often bytes that others control went beyond a bound of what reads them.",
			func(s *Stats) *map[string]uint64 { return &s.LimitHits }),
		many("", "error", "errors",
			"Errors that cost names or stacks but stop nothing.",
			func(s *Stats) *map[string]uint64 { return &s.Errors }),
	}
}

// one is a figure with one value.
func one(kind counter.Kind, name, debug, help string, at func(*Stats) *uint64) counter.Row[Stats] {
	return counter.Row[Stats]{Info: counter.Info{Name: name, Help: help, Kind: kind, Debug: debug}, One: at}
}

// many are totals by a label.
func many(name, label, debug, help string, at func(*Stats) *map[string]uint64) counter.Row[Stats] {
	info := counter.Info{Name: name, Help: help, Kind: total, Label: label, Debug: debug}
	return counter.Row[Stats]{Info: info, Many: at}
}

// addSampling sets what the sampler counts; its samples only if the kernel could be asked.
func (s *Stats) addSampling(c *sampler.Stats, counted bool) {
	s.Processes, s.Executables, s.RecordsLost = uint64(c.Processes), uint64(c.Executables), c.RecordsLost
	s.Pages, s.Rows, s.PagesEvicted = uint64(c.Tables.Pages), uint64(c.Tables.Rows), c.Tables.Evicted
	s.Languages, s.RuntimeFrames, s.RuntimeUnnamed = c.Languages, map[string]uint64{}, map[string]uint64{}
	for _, l := range c.Languages {
		s.RuntimeFrames[l.Name], s.RuntimeUnnamed[l.Name] = l.Named, l.Unnamed()
	}
	s.ChainsUnplaced = c.ChainsUnplaced
	s.RowBytes, s.UsedBytes, s.TableBytes = c.Tables.RowBytes, c.Tables.Used, c.Tables.Reserved
	if !counted {
		return
	}
	s.Expected, s.Idle, s.Ignored = c.Expected, c.Idle, c.Ignored
	s.Lost = map[string]uint64{LostToFullLogs: c.Lost, LostToThrottling: c.Throttled, LostToSkippedTimers: c.Skipped}
	s.StackCopies, s.StackCopyBytes, s.StacksUncopied = c.StackCopies, c.StackCopyBytes, c.StacksUncopied
	s.Chains = map[string]uint64{}
	for end, n := range c.Chains {
		if runtime.ChainEnd(end) != runtime.ChainNone {
			s.Chains[runtime.ChainEnd(end).String()] = n
		}
	}
	s.CodesCarried, s.CodesUncarried = c.CodesNamed, c.CodesUnnamed
	s.Delivered = c.Ticks - c.Idle - c.Lost
}

// addProfiles sets what is counted when profiles are made.
func (s *Stats) addProfiles(c *profile.Stats) {
	s.profiled, s.Outcomes = c.Profiled, c.Outcomes
	s.KnownSymbols, s.UnknownSymbols, s.UnknownModules = c.KnownSymbols, c.UnknownSymbols, c.UnknownModules
	s.JITBytes, s.JITDropped = c.JITBytes, c.JITDropped
	s.Binaries, s.Unnamed = c.Binaries, c.Unnamed
}
