package profile

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/headwater/headwater/ebpf/common/counter"
	"github.com/headwater/headwater/ebpf/common/limit"
	"github.com/headwater/headwater/ebpf/process/target"
	"github.com/headwater/headwater/ebpf/sampler"
	"github.com/headwater/headwater/ebpf/unwind"
)

// Stats are the counters of a Builder, and gauges of its current state. Fields without a row in Counters are lists,
// texts and readers, and Profiled, which the session's statistics use.
type Stats struct {
	Profiled uint64            // samples in collected profiles
	Outcomes map[string]uint64 // samples by outcome of the user stack, see unwind.Outcome
	Guessed  uint64            // samples with callers that were found only by the frame pointer

	KnownSymbols   map[string]uint64 // frames named, by service_name
	UnknownSymbols map[string]uint64 // frames in a known file without a name, by service_name
	UnknownModules map[string]uint64 // frames outside any known file, by service_name

	SymbolBytes uint64 // memory of the symbol tables

	JITBytes   uint64 // memory of the names that just-in-time compilers wrote
	JITDropped uint64 // functions dropped for lack of room in that memory

	Errors    []string                // errors that cost names, with the file
	LimitHits map[limit.Reader]uint64 // how often readers of foreign data stopped at a limit

	Binaries []BinaryStats  // stacks that ended early, by binary; most first, bounded
	Unnamed  []UnnamedStats // frames without a function's name, by binary; most first, bounded
}

// Counters returns the table of the figures, with their names, help texts, kinds and fields.
func Counters() []counter.Row[Stats] {
	return []counter.Row[Stats]{
		counter.Many("pyroscope_ebpf_samples_total", "outcome", "outcomes",
			"Samples by outcome of the unwinding of their user stack.",
			func(s *Stats) *map[string]uint64 { return &s.Outcomes }),
		counter.One(counter.Total, "pyroscope_ebpf_samples_guessed_total", "",
			"Samples with a caller found only by the frame pointer, in code that may not keep a frame pointer: callers "+
				"before it may be missing.",
			func(s *Stats) *uint64 { return &s.Guessed }),
		counter.Many("pyroscope_symtab_known_symbols_total", target.LabelServiceName, "",
			"Frames that were named.",
			func(s *Stats) *map[string]uint64 { return &s.KnownSymbols }),
		counter.Many("pyroscope_symtab_unknown_symbols_total", target.LabelServiceName, "",
			"Frames of a known file that have no name.",
			func(s *Stats) *map[string]uint64 { return &s.UnknownSymbols }),
		counter.Many("pyroscope_symtab_unknown_modules_total", target.LabelServiceName, "",
			"Frames outside any known file.",
			func(s *Stats) *map[string]uint64 { return &s.UnknownModules }),
		counter.One(counter.Gauge, "pyroscope_ebpf_symbol_table_bytes", "symbol_table_bytes",
			"Memory of the symbol tables.",
			func(s *Stats) *uint64 { return &s.SymbolBytes }),
		counter.One(counter.Gauge, "pyroscope_ebpf_jit_names_bytes", "jit_names_bytes",
			"Memory of the names from just-in-time compilers.",
			func(s *Stats) *uint64 { return &s.JITBytes }),
		counter.One(counter.Total, "pyroscope_ebpf_jit_functions_dropped_total", "jit_functions_dropped",
			"Functions of just-in-time compilers, dropped because the memory for their names was full.",
			func(s *Stats) *uint64 { return &s.JITDropped }),
	}
}

// BinaryStats counts the incomplete stacks that ended in one binary.
type BinaryStats struct {
	File    string
	BuildID string
	Outcome string
	Samples uint64
}

// UnnamedStats counts the frames in one binary that have no function's name.
type UnnamedStats struct {
	File    string
	BuildID string
	Reason  string // symbol.Reason in snake_case, "not_ready" or "outside_any_mapping"
	Frames  uint64

	// Explain returns a sentence that describes the missing file, and the package to install if known. It may read the
	// package manager's lists, some megabytes.
	Explain func() string
}

const (
	maxBinaries   = 4096 // distinct places where stacks ended early, and executables with unnamed frames
	shownBinaries = 50   // maximum number of Stats.Binaries
)

// counts are sums over samples and profiles. The Builder's mutex guards them.
type counts struct {
	profiled uint64
	outcomes [256]uint64 // by unwind.Outcome
	guessed  uint64
	ended    map[endOfStack]uint64
	services map[string]*serviceSymbols // by service_name
	unnamed  map[unwind.ExeID]uint64    // frames without a name, by executable
}

// endOfStack is the binary and the outcome of stacks that ended early.
type endOfStack struct {
	exe     unwind.ExeID
	outcome unwind.Outcome
}

func newCounts() counts {
	return counts{
		ended: map[endOfStack]uint64{}, services: map[string]*serviceSymbols{}, unnamed: map[unwind.ExeID]uint64{},
	}
}

