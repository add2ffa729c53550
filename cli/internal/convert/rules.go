package convert

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/headwater/headwater/ebpf/source/probe"
)

// Notes for several flags.
const (
	noOTLP      = "Headwater pushes profiles to Pyroscope, not to OTLP or Parca; --server names it"
	noChance    = "Headwater profiles the host all the time; a lower sample_rate costs less"
	ownServer   = "the server differs: set its TLS and authentication in the endpoint of pyroscope.write"
	noVariables = "Headwater adds no variables of the environment to profiles"
)

// otelProgram are the flags of opentelemetry-ebpf-profiler.
func otelProgram() program {
	flags := map[string]rule{
		"samples-per-second": {set: setRate}, "reporter-interval": {set: setInterval},
		"tracers": {set: setTracers}, "t": {set: setTracers},
		"collection-agent": {note: noOTLP}, "disable-tls": {bare: true, note: ownServer},
		"verbose": {bare: true, set: setVerbose}, "v": {bare: true, set: setVerbose},
		"off-cpu-threshold": {set: setOffCPU}, "probe-link": {set: addProbes},
		"probabilistic-threshold": {note: noChance}, "probabilistic-interval": {note: noChance},
		"env-vars":               {note: noVariables},
		"pprof":                  {note: "headwater run serves its own profiles at --server.http.listen-addr"},
		"filter-min-process-age": {note: "Headwater profiles processes from their start on"},
		"pin-cpu-ids":            {note: "Headwater profiles all CPUs"},
		"send-error-frames":      {bare: true, note: "the root frame of an incomplete stack always gives the reason"},
		"send-idle-frames":       {bare: true, note: "Headwater does not sample idle CPUs"},
		"config":                 {note: "also convert this file: headwater convert FILE"},
		"load-probe":             {bare: true, note: "probe_links of pyroscope.ebpf attaches probes itself"},
	}
	ignore(flags, false, "bpf-log-level", "frame-cache-size", "map-scale-factor", "monitor-interval",
		"clock-sync-interval", "reporter-jitter", "bpffs-root", "bpf-verifier-log-level", "error-mode",
		"go-labels-map-scale-factor", "max-grpc-retries", "max-rpc-msg-size")
	ignore(flags, true, "no-kernel-version-check", "obi-process-ctx", "copyright", "version")
	return program{func() settings { return settings{rate: 20, interval: 5 * time.Second} }, flags}
}

// parca are the flags of parca-agent.
func parca() program {
	flags := map[string]rule{
		"profiling-cpu-sampling-frequency": {set: setRate}, "profiling-duration": {set: setInterval},
		"tracers": {set: setTracers}, "node": {set: setNode}, "metadata-external-labels": {set: setLabels},
		"log-level": {set: setLogging("level")}, "log-format": {set: setLogging("format")},
		"metadata-disable-thread-id-label":   {bare: true, set: dropThread("thread_id_label")},
		"metadata-disable-thread-comm-label": {bare: true, set: dropThread("thread_name_label")},
		"off-cpu-threshold":                  {set: setOffCPU},
		"profiling-probabilistic-threshold":  {note: noChance}, "profiling-probabilistic-interval": {note: noChance},
		"remote-store-address": {note: noOTLP}, "otlp-address": {note: noOTLP}, "otlp-exporter": {note: noOTLP},
		"remote-store-bearer-token": {note: ownServer}, "remote-store-bearer-token-file": {note: ownServer},
		"remote-store-insecure":             {bare: true, note: ownServer},
		"remote-store-insecure-skip-verify": {bare: true, note: ownServer},
		"remote-store-client-cert":          {note: ownServer}, "remote-store-client-key": {note: ownServer},
		"remote-store-grpc-headers": {note: ownServer},
		"http-address":              {note: "set the address with headwater run --server.http.listen-addr"},
		"config-path":               {note: "write relabel_configs as rules of discovery.relabel"},
		"include-env-var":           {note: noVariables},
		"probe-config-file":         {note: "write its probes as probe_links of pyroscope.ebpf"},
		"offline-mode-storage-path": {note: "headwater record writes profiles to files, without a server"},
		"local-store-directory":     {note: "headwater record writes profiles to files"},
		"debuginfo-directories":     {note: "Headwater looks for debug files in /usr/lib/debug"},
		"enable-oom-prof":           {bare: true, note: "the block heap of pyroscope.ebpf profiles memory in use"},
		"metadata-container-runtime-socket-path": {
			note: "write a discovery.docker or discovery.kubernetes, which find containers",
		},
	}
	ignore(flags, false, "memlock-rlimit", "clock-sync-interval", "profiling-label-ttl", "debuginfo-temp-dir",
		"debuginfo-upload-max-parallel", "debuginfo-upload-timeout-duration", "debuginfo-upload-cache-duration",
		"debuginfo-upload-queue-size", "bpf-map-scale-factor", "bpf-verifier-log-level", "bpf-events-buffer-size",
		"mutex-profile-fraction", "block-profile-rate")
	ignore(flags, true, "version", "debuginfo-upload-disable", "debuginfo-strip", "debuginfo-compress",
		"analytics-opt-out", "bpf-verbose-logging", "metadata-disable-cpu-label", "metadata-disable-caching",
		"telemetry-disable-panic-reporting", "use-v2-schema", "instrument-cuda-launch")
	return program{func() settings {
		return settings{
			rate: 19, interval: 5 * time.Second, threads: []string{"thread_id_label", "thread_name_label"},
			labels: map[string]string{"node": "constants.hostname"},
		}
	}, flags}
}

