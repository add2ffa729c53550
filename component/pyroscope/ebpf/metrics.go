package ebpf

import (
	"errors"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/headwater/headwater/ebpf"
)

// metrics are those of one component. Figures of the profiler are as of the last
// round of collecting, so that they belong together.
type metrics struct {
	rounds   prometheus.Counter
	failures prometheus.Counter
	dropped  prometheus.Counter
	targets  prometheus.Gauge
	services *serviceMetrics

	mu    sync.Mutex
	stats ebpf.Stats // of all sessions
}

// newMetrics registers the component's metrics.
func newMetrics(r prometheus.Registerer) (*metrics, error) {
	counter := func(name, help string) prometheus.Counter {
		return prometheus.NewCounter(prometheus.CounterOpts{Name: name, Help: help})
	}
	m := &metrics{
		rounds:   counter("pyroscope_ebpf_profiling_sessions_total", "Rounds of collecting profiles."),
		failures: counter("pyroscope_ebpf_profiling_sessions_failing_total", "Rounds of collecting and starts of the profiler that failed."),
		dropped:  counter("pyroscope_ebpf_pprofs_dropped_total", "Profiles dropped because receivers were too slow."),
		targets: prometheus.NewGauge(prometheus.GaugeOpts{
			Name: "pyroscope_ebpf_active_targets", Help: "Targets that name a process or a container.",
		}),
		services: newServiceMetrics(),
	}
	var errs []error
	for _, c := range append(m.services.collectors(), m.rounds, m.failures, m.dropped, m.targets, newStatsCollector(m.snapshot)) {
		errs = append(errs, r.Register(c))
	}
	return m, errors.Join(errs...)
}

func (m *metrics) setTargets(n int) { m.targets.Set(float64(n)) }

// newSession prepares for counters that begin at zero again.
func (m *metrics) newSession() { m.services.newSession() }

// addProfile counts a profile that was made.
func (m *metrics) addProfile(service string, bytes int, samples uint64) {
	m.services.addProfile(service, bytes, samples)
}

// observe takes the figures of the session and of those before it.
func (m *metrics) observe(stats, past ebpf.Stats, now time.Time) {
	m.services.observe(stats, now)
	m.mu.Lock()
	defer m.mu.Unlock()
	m.stats = addStats(past, stats)
}

func (m *metrics) snapshot() ebpf.Stats {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.stats
}

// statsCollector turns a snapshot of ebpf.Stats into metrics.
type statsCollector struct {
	snapshot func() ebpf.Stats
	figures  []statsFigure
	outcomes *prometheus.Desc
}

type statsFigure struct {
	desc *prometheus.Desc
	kind prometheus.ValueType
	of   func(ebpf.Stats) uint64
}

func newStatsCollector(snapshot func() ebpf.Stats) *statsCollector {
	figure := func(kind prometheus.ValueType, name, help string, of func(ebpf.Stats) uint64) statsFigure {
		return statsFigure{prometheus.NewDesc("pyroscope_ebpf_"+name, help, nil, nil), kind, of}
	}
	const counter, gauge = prometheus.CounterValue, prometheus.GaugeValue
	return &statsCollector{
		snapshot: snapshot,
		outcomes: prometheus.NewDesc("pyroscope_ebpf_samples_total", "Samples by how unwinding their user stack ended.", []string{"outcome"}, nil),
		figures: []statsFigure{
			figure(counter, "samples_expected_total", "Samples that were due: time that CPUs were busy over the period.", func(s ebpf.Stats) uint64 { return s.Expected }),
			figure(counter, "samples_delivered_total", "Samples that were taken and not lost; compare with samples_expected_total.", func(s ebpf.Stats) uint64 { return s.Delivered }),
			figure(counter, "samples_idle_total", "Timer events that hit an idle CPU; not every idle CPU has any.", func(s ebpf.Stats) uint64 { return s.Idle }),
			figure(counter, "samples_ignored_total", "Samples of processes without a target.", func(s ebpf.Stats) uint64 { return s.Ignored }),
			figure(counter, "samples_lost_total", "Samples that were taken and lost for want of buffer space.", func(s ebpf.Stats) uint64 { return s.Lost }),
			figure(counter, "stacks_copied_total", "Samples that carried a copy of their stack, to be finished in user space.", func(s ebpf.Stats) uint64 { return s.Copies }),
			figure(counter, "stacks_copied_bytes_total", "Bytes of stacks copied.", func(s ebpf.Stats) uint64 { return s.CopiedBytes }),
			figure(counter, "stacks_not_copied_total", "Samples that should have carried a copy, but came too fast one after another.", func(s ebpf.Stats) uint64 { return s.Uncopied }),
			figure(counter, "unwind_pages_evicted_total", "Pages of unwind rows given up: not looked up lately, or to make room for others.", func(s ebpf.Stats) uint64 { return s.PagesEvicted }),
			figure(gauge, "processes", "Processes known.", func(s ebpf.Stats) uint64 { return uint64(s.Processes) }),
			figure(gauge, "executables", "Distinct executables known.", func(s ebpf.Stats) uint64 { return uint64(s.Executables) }),
			figure(gauge, "unwind_pages", "Pages of unwind rows in kernel memory.", func(s ebpf.Stats) uint64 { return uint64(s.Pages) }),
			figure(gauge, "unwind_rows", "Unwind rows in them.", func(s ebpf.Stats) uint64 { return uint64(s.Rows) }),
			figure(gauge, "unwind_row_bytes", "Kernel memory that the unwind rows take.", func(s ebpf.Stats) uint64 { return s.RowBytes }),
			figure(gauge, "unwind_used_bytes", "Kernel memory that unwind rows, directories of pages and mappings take.", func(s ebpf.Stats) uint64 { return s.UsedBytes }),
			figure(gauge, "unwind_table_bytes", "Kernel memory of the unwind tables, used or not.", func(s ebpf.Stats) uint64 { return s.TableBytes }),
		},
	}
}

// Describe implements prometheus.Collector.
func (c *statsCollector) Describe(ch chan<- *prometheus.Desc) {
	ch <- c.outcomes
	for _, f := range c.figures {
		ch <- f.desc
	}
}

// Collect implements prometheus.Collector.
func (c *statsCollector) Collect(ch chan<- prometheus.Metric) {
	stats := c.snapshot()
	for _, f := range c.figures {
		ch <- prometheus.MustNewConstMetric(f.desc, f.kind, float64(f.of(stats)))
	}
	for outcome, n := range stats.Outcomes {
		ch <- prometheus.MustNewConstMetric(c.outcomes, prometheus.CounterValue, float64(n), outcome)
	}
}
