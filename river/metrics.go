package river

import (
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"

	"github.com/headwater/headwater/component"
)

// ProcessMetrics returns a new registry with the metrics of this process and of the Go runtime, for
// Options.Registerer.
func ProcessMetrics() *prometheus.Registry {
	registry := prometheus.NewRegistry()
	registry.MustRegister(
		collectors.NewGoCollector(),
		collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}),
	)
	return registry
}

// slowEvaluation is the minimum duration of an evaluation that counts as slow.
const slowEvaluation = time.Minute

// runtimeMetrics uses the names of the Grafana Agent's metrics, so that dashboards and alerts for
// the Agent work.
type runtimeMetrics struct {
	runtime    *Runtime
	evaluating atomic.Int64

	components *prometheus.Desc
	own        []prometheus.Collector

	evaluations prometheus.Histogram
	waits       prometheus.Histogram
	slow        *prometheus.CounterVec
	configHash  *prometheus.GaugeVec
	loadGood    prometheus.Gauge
	loadTime    prometheus.Gauge
	loadBad     prometheus.Counter
}

func newRuntimeMetrics(r *Runtime) *runtimeMetrics {
	m := &runtimeMetrics{runtime: r}
	controller := prometheus.Labels{"controller_id": ""}
	seconds := []float64{.005, .025, .1, .5, 1, 5, 10, 30, 60, 120, 300, 600}

	m.components = prometheus.NewDesc("agent_component_controller_running_components",
		"Number of loaded components, by health.", []string{"controller_id", "health_type"}, nil)
	m.evaluations = prometheus.NewHistogram(prometheus.HistogramOpts{
		Name: "agent_component_evaluation_seconds", ConstLabels: controller, Buckets: seconds,
		Help: "Evaluation time of one block."})
	m.waits = prometheus.NewHistogram(prometheus.HistogramOpts{
		Name: "agent_component_dependencies_wait_seconds", ConstLabels: controller, Buckets: seconds,
		Help: "Time between a change of exports and the evaluation of the blocks that use them."})
	m.slow = prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "agent_component_evaluation_slow_seconds", ConstLabels: controller,
		Help: fmt.Sprintf("Time spent in evaluations that took %s and more.", slowEvaluation)}, []string{"component_id"})
	m.configHash = prometheus.NewGaugeVec(prometheus.GaugeOpts{
		Name: "agent_config_hash", Help: "Checksum of the current configuration."}, []string{"sha256"})
	m.loadGood = prometheus.NewGauge(prometheus.GaugeOpts{
		Name: "agent_config_last_load_successful", Help: "Whether the last load of the configuration succeeded."})
	m.loadTime = prometheus.NewGauge(prometheus.GaugeOpts{
		Name: "agent_config_last_load_success_timestamp_seconds",
		Help: "Time of the last successful load of the configuration."})
	m.loadBad = prometheus.NewCounter(prometheus.CounterOpts{
		Name: "agent_config_load_failures_total", Help: "Number of loads of the configuration that failed."})

	m.own = []prometheus.Collector{
		m.evaluations, m.waits, m.slow, m.configHash, m.loadGood, m.loadTime, m.loadBad,
		prometheus.NewGaugeFunc(prometheus.GaugeOpts{
			Name: "agent_component_controller_evaluating", ConstLabels: controller,
			Help: "Whether blocks are being evaluated."}, m.isEvaluating),
		prometheus.NewGaugeFunc(prometheus.GaugeOpts{
			Name: "agent_component_evaluation_queue_size", ConstLabels: controller,
			Help: "Number of blocks that wait for evaluation."}, func() float64 { return float64(r.queue.len()) }),
	}
	return m
}

func (m *runtimeMetrics) isEvaluating() float64 {
	if m.evaluating.Load() > 0 {
		return 1
	}
	return 0
}

// evaluation records the start of a node's evaluation. The returned function records its end and
// returns its duration.
func (m *runtimeMetrics) evaluation(id string) (done func() time.Duration) {
	started := time.Now()
	m.evaluating.Add(1)
	return func() time.Duration {
		m.evaluating.Add(-1)
		duration := time.Since(started)
		m.evaluations.Observe(duration.Seconds())
		if duration >= slowEvaluation {
			m.slow.WithLabelValues(id).Add(duration.Seconds())
		}
		return duration
	}
}

func (m *runtimeMetrics) waited(duration time.Duration) { m.waits.Observe(duration.Seconds()) }

// loadDone records the result of a load. source is nil if no source was read.
func (m *runtimeMetrics) loadDone(source *Source, err error) {
	var failed *LoadError
	if source != nil && (err == nil || errors.As(err, &failed) && failed.Applied) {
		m.configHash.Reset()
		m.configHash.WithLabelValues(fmt.Sprintf("%x", source.SHA256())).Set(1)
	}
	if err != nil {
		m.loadGood.Set(0)
		m.loadBad.Inc()
		return
	}
	m.loadGood.Set(1)
	m.loadTime.SetToCurrentTime()
}

// Describe implements prometheus.Collector. It does not describe the components' metrics, which are
// unknown in advance.
func (m *runtimeMetrics) Describe(ch chan<- *prometheus.Desc) {
	ch <- m.components
	for _, c := range m.own {
		c.Describe(ch)
	}
}

// Collect implements prometheus.Collector.
func (m *runtimeMetrics) Collect(ch chan<- prometheus.Metric) {
	for _, c := range m.own {
		c.Collect(ch)
	}
	m.runtime.root.walkModules(func(inner *module) {
		count := map[component.HealthType]int{}
		for _, n := range inner.graph.Load().instances() {
			count[n.currentHealth().Health]++
			if built, ok := n.(*componentNode); ok {
				built.collect(ch)
			}
		}
		for kind, number := range count {
			ch <- prometheus.MustNewConstMetric(m.components, prometheus.GaugeValue, float64(number), inner.id, kind.String())
		}
	})
}