// ignore adds flags that need neither a setting nor a note.
func ignore(flags map[string]rule, bare bool, names ...string) {
	for _, name := range names {
		flags[name] = rule{bare: bare}
	}
}

func setRate(s *settings, value string) (err error) {
	s.rate, err = strconv.Atoi(value)
	if err != nil || s.rate < 1 || s.rate > 10_000 {
		return fmt.Errorf("%q is not a rate from 1 to 10000", value)
	}
	return nil
}

func setInterval(s *settings, value string) (err error) {
	s.interval, err = time.ParseDuration(value)
	if err != nil || s.interval <= 0 {
		return fmt.Errorf("%q is not a duration such as 5s", value)
	}
	return nil
}

// setTracers turns off the languages that value does not list.
func setTracers(s *settings, value string) error {
	here := map[string]string{"python": "python_enabled", "hotspot": "hotspot_enabled", "v8": "v8_enabled"}
	elsewhere := []string{"perl", "php", "ruby", "dotnet", "beam"}
	s.languages = map[string]bool{}
	for _, argument := range here {
		s.languages[argument] = true
	}
	for name := range strings.SplitSeq(value, ",") {
		switch name = strings.ToLower(strings.TrimSpace(name)); {
		case name == "all":
			s.languages = nil
			return nil
		case here[name] != "":
			delete(s.languages, here[name])
		case strings.Contains(" "+strings.Join(elsewhere, " ")+" ", " "+name+" "):
			s.addNote("Headwater does not name functions of " + name)
		case name == "native", name == "go", name == "labels", name == "": // always on, or no stacks
		default:
			return fmt.Errorf("unknown tracer %q", name)
		}
	}
	return nil
}

func setOffCPU(s *settings, value string) error {
	share, err := strconv.ParseFloat(value, 64)
	if err != nil {
		return fmt.Errorf("%q is not a number", value)
	}
	if share > 0 {
		s.offCPU = strconv.FormatFloat(min(share, 1), 'f', -1, 64)
	}
	return nil
}

// addProbes adds links that are separated by commas. Earlier versions had links of uprobes only, without their type.
func addProbes(s *settings, value string) error {
	for link := range strings.SplitSeq(value, ",") {
		link = strings.TrimSpace(link)
		if strings.HasPrefix(link, "/") {
			link = "uprobe:" + link
		}
		if link == "" || slices.Contains(s.probes, link) {
			continue
		}
		if _, err := probe.Parse(link); err != nil {
			return fmt.Errorf("%q is not a link of a probe: %w", link, err)
		}
		s.probes = append(s.probes, link)
	}
	return nil
}

func setVerbose(s *settings, value string) error {
	if value == "true" {
		s.logging = map[string]string{"level": "debug"}
	}
	return nil
}

func setNode(s *settings, value string) error {
	s.labels["node"] = strconv.Quote(value)
	return nil
}

// setLabels parses a=b;c=d.
func setLabels(s *settings, value string) error {
	for pair := range strings.SplitSeq(value, ";") {
		label, text, ok := strings.Cut(pair, "=")
		if !ok || label == "" {
			return fmt.Errorf("%q is not a label such as region=eu", pair)
		}
		s.labels[label] = strconv.Quote(text)
	}
	return nil
}

func setLogging(argument string) func(*settings, string) error {
	return func(s *settings, value string) error {
		if s.logging == nil {
			s.logging = map[string]string{}
		}
		s.logging[argument] = value
		return nil
	}
}

func dropThread(argument string) func(*settings, string) error {
	return func(s *settings, value string) error {
		var kept []string
		for _, other := range s.threads {
			if other != argument || value == "false" {
				kept = append(kept, other)
			}
		}
		s.threads = kept
		return nil
	}
}
