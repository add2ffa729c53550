package write

import (
	"github.com/prometheus/client_golang/prometheus"

	"github.com/headwater/headwater/component"
)

// metrics are the component's metrics, by endpoint.
type metrics struct {
	sentBytes, sentProfiles       *prometheus.CounterVec
	droppedBytes, droppedProfiles *prometheus.CounterVec
	retries                       *prometheus.CounterVec
	latency                       *prometheus.HistogramVec
	queueBytes, queueProfiles     *prometheus.GaugeVec
	dropReasons                   *prometheus.CounterVec
	diskErrors, inMemory          *prometheus.CounterVec
}

// newMetrics returns the metrics, registered with register unless register is nil.
func newMetrics(register prometheus.Registerer) *metrics {
	counter := func(name, help string) *prometheus.CounterVec {
		return component.Registered(register,
			prometheus.NewCounterVec(prometheus.CounterOpts{Name: name, Help: help}, []string{"endpoint"}))
	}
	gauge := func(name, help string) *prometheus.GaugeVec {
		return component.Registered(register,
			prometheus.NewGaugeVec(prometheus.GaugeOpts{Name: name, Help: help}, []string{"endpoint"}))
	}
	return &metrics{
		sentBytes:       counter("pyroscope_write_sent_bytes_total", "Bytes of profiles that endpoints accepted."),
		sentProfiles:    counter("pyroscope_write_sent_profiles_total", "Profiles that endpoints accepted."),
		droppedBytes:    counter("pyroscope_write_dropped_bytes_total", "Bytes of profiles that were dropped."),
		droppedProfiles: counter("pyroscope_write_dropped_profiles_total", "Profiles that were dropped."),
		retries:         counter("pyroscope_write_retries_total", "Retries of pushes."),
		queueBytes:      gauge("pyroscope_write_queue_bytes", "Bytes of profiles that wait to be pushed."),
		queueProfiles:   gauge("pyroscope_write_queue_profiles", "Profiles that wait to be pushed."),
		diskErrors:      counter("pyroscope_write_queue_disk_errors_total", "Errors of the queue on disk."),
		inMemory: counter("pyroscope_write_queue_memory_profiles_total",
			"Profiles that had to wait in memory because the queue on disk could not take them."),
		dropReasons: component.Registered(register, prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "pyroscope_write_drop_reasons_total",
			Help: "The profiles of pyroscope_write_dropped_profiles_total by reason.",
		}, []string{"endpoint", "reason"})),
		latency: component.Registered(register, prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name: "pyroscope_write_latency",
			Help: "Time of pushes in seconds: push_downstream is one attempt, push_endpoint the whole delivery of a profile " +
				"from its arrival.",
		}, []string{"endpoint", "type"})),
	}
}

// endpointMetrics are the metrics of one endpoint.
type endpointMetrics struct {
	sentBytes, sentProfiles       prometheus.Counter
	droppedBytes, droppedProfiles prometheus.Counter
	retries                       prometheus.Counter
	attempt, delivery             prometheus.Observer
	queueBytes, queueProfiles     prometheus.Gauge
	diskErrors, inMemory          prometheus.Counter
	dropReasons                   *prometheus.CounterVec // by reason
}

func (m *metrics) ofEndpoint(endpoint string) endpointMetrics {
	return endpointMetrics{
		sentBytes:       m.sentBytes.WithLabelValues(endpoint),
		sentProfiles:    m.sentProfiles.WithLabelValues(endpoint),
		droppedBytes:    m.droppedBytes.WithLabelValues(endpoint),
		droppedProfiles: m.droppedProfiles.WithLabelValues(endpoint),
		retries:         m.retries.WithLabelValues(endpoint),
		attempt:         m.latency.WithLabelValues(endpoint, "push_downstream"),
		delivery:        m.latency.WithLabelValues(endpoint, "push_endpoint"),
		queueBytes:      m.queueBytes.WithLabelValues(endpoint),
		queueProfiles:   m.queueProfiles.WithLabelValues(endpoint),
		diskErrors:      m.diskErrors.WithLabelValues(endpoint),
		inMemory:        m.inMemory.WithLabelValues(endpoint),
		dropReasons:     m.dropReasons.MustCurryWith(prometheus.Labels{"endpoint": endpoint}),
	}
}

// queued adds profiles to the queue's gauges; negative numbers remove them. Endpoints with the same URL share the
// gauges.
func (m *endpointMetrics) queued(profiles, bytes int) {
	m.queueProfiles.Add(float64(profiles))
	m.queueBytes.Add(float64(bytes))
}

// lostTo counts lost profiles by reason.
func (m *endpointMetrics) lostTo(l loss) {
	m.dropReasons.WithLabelValues(l.reason()).Add(float64(l.profiles))
}
