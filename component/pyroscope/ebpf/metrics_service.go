package ebpf

import (
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/headwater/headwater/ebpf"
	"github.com/headwater/headwater/ebpf/common/counter"
	"github.com/headwater/headwater/ebpf/process/target"
)

// Limits of the series labelled by service_name.
const (
	maxServices   = 1000
	serviceIdle   = 10 * time.Minute // time without a profile after which a service's series are removed
	otherServices = "(other)"        // stands for the services beyond the limit
)

// labelService is the label of figures that are counted by service.
const labelService = target.LabelServiceName

// serviceMetrics are the metrics labelled by service_name. Only Run's goroutine changes them.
type serviceMetrics struct {
	pprofs, bytes, samples *prometheus.CounterVec
	symbols                []serviceCounter // of the profiler

	seen     map[string]time.Time // services with series
	now      time.Time            // of the last round
	previous ebpf.Stats           // counters already added
}

// serviceCounter is a row of the profiler's table, and its metric.
type serviceCounter struct {
	counter.Row[ebpf.Stats]
	vector *prometheus.CounterVec
}

func newServiceMetrics() *serviceMetrics {
	vector := func(i counter.Info) *prometheus.CounterVec {
		return prometheus.NewCounterVec(prometheus.CounterOpts{Name: i.Name, Help: i.Help}, []string{i.Label})
	}
	pprofs, bytes, samples := madeCounters()
	m := &serviceMetrics{
		pprofs: vector(pprofs), bytes: vector(bytes), samples: vector(samples),
		seen: make(map[string]time.Time), now: time.Now(),
	}
	for _, row := range ebpf.Counters() {
		if row.Label == labelService {
			m.symbols = append(m.symbols, serviceCounter{row, vector(row.Info)})
		}
	}
	return m
}

func (m *serviceMetrics) vectors() []*prometheus.CounterVec {
	all := []*prometheus.CounterVec{m.pprofs, m.bytes, m.samples}
	for _, c := range m.symbols {
		all = append(all, c.vector)
	}
	return all
}

func (m *serviceMetrics) collectors() []prometheus.Collector {
	var list []prometheus.Collector
	for _, v := range m.vectors() {
		list = append(list, v)
	}
	return list
}

func (m *serviceMetrics) newSession() { m.previous = ebpf.Stats{} }

func (m *serviceMetrics) addProfile(service string, bytes int, samples uint64) {
	name := m.label(service)
	m.pprofs.WithLabelValues(name).Inc()
	m.bytes.WithLabelValues(name).Add(float64(bytes))
	m.samples.WithLabelValues(name).Add(float64(samples))
}

// observe adds the session's counts since the last call, and removes the series of idle services.
func (m *serviceMetrics) observe(stats ebpf.Stats, now time.Time) {
	m.now = now
	for _, c := range m.symbols {
		m.addNew(c.vector, *c.Many(&m.previous), *c.Many(&stats))
	}
	m.previous = counter.Sum(ebpf.Counters(), ebpf.Stats{}, stats) // a copy of the maps
	for name, last := range m.seen {
		if now.Sub(last) >= serviceIdle {
			delete(m.seen, name)
			for _, v := range m.vectors() {
				v.DeleteLabelValues(name)
			}
		}
	}
}

func (m *serviceMetrics) addNew(v *prometheus.CounterVec, before, now map[string]uint64) {
	for service, n := range now {
		if fresh := n - before[service]; n > before[service] {
			v.WithLabelValues(m.label(service)).Add(float64(fresh))
		}
	}
}

// label returns the value of service_name for a service that has just been active.
func (m *serviceMetrics) label(service string) string {
	name := strings.ToValidUTF8(service, "\uFFFD")
	if _, known := m.seen[name]; !known && len(m.seen) >= maxServices {
		name = otherServices
	}
	m.seen[name] = m.now
	return name
}
