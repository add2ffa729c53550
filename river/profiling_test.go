package river

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// profilingHost is a host that runs only the part of a configuration that makes profiles.
func profilingHost(t *testing.T) *host {
	h := newHost(t)
	h.options.Registerer, h.options.ProfilingOnly = nil, true
	h.Runtime = New(h.options)
	return h
}

// leftOut returns the kinds left out, with the numbers and lines of each.
func (h *host) leftOut() map[string]string {
	found := map[string]string{}
	for _, f := range h.Findings() {
		if f.Kind == FindingLeftOut {
			found[f.Subject] = f.Text
		}
	}
	return found
}

func (h *host) ids() (ids []string) {
	h.root.walkModules(func(m *module) {
		for _, n := range m.graph.Load().instances() {
			ids = append(ids, m.globalID(n.id()))
		}
	})
	return ids
}

const mixed = `logging {
	level    = "debug"
	write_to = [loki.process.own.receiver]
}

// What both need.
test.value "shared" { in = "x" }

// For metrics alone.
test.value "metrics" { in = "y" }

prometheus.scrape "a" {
	targets    = [test.value.metrics.out, test.value.shared.out]
	forward_to = [prometheus.remote_write.b.receiver]
}

prometheus.remote_write "b" { }
prometheus.scrape "c" {
	targets    = []
	forward_to = [prometheus.remote_write.b.receiver]
}
loki.process "own" { }
otelcol.receiver.brandnew "d" { }

pyroscope.sink "e" {
	in         = test.value.shared.out
	forward_to = [pyroscope.sink.f.receiver]
}
pyroscope.sink "f" { }
`

// Components for metrics and logs are left out, with what only serves them.
func TestProfilingOnly(t *testing.T) {
	h := profilingHost(t)
	require.NoError(t, h.load(mixed))
	require.Equal(t, []string{"test.value.shared", "pyroscope.sink.e", "pyroscope.sink.f"}, h.ids())
	require.Equal(t, map[string]string{
		"test.value":                "1 (line 10)",
		"prometheus.scrape":         "2 (lines 12, 18)",
		"prometheus.remote_write":   "1 (line 17)",
		"loki.process":              "1 (line 22)",
		"otelcol.receiver.brandnew": "1 (line 23)",
	}, h.leftOut())
	require.Contains(t, h.log.String(), "left out")
	require.Equal(t, `logging {
	level    = "debug"
}

// What both need.
test.value "shared" { in = "x" }

pyroscope.sink "e" {
	in         = test.value.shared.out
	forward_to = [pyroscope.sink.f.receiver]
}
pyroscope.sink "f" { }
`, string(h.ProfilingText("c.river", []byte(mixed))))
	require.NoError(t, newHost(t).load(string(h.ProfilingText("c.river", []byte(mixed)))))
}

// Without the flag there is one error.
func TestMixedIsRefusedOnce(t *testing.T) {
	require.Equal(t, `Error: c.river:12:1: Headwater does not have 5 components of Alloy that this configuration has:
  loki.process: 1 (line 22)
  otelcol.receiver.brandnew: 1 (line 23)
  prometheus.remote_write: 1 (line 17)
  prometheus.scrape: 2 (lines 12, 18)
Headwater makes profiles. The flag --profiling-only leaves out what has no part in that. `+
		`To run all of it, run Alloy, with Headwater's pyroscope.ebpf in it or next to it

11 | 
12 | prometheus.scrape "a" {
   | ^^^^^^^^^^^^^^^^^
13 |     targets    = [test.value.metrics.out, test.value.shared.out]
`, printed(t, newHost(t).load(mixed)))
}

