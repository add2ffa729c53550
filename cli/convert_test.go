package cli

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestConvert: flags become a valid configuration with their values.
func TestConvert(t *testing.T) {
	for name, test := range map[string]struct {
		args, river, said []string
		code              int
	}{
		"OpenTelemetry": {
			args: []string{"/usr/bin/ebpf-profiler", "-collection-agent", "otel:4317", "-t=python,ruby", "-v",
				"-samples-per-second=99", "-disable-tls"},
			river: []string{"= 99\n", `= "5s"`, "hotspot_enabled ", "v8_enabled ", `level = "debug"`,
				`url = "http://p:4040"`},
			said: []string{"-collection-agent: Headwater pushes profiles to Pyroscope",
				"-t: Headwater does not name functions of ruby", "-disable-tls: "},
		},
		"its defaults": {args: []string{"ebpf-profiler"}, river: []string{"= 20\n"}},
		"Parca": {
			args: []string{"parca-agent", "--node=web1", "--metadata-external-labels=region=eu;zone=a", "--log-level", "warn",
				"--metadata-disable-thread-id-label", "--off-cpu-threshold=0.1", "--debuginfo-upload-disable"},
			river: []string{`"node"   = "web1"`, `"region" = "eu"`, `"zone"   = "a"`, `level = "warn"`, "= 19\n",
				"thread_name_label", "off_cpu_threshold = 0.1"},
		},
		"its defaults, too": {args: []string{"parca-agent"}, river: []string{"constants.hostname", "thread_id_label"}},
		"probes": {
			args: []string{"ebpf-profiler", "-probe-link=uprobe:/bin/bash:readline", "-probe-link", "kprobe:vfs_read",
				"-probe-link=/lib/libc.so.6:malloc", "-load-probe"},
			river: []string{
				`probe_links      = ["uprobe:/bin/bash:readline", "kprobe:vfs_read", "uprobe:/lib/libc.so.6:malloc"]`,
			},
			said: []string{"-load-probe: probe_links of pyroscope.ebpf attaches probes itself"},
		},
		"file of probes": {
			args: []string{"parca-agent", "--probe-config-file=p.yaml"}, river: []string{"= 19\n"},
			said: []string{"-probe-config-file: write its probes as probe_links of pyroscope.ebpf"},
		},
		"unknown": {
			args: []string{"parca-agent", "--nodes=web1", "--new", "7", "--node=a"}, river: []string{`"node" = "a"`}, code: 1,
			said: []string{"--nodes=web1: headwater convert does not know this flag",
				"--new: headwater convert does not know this flag",
				"2 flags are not known"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "c.river")
			args := append([]string{"convert", "--server", "http://p:4040", "--"}, test.args...)
			stdout, stderr, code := call(t, args...)
			require.Equal(t, test.code, code, stderr)
			for _, want := range test.river {
				require.Contains(t, stdout, want)
			}
			for _, want := range test.said {
				require.Contains(t, stderr, want)
			}
			args = append([]string{"convert", "-o", path, "--"}, test.args...)
			_, _, code = call(t, args...)
			require.Equal(t, test.code, code)
			_, stderr, code = call(t, "validate", path)
			require.Equal(t, 0, code, stderr)
			_, stderr, code = call(t, "fmt", "-t", path)
			require.Equal(t, 0, code, stderr)
		})
	}
}

func TestConvertFile(t *testing.T) {
	shared := "pyroscope.ebpf \"a\" {\n\tforward_to = []\n\tsample_rate = 19\n}\n"
	path := writeConfig(t, shared)
	stdout, stderr, code := call(t, "convert", path)
	require.Equal(t, 0, code, stderr)
	require.Equal(t, shared, stdout)
	require.Contains(t, stderr, "runs unchanged")
	path = writeConfig(t, shared+"loki.write \"b\" { }\n")
	stdout, stderr, code = call(t, "convert", path)
	require.Equal(t, 1, code)
	require.Empty(t, stdout)
	require.Contains(t, stderr, "loki.write")
	require.Contains(t, stderr, "Headwater cannot run")
}

// TestConvertProfilingOnly: convert writes the part that makes profiles unchanged, and lists the blocks left out.
func TestConvertProfilingOnly(t *testing.T) {
	const profiles = "pyroscope.ebpf \"a\" {\n\tforward_to = [pyroscope.write.b.receiver]\n}\n\n" +
		"// Where profiles go.\npyroscope.write \"b\" {\n\tendpoint {\n\t\turl = \"http://p:4040\"\n\t}\n}\n"
	const metrics = "// All pods.\ndiscovery.kubernetes \"pods\" {\n\trole = \"pod\"\n}\n\nprometheus.scrape \"c\" {\n" +
		"\ttargets    = discovery.kubernetes.pods.targets\n\tforward_to = []\n}\n\n"
	path := writeConfig(t, metrics+profiles)
	stdout, stderr, code := call(t, "convert", "--profiling-only", path)
	require.Equal(t, 0, code, stderr)
	require.Equal(t, profiles, stdout)
	require.Contains(t, stderr, ": discovery.kubernetes: 1 (line 2)\n")
	require.Contains(t, stderr, ": prometheus.scrape: 1 (line 6)\n")
	stdout, stderr, code = call(t, "validate", "--profiling-only", path)
	require.Equal(t, 0, code, stderr)
	require.Contains(t, stdout, ": prometheus.scrape: 1 (line 6)\n")
	_, stderr, code = call(t, "validate", path)
	require.Equal(t, 1, code)
	require.Contains(t, stderr, "--profiling-only")
}

