package hosts

// example is a file of testdata/gallery and what headwater does with it.
type example struct {
	file     string
	refused  []string // what the error says; none: it loads
	services []string // whose profiles have to arrive
	warns    string   // part of a warning that it has to give; "" for any
	// unhealthy is a part of the message of an unhealthy component on a kernel without the features that the example
	// needs.
	unhealthy string
	pages     []page // that show this example; empty: no page does
	nightly   bool   // make test runs another file that differs little
}

// page is a place in the public documentation or the examples of a project, in all
// its releases from one to another. rc is a release candidate; newest is the commit
// of 2026-08-21.
type page struct {
	project, from, to string
	path              string
	number            int // of the example on the page, from 1
}

const (
	agentPage     = "docs/sources/flow/reference/components/pyroscope.ebpf.md"
	alloyOldPage  = "docs/sources/reference/components/pyroscope.ebpf.md"
	alloyPage     = "docs/sources/reference/components/pyroscope/pyroscope.ebpf.md"
	alloyTools    = "internal/component/pyroscope/util/internal/configurations/"
	guideOfAgent  = "docs/sources/configure-client/grafana-agent/"
	guideOfAlloy  = "docs/sources/configure-client/grafana-alloy/ebpf/"
	agentExamples = "examples/grafana-agent-auto-instrumentation/ebpf/"
	alloyExamples = "examples/grafana-alloy-auto-instrumentation/ebpf/"
)

// gallery are the examples of pyroscope.ebpf in all releases of Grafana Agent from
// v0.36.0 to v0.44.8, of Alloy from v1.0.0 to v1.18.1 and v1.19.0-rc.3, and of
// Pyroscope from v1.0.0 to v2.2.1, and of the newest commits of Alloy and Pyroscope. The
// files show what the pages show, in other words.
var gallery = []example{
	{file: "usage.river", services: []string{"till"}, pages: []page{
		{"agent", "v0.36.0", "v0.44.8", agentPage, 1},
		{"alloy", "v1.0.0", "v1.2.0", alloyOldPage, 1},
		{"alloy", "v1.2.1", "newest", alloyPage, 1},
	}},
	{file: "kubernetes-names.river", nightly: true, services: []string{"pods-sales/till"}, pages: []page{
		{"agent", "v0.36.0", "v0.36.2", agentPage, 2},
	}},
	{file: "kubernetes.river", nightly: true, services: []string{"pods/sales/till"}, pages: []page{
		{"agent", "v0.37.0", "v0.44.8", agentPage, 2},
		{"alloy", "v1.0.0", "v1.2.0", alloyOldPage, 2},
		{"alloy", "v1.2.1", "v1.3.4", alloyPage, 2},
	}},
	{file: "kubernetes-sys-env.alloy", nightly: true, services: []string{"pods/sales/till"}, pages: []page{
		{"alloy", "v1.4.0", "v1.6.1", alloyPage, 2},
	}},
	{file: "kubernetes-unset-env.alloy", nightly: true, services: []string{"pods/sales/till"}, pages: []page{
		{"alloy", "v1.7.0", "v1.7.4", alloyPage, 2},
	}},
	{file: "kubernetes-node-label.alloy", services: []string{"pods/sales/till"}, pages: []page{
		{"alloy", "v1.7.5", "newest", alloyPage, 2},
	}},
	{file: "docker.river", services: []string{"/till"}, pages: []page{
		{"agent", "v0.36.0", "v0.44.8", agentPage, 3},
		{"alloy", "v1.0.0", "v1.2.0", alloyOldPage, 3},
		{"alloy", "v1.2.1", "newest", alloyPage, 3},
	}},
	{file: "probes.alloy", services: []string{"till"}, warns: "of probe_links is not attached",
		unhealthy: "this kernel has no kprobes", pages: []page{
			{"alloy", "v1.19.0-rc.3", "newest", alloyPage, 4},
		}},
	{file: "beyla.alloy", refused: []string{"Headwater does not have 1 component of Alloy"},
		pages: []page{
			{"alloy", "v1.19.0-rc.3", "newest", alloyPage, 5},
		}},
	{file: "all-processes.alloy", services: []string{"hwgallery"}, warns: "debug_info.upload", pages: []page{
		{"alloy", "v1.13.0", "newest", alloyTools + "ebpf.txt", 1},
	}},
	{file: "all-processes-proxy.alloy", nightly: true, services: []string{"hwgallery"}, warns: "debug_info.upload",
		pages: []page{
			{"alloy", "v1.13.0", "newest", alloyTools + "ebpf_proxy.txt", 1},
		}},

	{file: "kubernetes-plain.river", nightly: true, services: []string{"ebpf/sales/till"}, pages: []page{
		{"pyroscope", "v1.0.0", "v1.1.5", guideOfAgent + "ebpf.md", 1},
		{"pyroscope", "v1.2.0", "v1.2.1", guideOfAgent + "ebpf.md", 2},
		{"pyroscope", "v1.3.0", "v1.9.0", guideOfAgent + "ebpf/setup-kubernetes.md", 1},
		{"pyroscope", "v1.9.1", "newest", guideOfAlloy + "setup-kubernetes.md", 1},
	}},
	{file: "whole-host.river", nightly: true, services: []string{"this-host"}, pages: []page{
		{"pyroscope", "v1.0.0", "v1.3.0", "examples/ebpf/config.river", 1},
		{"pyroscope", "v1.2.0", "v1.2.1", guideOfAgent + "ebpf.md", 1},
	}},
	{file: "docker-plain.river", nightly: true, services: []string{"/till"}, pages: []page{
		{"pyroscope", "v1.3.0", "v1.9.0", guideOfAgent + "ebpf/setup-docker.md", 1},
		{"pyroscope", "v1.9.1", "newest", guideOfAlloy + "setup-docker.md", 1},
	}},
	{file: "whole-host-and-itself.river", services: []string{"this-host", "itself"}, pages: []page{
		{"pyroscope", "v1.3.0", "v1.3.0", guideOfAgent + "ebpf/setup-linux.md", 1},
	}},
	{file: "process-mistaken.river", refused: []string{`field "targets" does not exist`}, pages: []page{
		{"pyroscope", "v1.4.0", "v1.5.0", guideOfAgent + "ebpf/setup-linux.md", 1},
	}},
	{file: "process.river", nightly: true, services: []string{"unspecified", "itself"}, pages: []page{
		{"pyroscope", "v1.6.0", "v1.9.0", guideOfAgent + "ebpf/setup-linux.md", 1},
		{"pyroscope", "v1.9.1", "newest", guideOfAlloy + "setup-linux.md", 1},
	}},
	{file: "docker-kept.river", nightly: true, services: []string{"counter/till"}, pages: []page{
		{"pyroscope", "v1.4.0", "v1.4.0", "examples/ebpf/docker/config.river", 1},
		{"pyroscope", "v1.5.0", "v1.10.1", agentExamples + "docker/config.river", 1},
		{"pyroscope", "v1.11.0", "newest", alloyExamples + "docker/config.alloy", 1},
	}},
	{file: "kubernetes-mistaken.river",
		refused: []string{`component "discovery.kubernetes.node.targets" does not exist or is out of scope`}, pages: []page{
			{"pyroscope", "v1.4.0", "v1.4.0", "examples/ebpf/k8s/config.river", 1},
		}},
	{file: "kubernetes-url-mistaken.river", refused: []string{`field "targets" does not exist`,
		`unrecognized attribute name "url"`}, pages: []page{
		{"pyroscope", "v1.5.0", "v1.5.0", agentExamples + "k8s/config.river", 1},
	}},
	{file: "kubernetes-kept.river", nightly: true, pages: []page{
		{"pyroscope", "v1.6.0", "v1.9.2", agentExamples + "k8s/config.river", 1},
	}},
	{file: "kubernetes-kept-python.river", services: []string{"sales/till"}, pages: []page{
		{"pyroscope", "v1.10.0", "v1.10.1", agentExamples + "kubernetes/alloy.yaml", 1},
		{"pyroscope", "v1.11.0", "newest", alloyExamples + "kubernetes/alloy.yaml", 1},
	}},
	{file: "process-and-init.river", services: []string{"local/till"}, pages: []page{
		{"pyroscope", "v1.4.0", "v1.4.0", "examples/ebpf/local/config.river", 1},
		{"pyroscope", "v1.5.0", "v1.10.1", agentExamples + "local/config.river", 1},
		{"pyroscope", "v1.11.0", "newest", alloyExamples + "local/config.alloy", 1},
	}},

	{file: "process-join.alloy", services: []string{"hwgallery"}},
	{file: "arguments-agent.river", services: []string{"till"}, warns: "cache_rounds"},
	{file: "arguments-alloy.alloy", services: []string{"till"}, warns: "symbols_map_size"},
}

