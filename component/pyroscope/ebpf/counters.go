package ebpf

import (
	"maps"

	"github.com/headwater/headwater/ebpf"
	"github.com/headwater/headwater/ebpf/common/counter"
)

// counts are the component's own figures.
type counts struct {
	rounds, failures, overdue uint64
	dropped                   uint64
	lost                      map[string]uint64 // profiles that a receiver did not get, by reason
	targets                   uint64
}

// loseProfiles counts profiles that at least one receiver did not get.
func (n *counts) loseProfiles(reason string, profiles uint64) { n.lost[reason] += profiles }

// clone returns a copy that later changes do not affect.
func (n *counts) clone() counts {
	out := *n
	out.lost = maps.Clone(n.lost)
	return out
}

// figures are all figures that a component shows in its metrics and debug info.
type figures struct {
	counts
	session ebpf.Stats // of the profiler, summed over all sessions
}

// counters returns the table of the figures: the component's own rows, followed by the profiler's rows for its Stats.
// Metrics and debug info are generated from it.
func counters() []counter.Row[figures] {
	session := counter.Of(ebpf.Counters(), func(f *figures) *ebpf.Stats { return &f.session })
	return append(ownCounters(), session...)
}

// ownCounters are the rows of the component's own figures.
func ownCounters() []counter.Row[figures] {
	return []counter.Row[figures]{
		counter.One(counter.Total, "pyroscope_ebpf_profiling_sessions_total", "rounds",
			"Rounds of collecting profiles.",
			func(f *figures) *uint64 { return &f.rounds }),
		counter.One(counter.Total, "pyroscope_ebpf_profiling_sessions_failing_total", "",
			"Failed rounds of collecting profiles, and failed starts of the profiler.",
			func(f *figures) *uint64 { return &f.failures }),
		counter.One(counter.Total, "pyroscope_ebpf_overdue_rounds_total", "rounds_overdue",
			"Rounds of collecting profiles that took longer than one and a half intervals.",
			func(f *figures) *uint64 { return &f.overdue }),
		counter.One(counter.Total, "pyroscope_ebpf_pprofs_dropped_total", "",
			"Profiles dropped because receivers were too slow.",
			func(f *figures) *uint64 { return &f.dropped }),
		counter.Many("pyroscope_ebpf_pprofs_lost_total", "reason", "profiles_lost",
			"Profiles that at least one receiver did not get, by reason: not_encoded, receivers_too_slow, refused.",
			func(f *figures) *map[string]uint64 { return &f.lost }),
		counter.One(counter.Gauge, "pyroscope_ebpf_active_targets", "",
			"Targets that name a process or a container.",
			func(f *figures) *uint64 { return &f.targets }),
	}
}

// madeCounters describes the figures by service that serviceMetrics.addProfile counts: profiles, their bytes and their
// samples.
func madeCounters() (pprofs, bytes, samples counter.Info) {
	info := func(name, help string) counter.Info {
		return counter.Info{Name: name, Help: help, Kind: counter.Total, Label: labelService}
	}
	return info("pyroscope_ebpf_pprofs_total", "Profiles made."),
		info("pyroscope_ebpf_pprof_bytes_total", "Compressed size of the profiles made."),
		info("pyroscope_ebpf_pprof_samples_total", "Samples in the profiles made.")
}