// addOutcome counts how a sample's user part ended.
func (c *counts) addOutcome(s *sampler.Sample) {
	c.outcomes[s.Outcome]++
	if s.Guessed {
		c.guessed++
	}
	if !s.Outcome.HasUserPart() || s.Outcome.Complete() || s.Outcome == unwind.Guessed {
		return
	}
	at := endOfStack{outcome: s.Outcome}
	if n := len(s.User); n > 0 {
		at.exe = s.User[n-1].Exe
	}
	if _, ok := c.ended[at]; ok || len(c.ended) < maxBinaries {
		c.ended[at]++
	}
}

// Limits of the services whose frames are counted separately.
const (
	maxServices   = 1000
	serviceIdle   = 10 * time.Minute // idle time without a profile after which a service makes room
	otherServices = "(other)"        // the sum of the services beyond the limit
)

// serviceSymbols counts the frames of one service.
type serviceSymbols struct {
	symbolCounts
	seen time.Time
}

// addSymbols counts the frames of a service.
func (c *counts) addSymbols(service string, n symbolCounts, now time.Time) {
	if c.services[service] == nil && len(c.services) >= maxServices {
		maps.DeleteFunc(c.services, func(_ string, of *serviceSymbols) bool { return now.Sub(of.seen) >= serviceIdle })
		if len(c.services) >= maxServices {
			service = otherServices
		}
	}
	of := c.services[service]
	if of == nil {
		of = &serviceSymbols{}
		c.services[service] = of
	}
	of.known, of.unknown, of.noModule, of.seen = of.known+n.known, of.unknown+n.unknown, of.noModule+n.noModule, now
}

// describe sets the fields of out that need no lookups.
func (c *counts) describe(out *Stats) {
	out.Profiled, out.Outcomes = c.profiled, map[string]uint64{}
	out.Guessed = c.guessed
	for o, n := range c.outcomes {
		if n > 0 {
			out.Outcomes[unwind.Outcome(o).String()] += n
		}
	}
	out.KnownSymbols, out.UnknownSymbols = map[string]uint64{}, map[string]uint64{}
	out.UnknownModules = map[string]uint64{}
	for service, of := range c.services {
		out.KnownSymbols[service], out.UnknownSymbols[service] = of.known, of.unknown
		out.UnknownModules[service] = of.noModule
	}
}

// countNamed counts the frames of a new profile.
func (b *Builder) countNamed(service string, n symbolCounts) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.counts.addSymbols(service, n, time.Now())
}

// countProfiled counts the samples of a profile that is returned.
func (b *Builder) countProfiled(samples uint64) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.counts.profiled += samples
}

// countUnnamed counts the frames without a name in profiles that are returned.
func (b *Builder) countUnnamed(unnamed map[unwind.ExeID]uint64) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for exe, n := range unnamed {
		if _, ok := b.counts.unnamed[exe]; ok || len(b.counts.unnamed) < maxBinaries {
			b.counts.unnamed[exe] += n
		}
	}
}

// Stats returns the current figures.
func (b *Builder) Stats() Stats {
	var out Stats
	b.mu.Lock()
	b.counts.describe(&out)
	ended, unnamed := maps.Clone(b.counts.ended), maps.Clone(b.counts.unnamed)
	b.mu.Unlock()

	out.Binaries = b.names.describeEnded(ended)
	out.Unnamed = b.names.describeUnnamed(unnamed, out.UnknownModules)
	out.Errors, out.LimitHits = b.names.errors(), b.names.symbolizer.LimitHits()
	out.SymbolBytes = uint64(b.names.symbolizer.Stats().TableBytes)
	compiled := b.names.jit.Stats()
	out.JITBytes, out.JITDropped = compiled.Bytes, compiled.Dropped
	return out
}

// errors returns the errors that cost names.
func (n *names) errors() (texts []string) {
	if err := n.symbolizer.KernelStatus().Err; err != nil {
		texts = append(texts, "kernel symbols: "+err.Error())
	}
	problems := n.symbolizer.Problems()
	for _, file := range slices.Sorted(maps.Keys(problems)) {
		texts = append(texts, fmt.Sprintf("debug info of %s: %v", file, problems[file]))
	}
	return texts
}

// describeEnded lists the binaries in which most stacks ended early.
func (n *names) describeEnded(ended map[endOfStack]uint64) []BinaryStats {
	var out []BinaryStats
	for at, samples := range ended {
		b := BinaryStats{File: unknownFunction, Outcome: at.outcome.String(), Samples: samples}
		if e := n.executables.Executable(at.exe); e != nil {
			b.File, b.BuildID = limit.Text(e.Path), e.BuildID
		}
		out = append(out, b)
	}
	slices.SortStableFunc(out, func(a, b BinaryStats) int {
		return cmp.Or(cmp.Compare(b.Samples, a.Samples), cmp.Compare(a.File, b.File), cmp.Compare(a.Outcome, b.Outcome))
	})
	return out[:min(len(out), shownBinaries)]
}