// A profiling component that needs what is left out is an error with both places.
func TestProfilingNeedsStranger(t *testing.T) {
	for text, want := range map[string]string{
		"discovery.ec2 \"d\" { }\npyroscope.sink \"e\" {\n\tin = discovery.ec2.d.targets\n}": "c.river:3:7: " +
			"pyroscope.sink.e needs discovery.ec2.d, declared at c.river:1:1, which Headwater does not have; find these targets",
		"discovery.ec2 \"d\" { }\ntest.value \"v\" { in = discovery.ec2.d.targets }\n" +
			"pyroscope.sink \"e\" { in = test.value.v.out }": "c.river:3:27: pyroscope.sink.e needs discovery.ec2.d",
		"loki.write \"w\" { }\ndeclare \"d\" {\n\targument \"x\" { }\n\tpyroscope.sink \"e\" { in = argument.x.value }\n}\n" +
			"d \"a\" { x = loki.write.w.receiver }": "c.river:6:13: d.a needs loki.write.w, declared at c.river:1:1",
		"declare \"d\" {\n\tloki.write \"w\" { }\n\texport \"x\" { value = loki.write.w.receiver }\n}\n" +
			"d \"a\" { }\npyroscope.sink \"e\" { in = d.a.x }": "" +
			"c.river:6:27: pyroscope.sink.e needs loki.write.w, declared at c.river:2:2",
		"pyroscope.snk \"j\" { }": `did you mean "pyroscope.sink"?`,
		"phlare.sink \"j\" { }":   `component name "phlare.sink": its name is pyroscope.sink now`,
	} {
		err := profilingHost(t).load(text)
		require.Error(t, err, text)
		require.Contains(t, printed(t, err), want, text)
	}
}

const library = `declare "metrics" {
	argument "to" { }
	prometheus.scrape "s" { forward_to = [argument.to.value] }
	export "x" { value = 1 }
}

declare "both" {
	argument "metrics_to" { }
	argument "in" { }
	prometheus.scrape "s" { forward_to = [argument.metrics_to.value] }
	pyroscope.sink "p" { in = argument.in.value }
	export "metrics" { value = prometheus.scrape.s.x }
	export "out" { value = pyroscope.sink.p.out }
}
`

// Modules are divided in the same way, wherever their text is.
func TestProfilingOnlyModules(t *testing.T) {
	const use = `prometheus.remote_write "b" { }
%metrics "m" { to = prometheus.remote_write.b.receiver }
%both "n" {
	metrics_to = prometheus.remote_write.b.receiver
	in         = "x"
}
pyroscope.sink "e" { in = %both.n.out }
`
	file := filepath.Join(t.TempDir(), "lib.alloy")
	require.NoError(t, os.WriteFile(file, []byte(library), 0o600))
	for prefix, head := range map[string]string{
		"":     library,
		"lib.": "import.string \"lib\" {\n\tcontent = `" + library + "`\n}\n",
	} {
		h := profilingHost(t)
		text := head + strings.ReplaceAll(use, "%", prefix)
		require.NoError(t, h.load(text))
		require.Equal(t, []string{prefix + "both.n", "pyroscope.sink.e", prefix + "both.n/pyroscope.sink.p"}, h.ids())
		if prefix != "" {
			continue
		}
		require.Equal(t, `declare "both" {
	argument "in" { }
	pyroscope.sink "p" { in = argument.in.value }
	export "out" { value = pyroscope.sink.p.out }
}
both "n" {
	in         = "x"
}
pyroscope.sink "e" { in = both.n.out }
`, string(h.ProfilingText("c.river", []byte(text))))
	}
}

// A module whose text is not known when the configuration is divided is divided when it is.
func TestProfilingOnlyLateModule(t *testing.T) {
	h := profilingHost(t)
	require.NoError(t, h.load("test.value \"text\" {\n\tin = `"+library+"`\n}\nimport.string \"lib\" {\n"+
		"\tcontent = test.value.text.out\n}\n"+
		"loki.write \"w\" { }\nlib.both \"n\" {\n\tmetrics_to = loki.write.w.receiver\n\tin = \"x\"\n}\n"+
		"lib.metrics \"m\" { to = loki.write.w.receiver }\n"+
		"pyroscope.sink \"e\" { in = lib.both.n.out }\n"))
	require.Equal(t, []string{"test.value.text", "lib.both.n", "lib.metrics.m", "pyroscope.sink.e",
		"lib.both.n/pyroscope.sink.p"},
		h.ids())
	require.Equal(t, "x", h.out("pyroscope.sink.e"))
}
