package ebpf

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"
	"github.com/prometheus/common/expfmt"
	"github.com/stretchr/testify/require"

	"github.com/headwater/headwater/ebpf"
	"github.com/headwater/headwater/flame/server"
)

// metricsText returns the named metrics as a scraper sees them.
func metricsText(t testing.TB, registry *prometheus.Registry, names ...string) string {
	t.Helper()
	families, err := registry.Gather()
	require.NoError(t, err)
	var text strings.Builder
	for _, family := range families {
		if slices.Contains(names, family.GetName()) {
			_, err := expfmt.MetricFamilyToText(&text, family)
			require.NoError(t, err)
		}
	}
	return text.String()
}

// valueOf returns the value of a counter or gauge.
func valueOf(t testing.TB, m prometheus.Metric) float64 {
	t.Helper()
	var out dto.Metric
	require.NoError(t, m.Write(&out))
	return out.GetCounter().GetValue() + out.GetGauge().GetValue()
}

func countSeries(c prometheus.Collector) int {
	found := make(chan prometheus.Metric, 2*maxServices)
	c.Collect(found)
	return len(found)
}

// knownSymbols returns the metric of that name.
func knownSymbols(t testing.TB, m *serviceMetrics) *prometheus.CounterVec {
	t.Helper()
	for _, c := range m.symbols {
		if c.Name == "pyroscope_symtab_known_symbols_total" {
			return c.vector
		}
	}
	t.Fatal("there is no such metric")
	return nil
}

func TestMetrics(t *testing.T) {
	registry := prometheus.NewRegistry()
	m, err := newMetrics(registry, new(server.Page).Changes)
	require.NoError(t, err)
	m.count(func(n *counts) { n.targets, n.rounds = 3, 1 })
	m.addProfile("a", 100, 7)
	m.addProfile("a", 50, 3)
	s := &fakeSession{collects: 4}
	past := ebpf.Stats{
		SamplerStats: ebpf.SamplerStats{Expected: 1000},
		ProfileStats: ebpf.ProfileStats{Outcomes: map[string]uint64{"no_row": 100, "depth_limit": 1}},
	}
	m.observe(s.Stats(), past, time.Now())

	want := `# HELP pyroscope_ebpf_active_targets Targets that name a process or a container.
# TYPE pyroscope_ebpf_active_targets gauge
pyroscope_ebpf_active_targets 3
# HELP pyroscope_ebpf_pprof_bytes_total Compressed size of the profiles made.
# TYPE pyroscope_ebpf_pprof_bytes_total counter
pyroscope_ebpf_pprof_bytes_total{service_name="a"} 150
# HELP pyroscope_ebpf_samples_expected_total Samples that were due: busy time of CPUs divided by the sampling period.
# TYPE pyroscope_ebpf_samples_expected_total counter
pyroscope_ebpf_samples_expected_total 1040
# HELP pyroscope_ebpf_samples_total Samples by outcome of the unwinding of their user stack.
# TYPE pyroscope_ebpf_samples_total counter
pyroscope_ebpf_samples_total{outcome="complete"} 12
pyroscope_ebpf_samples_total{outcome="depth_limit"} 1
pyroscope_ebpf_samples_total{outcome="no_row"} 104
# HELP pyroscope_ebpf_unwind_table_bytes Kernel memory of the unwind tables, used or not.
# TYPE pyroscope_ebpf_unwind_table_bytes gauge
pyroscope_ebpf_unwind_table_bytes 4096
# HELP pyroscope_symtab_known_symbols_total Frames that were named.
# TYPE pyroscope_symtab_known_symbols_total counter
pyroscope_symtab_known_symbols_total{service_name="svc"} 28
`
	require.Equal(t, want, metricsText(t, registry,
		"pyroscope_ebpf_active_targets", "pyroscope_ebpf_pprof_bytes_total", "pyroscope_ebpf_samples_expected_total",
		"pyroscope_ebpf_samples_total", "pyroscope_ebpf_unwind_table_bytes", "pyroscope_symtab_known_symbols_total"))

	_, err = newMetrics(registry, new(server.Page).Changes)
	require.Error(t, err, "a second component with the same registerer")
}

// known are figures of a session that has named frames of a service.
func known(service string, frames uint64) ebpf.Stats {
	return ebpf.Stats{ProfileStats: ebpf.ProfileStats{KnownSymbols: map[string]uint64{service: frames}}}
}

func TestServiceSeriesAreRemovedAndBounded(t *testing.T) {
	m := newServiceMetrics()
	now := time.Now()
	m.addProfile("gone", 1, 1)
	m.observe(known("gone", 5), now)
	require.Equal(t, 1, countSeries(m.pprofs))
	m.observe(known("gone", 5), now.Add(serviceIdle))
	require.Zero(t, countSeries(m.pprofs))
	require.Zero(t, countSeries(knownSymbols(t, m)))

	for i := range 2 * maxServices {
		m.addProfile(fmt.Sprint("service-", i), 1, 1)
	}
	require.LessOrEqual(t, countSeries(m.pprofs), maxServices+1)
	require.EqualValues(t, maxServices, valueOf(t, m.pprofs.WithLabelValues(otherServices)))
	m.addProfile("bad\xff", 1, 1)
}

func TestCountersGoOnInANewSession(t *testing.T) {
	m := newServiceMetrics()
	m.observe(known("a", 5), time.Now())
	m.newSession()
	m.observe(known("a", 7), time.Now())
	require.EqualValues(t, 12, valueOf(t, knownSymbols(t, m).WithLabelValues("a")))
}
