package docs

import (
	"io"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/require"

	"github.com/headwater/headwater/component"
	"github.com/headwater/headwater/river"
)

// everyMetric is a configuration that builds each component with its own metrics. No component runs.
const everyMetric = `
pyroscope.ebpf "x" { forward_to = [] }
pyroscope.write "x" {
	endpoint { url = "http://127.0.0.1:1" }
}
pyroscope.relabel "x" { forward_to = [] }
pyroscope.receive_http "x" {
	forward_to = []
	http { listen_address = "127.0.0.1" }
}
otelcol.exporter.otlphttp "x" {
	client { endpoint = "http://127.0.0.1:1" }
}
`

// described keeps the descriptions of all metrics that are registered.
type described struct {
	prometheus.Registerer
	mu    sync.Mutex
	descs map[string]metric
}

// metric is what a description says.
type metric struct{ name, labels, help string }

func (d *described) Register(c prometheus.Collector) error {
	ch := make(chan *prometheus.Desc, 100)
	go func() {
		c.Describe(ch)
		close(ch)
	}()
	for desc := range ch {
		d.add(desc.String())
	}
	return nil
}

// MustRegister implements prometheus.Registerer.
func (d *described) MustRegister(all ...prometheus.Collector) {
	for _, c := range all {
		_ = d.Register(c) // returns nil
	}
}

// Unregister implements prometheus.Registerer.
func (d *described) Unregister(prometheus.Collector) bool { return true }

// descText is how client_golang writes a description.
var descText = regexp.MustCompile(`^Desc\{fqName: "([^"]*)", help: "((?:[^"\\]|\\.)*)", ` +
	`(?:unit: "[^"]*", )?constLabels: \{.*\}, variableLabels: \{(.*)\}\}$`)

func (d *described) add(text string) {
	parts := descText.FindStringSubmatch(text)
	if parts == nil {
		panic("a description that is not understood: " + text)
	}
	var labels []string
	for label := range strings.SplitSeq(parts[3], ",") {
		if label != "" {
			labels = append(labels, "`"+label+"`")
		}
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	d.descs[parts[1]] = metric{parts[1], strings.Join(labels, ", "), parts[2]}
}

// registeringWith returns all components, which register their metrics with r.
func registeringWith(t testing.TB, r prometheus.Registerer) component.Registry {
	t.Helper()
	return builtBy(t, func(registration component.Registration) build {
		return func(opts component.Options, args component.Arguments) (component.Component, error) {
			opts.Registerer = r
			return registration.Build(opts, args)
		}
	})
}

// TestMetrics: the page of metrics has the names and labels that the code registers.
func TestMetrics(t *testing.T) {
	d := &described{descs: map[string]metric{}}
	registry := registeringWith(t, d)
	runtime := river.New(river.Options{Registry: registry, Logger: river.NewLogger(io.Discard), DataPath: t.TempDir(),
		Registerer: d})
	source, err := river.Parse(map[string][]byte{"x.river": []byte(everyMetric)})
	require.NoError(t, err)
	require.NoError(t, runtime.Load(source))

	groups := map[string]string{
		"pyroscope_ebpf_": "pyroscope.ebpf", "pyroscope_write_": "pyroscope.write",
		"pyroscope_relabel_":      "pyroscope.relabel",
		"pyroscope_receive_http_": "pyroscope.receive_http", "otelcol_": "otelcol.exporter", "agent_": "runtime",
	}
	tables := map[string][]metric{}
	for name, m := range d.descs {
		group := "every component that forwards profiles"
		for prefix, g := range groups {
			if strings.HasPrefix(name, prefix) {
				group = g
			}
		}
		tables[group] = append(tables[group], m)
	}
	require.Len(t, tables, len(groups)+1)
	for group, metrics := range tables {
		slices.SortFunc(metrics, func(a, b metric) int { return strings.Compare(a.name, b.name) })
		text := row("metric", "labels", "meaning") + "|---|---|---|\n"
		for _, m := range metrics {
			text += row("`"+m.name+"`", m.labels, m.help)
		}
		requireFacts(t, "docs/reference/metrics.md", "metrics of "+group, text)
	}
}

// TestMetricNames: every metric that a document mentions exists.
func TestMetricNames(t *testing.T) {
	known := map[string]bool{}
	for _, table := range readDocument(t, "docs/reference/metrics.md").tables() {
		for _, row := range table.rows {
			known[strings.Trim(row[0], "`")] = true
		}
	}
	name := regexp.MustCompile(`\bpyroscope_(ebpf|write|relabel|receive_http)_[a-z_]+[a-z]`)
	for _, d := range documents(t) {
		if d.path == "CHANGELOG.md" {
			continue
		}
		for _, l := range d.lines {
			for _, found := range name.FindAllString(l.text, -1) {
				require.True(t, known[found], "%s:%d: there is no metric %s", d.path, l.number, found)
			}
		}
	}
}
