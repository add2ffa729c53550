package rig

import (
	"strconv"
	"strings"
	"testing"
)

// Metrics are all metrics of headwater at one moment, in Prometheus' text format.
type Metrics string

// Metrics reads the metrics.
func (h *Headwater) Metrics(t testing.TB) Metrics {
	t.Helper()
	_, body := h.Get(t, "/metrics")
	return Metrics(body)
}

// Metric is [Metrics.Sum] of the metrics now.
func (h *Headwater) Metric(t testing.TB, name string, labels ...string) float64 {
	t.Helper()
	return h.Metrics(t).Sum(t, name, labels...)
}

// Sum returns the sum of a metric's values over the series whose labels hold all the given
// text, such as `component_id="pyroscope.ebpf.host"`. A metric that is not there is zero.
func (m Metrics) Sum(t testing.TB, name string, labels ...string) float64 {
	t.Helper()
	sum := 0.0
	for line := range strings.Lines(string(m)) {
		series, text, ok := strings.Cut(strings.TrimSpace(line), "} ")
		if !ok {
			series, text, _ = strings.Cut(strings.TrimSpace(line), " ")
		}
		metric, pairs, _ := strings.Cut(series, "{")
		if metric != name || !containsAll(pairs, labels) {
			continue
		}
		value, err := strconv.ParseFloat(text, 64)
		if err != nil {
			t.Fatalf("metric %q: %v", line, err)
		}
		sum += value
	}
	return sum
}

func containsAll(text string, parts []string) bool {
	for _, part := range parts {
		if !strings.Contains(text, part) {
			return false
		}
	}
	return true
}
