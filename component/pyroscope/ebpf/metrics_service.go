package ebpf

import (
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/headwater/headwater/ebpf"
)

// Limits of the series labelled by service_name.
const (
	maxServices   = 1000
	serviceIdle   = 10 * time.Minute // without a profile, then its series are removed
	otherServices = "(other)"        // stands for the services beyond the limit
)

// serviceMetrics are the metrics labelled by service_name. They are changed by
// Run's goroutine alone.
type serviceMetrics struct {
	pprofs, bytes, samples                       *prometheus.CounterVec
	knownSymbols, unknownSymbols, unknownModules *prometheus.CounterVec

	seen     map[string]time.Time // services with series
	now      time.Time            // of the last round
	previous ebpf.Stats           // counters already added
}

func newServiceMetrics() *serviceMetrics {
	counter := func(name, help string) *prometheus.CounterVec {
		return prometheus.NewCounterVec(prometheus.CounterOpts{Name: name, Help: help}, []string{"service_name"})
	}
	return &serviceMetrics{
		pprofs:         counter("pyroscope_ebpf_pprofs_total", "Profiles made."),
		bytes:          counter("pyroscope_ebpf_pprof_bytes_total", "Compressed size of the profiles made."),
		samples:        counter("pyroscope_ebpf_pprof_samples_total", "Samples in the profiles made."),
		knownSymbols:   counter("pyroscope_symtab_known_symbols_total", "Frames that were named."),
		unknownSymbols: counter("pyroscope_symtab_unknown_symbols_total", "Frames of a known file that have no name."),
		unknownModules: counter("pyroscope_symtab_unknown_modules_total", "Frames outside any known file."),
		seen:           make(map[string]time.Time),
		now:            time.Now(),
	}
}

func (m *serviceMetrics) vectors() []*prometheus.CounterVec {
	return []*prometheus.CounterVec{m.pprofs, m.bytes, m.samples, m.knownSymbols, m.unknownSymbols, m.unknownModules}
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

// observe adds what the session counted since the last call, and removes the
// series of services that are gone.
func (m *serviceMetrics) observe(stats ebpf.Stats, now time.Time) {
	m.now = now
	m.addNew(m.knownSymbols, m.previous.KnownSymbols, stats.KnownSymbols)
	m.addNew(m.unknownSymbols, m.previous.UnknownSymbols, stats.UnknownSymbols)
	m.addNew(m.unknownModules, m.previous.UnknownModules, stats.UnknownModules)
	m.previous = addStats(ebpf.Stats{}, stats) // maps of our own
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

// label returns the value of service_name for a service that was just active.
func (m *serviceMetrics) label(service string) string {
	name := strings.ToValidUTF8(service, "\uFFFD")
	if _, known := m.seen[name]; !known && len(m.seen) >= maxServices {
		name = otherServices
	}
	m.seen[name] = m.now
	return name
}
