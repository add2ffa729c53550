package ebpf

import (
	"errors"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/headwater/headwater/ebpf"
	"github.com/headwater/headwater/ebpf/common/counter"
	"github.com/headwater/headwater/flame/server"
)

// metrics are the metrics of one component. Figures of the profiler are as of the last round of collecting, so that
// they are consistent.
type metrics struct {
	services *serviceMetrics

	mu      sync.Mutex
	figures figures
}

// newMetrics registers the component's metrics.
func newMetrics(r prometheus.Registerer, changes func() ([]server.Change, uint64)) (*metrics, error) {
	m := &metrics{services: newServiceMetrics(), figures: figures{counts: counts{lost: map[string]uint64{}}}}
	var errs []error
	for _, c := range append(m.services.collectors(), newCollector(m.snapshot), newBuildCollector(changes)) {
		errs = append(errs, r.Register(c))
	}
	return m, errors.Join(errs...)
}

// count changes the component's own figures.
func (m *metrics) count(change func(*counts)) {
	m.mu.Lock()
	defer m.mu.Unlock()
	change(&m.figures.counts)
}

// newSession prepares for counters that start at zero again.
func (m *metrics) newSession() { m.services.newSession() }

// addProfile counts a finished profile.
func (m *metrics) addProfile(service string, bytes int, samples uint64) {
	m.services.addProfile(service, bytes, samples)
}

// observe takes the figures of the current session, and the sum of the previous sessions.
func (m *metrics) observe(stats, past ebpf.Stats, now time.Time) {
	m.services.observe(stats, now)
	m.mu.Lock()
	defer m.mu.Unlock()
	m.figures.session = counter.Sum(ebpf.Counters(), past, stats)
}

// snapshot returns a copy of the current figures.
func (m *metrics) snapshot() figures {
	m.mu.Lock()
	defer m.mu.Unlock()
	return figures{m.figures.counts.clone(), m.figures.session}
}

// collector exports snapshots as metrics, according to the table. serviceMetrics exports the figures by service.
type collector struct {
	snapshot func() figures
	rows     []described
}

// described is a row and its metric.
type described struct {
	counter.Row[figures]
	desc *prometheus.Desc
	kind prometheus.ValueType
}

func newCollector(snapshot func() figures) *collector {
	c := &collector{snapshot: snapshot}
	for _, row := range counters() {
		if row.Name == "" || row.Label == labelService {
			continue
		}
		d := described{Row: row, kind: prometheus.GaugeValue}
		if row.Kind == counter.Total {
			d.kind = prometheus.CounterValue
		}
		var labels []string
		if row.Label != "" {
			labels = []string{row.Label}
		}
		d.desc = prometheus.NewDesc(row.Name, row.Help, labels, nil)
		c.rows = append(c.rows, d)
	}
	return c
}

// Describe implements prometheus.Collector.
func (c *collector) Describe(ch chan<- *prometheus.Desc) {
	for _, d := range c.rows {
		ch <- d.desc
	}
}

// Collect implements prometheus.Collector.
func (c *collector) Collect(ch chan<- prometheus.Metric) {
	now := c.snapshot()
	for _, d := range c.rows {
		d.collect(&now, ch)
	}
}

func (d *described) collect(f *figures, ch chan<- prometheus.Metric) {
	d.Each(f, func(label string, n uint64) {
		var labels []string
		if d.Label != "" {
			labels = []string{label}
		}
		ch <- prometheus.MustNewConstMetric(d.desc, d.kind, float64(n), labels...)
	})
}
