package relabel

import (
	"errors"

	"github.com/prometheus/client_golang/prometheus"
)

type metrics struct {
	processed, written, dropped, hits, misses prometheus.Counter
	size                                      prometheus.Gauge
}

func newMetrics(registerer prometheus.Registerer) (*metrics, error) {
	var errs []error
	register := func(c prometheus.Collector) {
		if registerer != nil {
			errs = append(errs, registerer.Register(c))
		}
	}
	counter := func(name, help string) prometheus.Counter {
		c := prometheus.NewCounter(prometheus.CounterOpts{Name: "pyroscope_relabel_" + name, Help: help})
		register(c)
		return c
	}
	m := &metrics{
		processed: counter("profiles_processed", "Profiles received."),
		written:   counter("profiles_written", "Profiles forwarded."),
		dropped:   counter("profiles_dropped", "Profiles dropped by a rule."),
		hits:      counter("cache_hits", "Label sets whose result was in the cache."),
		misses:    counter("cache_misses", "Label sets whose result was not in the cache."),
		size: prometheus.NewGauge(prometheus.GaugeOpts{
			Name: "pyroscope_relabel_cache_size", Help: "Label sets whose result is in the cache.",
		}),
	}
	register(m.size)
	return m, errors.Join(errs...)
}
