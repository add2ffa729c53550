package river

import (
	"fmt"
	"slices"
	"strings"

	"github.com/headwater/headwater/component"
)

// elsewhere lists the components of Alloy and of the Grafana Agent, as of 2026, that Headwater does
// not have: one line for each prefix, with the last words of the names.
const elsewhere = `beyla: ebpf
database_observability: mysql postgres sql_server
discovery: aws azure consul consulagent digitalocean ec2 eureka gce hetzner ionos kubelet kuma lightsail linode
discovery: marathon nerve nomad openstack ovhcloud puppetdb scaleway serverset triton uyuni
faro: receiver
loki: echo enrich process relabel secretfilter write
loki.rules: kubernetes
loki.source: api awsfirehose azure_event_hubs cloudflare docker file gcplog gelf heroku journal kafka kubernetes
loki.source: kubernetes_events podlogs syslog windowsevent
mimir.alerts: kubernetes
mimir.rules: kubernetes
otelcol.auth: basic bearer google headers oauth2 sigv4
otelcol.connector: count host_info servicegraph signaltometrics spanlogs spanmetrics
otelcol.exporter: awss3 datadog debug faro file googlecloud googlecloudpubsub kafka loadbalancing logging loki
otelcol.exporter: prometheus splunkhec syslog
otelcol.extension: jaeger_remote_sampling
otelcol.processor: attributes batch cumulativetodelta deltatocumulative discovery filter groupbyattrs interval
otelcol.processor: k8sattributes memory_limiter metric_start_time probabilistic_sampler redaction resourcedetection
otelcol.processor: span tail_sampling transform
otelcol.receiver: awscloudwatch awsecscontainermetrics awss3 cloudflare datadog faro file_stats filelog fluentforward
otelcol.receiver: googlecloudpubsub influxdb jaeger kafka loki nginx opencensus otlp prometheus solace splunkhec
otelcol.receiver: syslog tcplog vcenter zipkin
otelcol.storage: file
prometheus: echo enrich receive_http relabel remote_write scrape
prometheus.exporter: apache azure blackbox cadvisor catchpoint cloudwatch consul databricks dnsmasq elasticsearch gcp
prometheus.exporter: github kafka memcached mongodb mssql mysql oracledb postgres process redis self snmp snowflake
prometheus.exporter: squid static statsd unix vsphere windows
prometheus.operator: podmonitors probes scrapeconfigs servicemonitors
remote: s3 vault`

// isElsewhere reports whether a name is in elsewhere.
func isElsewhere(name string) bool {
	dot := strings.LastIndexByte(name, '.')
	if dot < 0 {
		return false
	}
	for line := range strings.Lines(elsewhere) {
		prefix, words, _ := strings.Cut(line, ": ")
		if prefix == name[:dot] && slices.Contains(strings.Fields(words), name[dot+1:]) {
			return true
		}
	}
	return false
}

// families are the first words of the names of components for metrics, logs and traces.
const families = "beyla database_observability faro loki mimir otelcol prometheus"

// isStranger reports whether a component of Alloy is not part of Headwater. A component that makes profiles is none:
// a configuration for profiles cannot do without it.
func isStranger(name string, registry component.Registry) bool {
	if _, found := registry.Get(name); found || strings.HasPrefix(name, profilingPrefix) {
		return false
	}
	if isElsewhere(name) {
		return true
	}
	family, _, dotted := strings.Cut(name, ".")
	return dotted && slices.Contains(strings.Fields(families), family) &&
		nearest(name, slices.Values(registry.Names())) == ""
}

// servesProfiles reports whether a component that Headwater does not have may serve one that makes profiles.
func servesProfiles(name string) bool {
	family, _, _ := strings.Cut(name, ".")
	return family == "discovery" || family == "remote"
}

// instead suggests a replacement for a component that Headwater does not have.
func instead(name string) string {
	kind, _, _ := strings.Cut(name, ".")
	switch {
	case name == "beyla.ebpf":
		return "Headwater makes profiles, not metrics or traces: run Alloy next to it for those"
	case kind == "discovery":
		return "find these targets by discovery.http, .file, .dns, .kubernetes or .process"
	case kind == "remote":
		return "read the value by remote.http, remote.git or local.file"
	case kind == "otelcol":
		return "of otelcol, Headwater has the exporters otlp and otlphttp, for its own traces; run Alloy next to it for more"
	default:
		return "Headwater makes profiles, and serves its own metrics on /metrics: run Alloy next to it for the rest"
	}
}

// unknownComponent returns the error message for a component name that is not among the known ones,
// with a suggestion.
func unknownComponent(name string, known []string) string {
	message := fmt.Sprintf("cannot retrieve the definition of component name %q", name)
	if isElsewhere(name) {
		return message + ": this component of Alloy is not part of Headwater; " + instead(name)
	}
	// Until version 0.36 of the Agent, Pyroscope was called Phlare.
	if rest, old := strings.CutPrefix(name, "phlare."); old && slices.Contains(known, "pyroscope."+rest) {
		return message + fmt.Sprintf(": its name is pyroscope.%s now", rest)
	}
	if meant := nearest(name, slices.Values(known)); meant != "" {
		return message + fmt.Sprintf(", did you mean %q?", meant)
	}
	return message
}