const collector = `receivers:
  otlp:
  profiling:
    SamplesPerSecond: 50
    reporter_interval: 10s
    tracers: [python, php]
    off_cpu_threshold: 0.2
    probe_links: ["uprobe:/bin/bash:readline", "kprobe:vfs_read"]
    send_error_frames: false
exporters:
  debug: {verbosity: normal}
service:
  pipelines:
    profiles: {receivers: [profiling], exporters: [debug]}
`

// TestConvertCollector: the receiver's values are kept, and keys without an equivalent are reported with their line.
func TestConvertCollector(t *testing.T) {
	dir := t.TempDir()
	file, made := filepath.Join(dir, "c.yaml"), filepath.Join(dir, "c.river")
	write := func(text string) { require.NoError(t, os.WriteFile(file, []byte(text), 0o600)) }
	write(collector)
	_, stderr, code := call(t, "convert", "-o", made, "--server", "http://p:4040", file)
	require.Equal(t, 0, code, stderr)
	require.Equal(t, []string{
		file + ":2: otlp: only the receiver profiling is converted; leave this receiver to the collector",
		file + ":6: tracers: Headwater does not name functions of php",
		file + ":11: debug: Headwater pushes profiles to Pyroscope, not to OTLP or Parca; --server names it",
	}, strings.Split(strings.TrimSpace(stderr), "\n"))
	river, err := os.ReadFile(made)
	require.NoError(t, err)
	for _, want := range []string{"= 50\n", `= "10s"`, "= 0.2\n", "hotspot_enabled ", "v8_enabled ",
		`["uprobe:/bin/bash:readline", "kprobe:vfs_read"]`,
		`url = "http://p:4040"`} {
		require.Contains(t, string(river), want)
	}
	require.NotContains(t, string(river), "python_enabled")
	_, stderr, code = call(t, "validate", made)
	require.Equal(t, 0, code, stderr)

	write(strings.Replace(collector, "tracers:", "tracer:", 1))
	_, stderr, code = call(t, "convert", file)
	require.Equal(t, 1, code)
	require.Contains(t, stderr, file+":6: tracer: headwater convert does not know this key of the receiver")
	require.Contains(t, stderr, "1 key is not known")

	for text, want := range map[string]string{
		strings.Replace(collector, "50", "${env:RATE}", 1):     `:4: SamplesPerSecond: "${env:RATE}" is not a rate`,
		strings.Replace(collector, "10s", "{}", 1):             ":5: reporter_interval: want a value or a list",
		strings.Replace(collector, "otlp:", "profiling/b:", 1): ":3: profiling: line 2 has a receiver profiling already",
		"receivers: {otlp: {}}":                                "has no receiver profiling",
		"# rules\nrelabel_configs: []":                         ":2: relabel_configs: this is a configuration of parca-agent",
		"server: {}\nscrape_configs: []":                       ":2: scrape_configs: this is a configuration for scraping",
		"metrics: {}":                                          ":1: metrics: this is a configuration of Grafana Agent",
		"a: [":                                                 "c.yaml: yaml: line 1",
		"":                                                     "is not a configuration",
	} {
		write(text)
		stdout, stderr, code := call(t, "convert", file)
		require.Equal(t, 2, code, text)
		require.Empty(t, stdout)
		require.Contains(t, stderr, want)
	}
}

func TestConvertRefuses(t *testing.T) {
	for want, args := range map[string][]string{
		"requires at least 1 argument":      {},
		`unknown program "perf"`:            {"--", "perf"},
		`"record" is no flag`:               {"--", "parca-agent", "record"},
		"-samples-per-second needs a value": {"--", "ebpf-profiler", "-samples-per-second"},
		"-samples-per-second: \"0\" is not": {"--", "ebpf-profiler", "-samples-per-second=0"},
		"-reporter-interval: \"x\" is not":  {"--", "ebpf-profiler", "-reporter-interval=x"},
		`-tracers: unknown tracer "cobol"`:  {"--", "ebpf-profiler", "-tracers=cobol"},
		`"usb:x" is not a link of a probe`:  {"--", "ebpf-profiler", "-probe-link=usb:x"},
		`"region" is not a label`:           {"--", "parca-agent", "--metadata-external-labels=region"},
		"--server: ":                        {"--server", "p:4040", "--", "parca-agent"},
		"no such file":                      {"none.alloy"},
	} {
		_, stderr, code := call(t, append([]string{"convert"}, args...)...)
		require.Equal(t, 2, code, args)
		require.Contains(t, stderr, want)
	}
}
