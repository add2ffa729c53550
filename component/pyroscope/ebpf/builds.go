package ebpf

import (
	"fmt"
	"strings"
	"time"

	"github.com/go-kit/log"
	"github.com/go-kit/log/level"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/headwater/headwater/ebpf/host/procfs"
	"github.com/headwater/headwater/flame/compare"
	"github.com/headwater/headwater/flame/server"
)

// started returns the start time of a process.
func started(pid uint32) (time.Time, bool) {
	at, err := procfs.Default.Started(pid)
	return at, err == nil
}

// buildCollector exports metrics about new builds. Their label values come from the few changes that the page keeps.
type buildCollector struct {
	changes func() ([]server.Change, uint64)

	seen, functions, ratio *prometheus.Desc
}

func newBuildCollector(changes func() ([]server.Change, uint64)) *buildCollector {
	labels := []string{labelService, "executable"}
	return &buildCollector{
		changes: changes,
		seen: prometheus.NewDesc("pyroscope_ebpf_build_changes_total",
			"New builds of programs whose old build had enough samples to compare.", nil, nil),
		functions: prometheus.NewDesc("pyroscope_ebpf_build_change_functions",
			"Functions whose CPU time certainly changed in the newest build of a program, by direction: more, less.",
			append(labels, "direction"), nil),
		ratio: prometheus.NewDesc("pyroscope_ebpf_build_change_cpu_ratio",
			"CPU time per second of the newest build of a program, divided by the value of the previous build.", labels, nil),
	}
}

// Describe implements prometheus.Collector.
func (c *buildCollector) Describe(ch chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{c.seen, c.functions, c.ratio} {
		ch <- d
	}
}

// Collect implements prometheus.Collector.
func (c *buildCollector) Collect(ch chan<- prometheus.Metric) {
	changes, seen := c.changes()
	ch <- prometheus.MustNewConstMetric(c.seen, prometheus.CounterValue, float64(seen))
	sent := map[[2]string]bool{}
	for i := range changes {
		b := &changes[i]
		labels := []string{strings.ToValidUTF8(b.Service, "\uFFFD"), strings.ToValidUTF8(b.Program, "\uFFFD")}
		if b.Report == nil || sent[[2]string(labels)] { // two names may become equal
			continue
		}
		sent[[2]string(labels)] = true
		for direction, list := range map[string][]compare.Change{"more": b.More(), "less": b.Less()} {
			ch <- prometheus.MustNewConstMetric(c.functions, prometheus.GaugeValue, float64(len(list)),
				append(labels, direction)...)
		}
		if all := b.Report.All; !b.Both && all.Base > 0 {
			ch <- prometheus.MustNewConstMetric(c.ratio, prometheus.GaugeValue, all.New/all.Base, labels...)
		}
	}
}

// buildLog remembers the log lines about new builds.
type buildLog struct{ said map[string]bool }

// logChanges logs new builds, and then their changed functions once the comparison is certain.
func (l *buildLog) logChanges(logger log.Logger, changes []server.Change) {
	said := map[string]bool{}
	for i := range changes {
		b := &changes[i]
		key := strings.Join([]string{b.Service, b.Program, b.Old, b.New, fmt.Sprint(b.Began.UnixNano())}, "\x00")
		about := []any{"service_name", b.Service, "executable", b.Program, "old_build", b.Old, "new_build", b.New}
		if said[key] = true; !l.said[key] {
			level.Info(logger).Log(append([]any{"msg", "a program has a new build"}, about...)...)
		}
		more, less := b.More(), b.Less()
		key += "\x00certain"
		if said[key] = l.said[key] || len(more)+len(less) > 0; l.said[key] || !said[key] {
			continue
		}
		about = append([]any{"msg", "a new build changed the CPU time of functions"}, about...)
		level.Warn(logger).Log(append(about, "more_expensive", len(more), "less_expensive", len(less),
			"first", firstOf(&b.Report.Changed[0]))...)
	}
	l.said = said
}

// firstOf describes the change of a function.
func firstOf(c *compare.Change) string {
	if c.High == nil {
		return fmt.Sprintf("%s: at least %.2f times as much CPU", c.Name, c.Low)
	}
	return fmt.Sprintf("%s: %.2f to %.2f times as much CPU", c.Name, c.Low, *c.High)
}

// DebugBuild is a program that recently got a new build.
type DebugBuild struct {
	Service    string    `river:"service_name,attr"`
	Executable string    `river:"executable,attr"`
	Old        string    `river:"old,attr"`
	New        string    `river:"new,attr"`
	Since      time.Time `river:"since,attr"`
	Compared   bool      `river:"compared,attr"`
	More       []string  `river:"more_expensive,attr,optional"` // functions, the largest change first, at most 10
	Less       []string  `river:"less_expensive,attr,optional"`
	Problem    string    `river:"problem,attr,optional"`
}

// debugBuilds describes the new builds.
func debugBuilds(changes []server.Change) (out []DebugBuild) {
	names := func(list []compare.Change) (out []string) {
		for _, c := range list[:min(len(list), 10)] {
			out = append(out, c.Name)
		}
		return out
	}
	for i := range changes {
		b := &changes[i]
		out = append(out, DebugBuild{
			Service: b.Service, Executable: b.Program, Old: b.Old, New: b.New, Since: b.Began, Problem: b.Problem,
			Compared: b.Report != nil, More: names(b.More()), Less: names(b.Less()),
		})
	}
	return out
}