// listed are the arguments that a project's page on pyroscope.ebpf lists, by the
// release that lists them first. Later releases list them too, but Alloy v1.0.0 lacks the two
// of v0.41.0.
var listed = []struct {
	project, since string
	file           string // the file that specifies them
	arguments      []string
}{
	{"agent", "v0.36.0", "arguments-agent.river", []string{
		"forward_to", "targets", "collect_interval", "sample_rate", "collect_user_profile", "collect_kernel_profile",
		"pid_cache_size", "build_id_cache_size", "same_file_cache_size", "container_id_cache_size",
	}},
	{"agent", "v0.37.0", "arguments-agent.river", []string{"demangle"}},
	{"agent", "v0.38.0", "arguments-agent.river", []string{"python_enabled"}},
	{"agent", "v0.41.0", "arguments-agent.river", []string{"pid_map_size", "symbols_map_size"}},
	{"alloy", "v1.0.0", "arguments-alloy.alloy", []string{
		"forward_to", "targets", "collect_interval", "sample_rate", "collect_user_profile", "collect_kernel_profile",
		"pid_cache_size", "build_id_cache_size", "same_file_cache_size", "container_id_cache_size", "demangle",
		"python_enabled",
	}},
	{"alloy", "v1.1.0", "arguments-alloy.alloy", []string{"pid_map_size", "symbols_map_size"}},
	{"alloy", "v1.7.0", "arguments-alloy.alloy", []string{"go_table_fallback"}},
	{"alloy", "v1.11.0", "arguments-alloy.alloy", []string{
		"cache_rounds", "dotnet_enabled", "hotspot_enabled", "off_cpu_threshold", "perl_enabled", "php_enabled",
		"ruby_enabled", "v8_enabled",
	}},
	{"alloy", "v1.12.0", "arguments-alloy.alloy", []string{"load_probe", "u_probe_links", "verbose_mode"}},
	{"alloy", "v1.13.0", "arguments-alloy.alloy", []string{"lazy_mode"}},
	{"alloy", "v1.17.0", "arguments-alloy.alloy", []string{"comm", "kernel_frames", "pid_label"}},
	{"alloy", "v1.18.0", "arguments-alloy.alloy", []string{"no_kernel_version_check"}},
	{"alloy", "v1.19.0-rc.3", "arguments-alloy.alloy", []string{"bpf_fs_root", "go_enabled", "obi_process_context_enabled",
		"probe_links"}},
}
