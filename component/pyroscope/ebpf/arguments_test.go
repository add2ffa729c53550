package ebpf

import (
	"errors"
	"testing"
	"time"

	"github.com/grafana/river"
	"github.com/grafana/river/ast"
	"github.com/grafana/river/parser"
	"github.com/grafana/river/vm"
	"github.com/stretchr/testify/require"

	"github.com/headwater/headwater/component"
	"github.com/headwater/headwater/component/pyroscope"
	"github.com/headwater/headwater/ebpf"
	"github.com/headwater/headwater/ebpf/kernel"
	"github.com/headwater/headwater/ebpf/symbol/debuginfod"
	"github.com/headwater/headwater/flame/demangle"
	"github.com/headwater/headwater/flame/kind"
)

// decode evaluates River text the way a host does. receiver is a receiver.
func decode(t testing.TB, text string) (Arguments, error) {
	t.Helper()
	file, err := parser.ParseFile("test.river", []byte(text))
	require.NoError(t, err)
	scope := &vm.Scope{Variables: map[string]interface{}{"receiver": pyroscope.Appendable(&fakeReceiver{})}}
	var args Arguments
	err = vm.New(ast.Body(file.Body)).Evaluate(scope, &args)
	return args, err
}

func TestDefaults(t *testing.T) {
	t.Setenv("DEBUGINFOD_URLS", "")
	args, err := decode(t, `forward_to = [receiver]`)
	require.NoError(t, err)
	require.Len(t, args.ForwardTo, 1)
	require.Equal(t, 15*time.Second, args.Settings.CollectInterval)
	require.Empty(t, args.Settings.Unused.withoutEffect())
	require.Equal(t, ebpf.Options{
		ProfileOptions: ebpf.ProfileOptions{
			SampleRate: 97, Comm: ebpf.CommStackframe, Demangle: demangle.None,
		},
		TargetsOnly: true, ContainerIDCacheSize: 1024, TableBytes: 64 << 20,
	}, args.Settings.options())
	require.NoError(t, args.Settings.options().Validate())
}

func TestArguments(t *testing.T) {
	tests := map[string]struct {
		text  string
		check func(t *testing.T, o ebpf.Options)
	}{
		"targets": {`targets = [{"__container_id__" = "abc", "service_name" = "x"}, {"__process_pid__" = "7"}]`,
			func(t *testing.T, o ebpf.Options) {
				require.Equal(t,
					[]map[string]string{{"__container_id__": "abc", "service_name": "x"}, {"__process_pid__": "7"}}, o.Targets)
			}},
		"whole host": {"targets_only = false\ndefault_target = {\"service_name\" = \"host\"}",
			func(t *testing.T, o ebpf.Options) {
				require.False(t, o.TargetsOnly)
				require.Equal(t, map[string]string{"service_name": "host"}, o.DefaultTarget)
			}},
		"sample_rate": {`sample_rate = 100`,
			func(t *testing.T, o ebpf.Options) { require.Equal(t, 100, o.SampleRate) }},
		"collect_user_profile": {`collect_user_profile = false`,
			func(t *testing.T, o ebpf.Options) {
				require.True(t, o.NoUserStacks)
				require.False(t, o.NoKernelStacks)
			}},
		"collect_kernel_profile": {`collect_kernel_profile = false`,
			func(t *testing.T, o ebpf.Options) {
				require.True(t, o.NoKernelStacks)
				require.False(t, o.NoUserStacks)
			}},
		"kernel_frames": {`kernel_frames = false`,
			func(t *testing.T, o ebpf.Options) { require.True(t, o.NoKernelStacks) }},
		"demangle": {`demangle = "full"`,
			func(t *testing.T, o ebpf.Options) { require.Equal(t, demangle.Full, o.Demangle) }},
		"demangle empty": {`demangle = ""`,
			func(t *testing.T, o ebpf.Options) { require.Equal(t, demangle.None, o.Demangle) }},
		"comm": {`comm = "both"`,
			func(t *testing.T, o ebpf.Options) { require.Equal(t, ebpf.CommBoth, o.Comm) }},
		"comm none": {`comm = "none"`,
			func(t *testing.T, o ebpf.Options) { require.Equal(t, ebpf.CommNone, o.Comm) }},
		"comm empty": {`comm = ""`,
			func(t *testing.T, o ebpf.Options) { require.Equal(t, ebpf.CommNone, o.Comm) }},
		"pid_label": {`pid_label = true`, func(t *testing.T, o ebpf.Options) { require.Equal(t, []string{"pid"}, o.Labels) }},
		"thread_name_label": {`thread_name_label = true`, func(t *testing.T, o ebpf.Options) {
			require.Equal(t, []string{"thread_name"}, o.Labels)
		}},
		"thread_id_label": {`thread_id_label = true`, func(t *testing.T, o ebpf.Options) {
			require.Equal(t, []string{"thread_id"}, o.Labels)
		}},
		"cpu_label": {`cpu_label = true`, func(t *testing.T, o ebpf.Options) { require.Equal(t, []string{"cpu"}, o.Labels) }},
		"numa_node_label": {`numa_node_label = true`, func(t *testing.T, o ebpf.Options) {
			require.Equal(t, []string{"numa_node"}, o.Labels)
		}},
		"unwind_table_memory": {`unwind_table_memory = "16MiB"`, func(t *testing.T, o ebpf.Options) {
			require.Equal(t, 16<<20, o.TableBytes)
		}},
		"inline_frames": {`inline_frames = false`, func(t *testing.T, o ebpf.Options) { require.True(t, o.NoInlinedFrames) }},
		"fold_runtimes": {`fold_runtimes = true`, func(t *testing.T, o ebpf.Options) { require.True(t, o.FoldRuntimes) }},
		"debuginfod": {`debuginfod {
			urls       = ["http://localhost:8002"]
			cache_dir  = "/x"
			cache_size = "10MiB"
		}`, func(t *testing.T, o ebpf.Options) {
			require.Equal(t,
				debuginfod.Options{URLs: []string{"http://localhost:8002"}, CacheDir: "/x", CacheSize: 10 << 20,
					Timeout: 90 * time.Second}, o.Debuginfod)
		}},
		"page_faults": {`page_faults { }`, func(t *testing.T, o ebpf.Options) {
			require.EqualValues(t, 256, o.Periods[kind.PageFaults])
			require.EqualValues(t, 1, o.Periods[kind.MajorFaults])
		}},
		"page_faults with periods": {"page_faults {\n period = 7\n major_period = 0\n }", func(t *testing.T, o ebpf.Options) {
			require.EqualValues(t, 7, o.Periods[kind.PageFaults])
			require.Zero(t, o.Periods[kind.MajorFaults])
		}},
		"off_cpu": {`off_cpu { }`, func(t *testing.T, o ebpf.Options) {
			require.Equal(t, ebpf.OffCPU{Rate: 10, States: ebpf.DefaultOffCPUStates()}, o.OffCPU)
			require.False(t, o.NoStateLabel || o.NoWaitLabel)
		}},
		"off_cpu with all": {"off_cpu {\n rate = 7\n states = [\"sleeping\"]\n labels = [\"wait\"]\n }",
			func(t *testing.T, o ebpf.Options) {
				require.Equal(t, ebpf.OffCPU{Rate: 7, States: []kernel.ThreadState{kernel.Sleeping}}, o.OffCPU)
				require.True(t, o.NoStateLabel && !o.NoWaitLabel)
			}},
		"off_cpu with wakers": {"off_cpu {\n labels = [\"waker\"]\n }", func(t *testing.T, o ebpf.Options) {
			require.True(t, o.OffCPU.Wakers && o.NoStateLabel && o.NoWaitLabel)
		}},
		"off_cpu_threshold": {`off_cpu_threshold = 0.02`, func(t *testing.T, o ebpf.Options) {
			require.Equal(t, ebpf.OffCPU{Rate: 10, States: ebpf.DefaultOffCPUStates()}, o.OffCPU)
		}},
		"off_cpu_threshold 0": {`off_cpu_threshold = 0`, func(t *testing.T, o ebpf.Options) { require.Zero(t, o.OffCPU) }},
		"off_cpu off": {"off_cpu_threshold = 1\noff_cpu {\n rate = 0\n }", func(t *testing.T, o ebpf.Options) {
			require.Zero(t, o.OffCPU.Rate)
		}},
		"no off_cpu": {``, func(t *testing.T, o ebpf.Options) { require.Zero(t, o.OffCPU) }},
		"heap": {`heap { }`, func(t *testing.T, o ebpf.Options) {
			require.Equal(t, 512<<10, o.HeapBytes)
			require.InDelta(t, 0.1, o.HeapLimit, 1e-9)
		}},
		"heap with sample_bytes": {"heap {\n sample_bytes = \"1MiB\"\n }", func(t *testing.T, o ebpf.Options) {
			require.Equal(t, 1<<20, o.HeapBytes)
		}},
		"no heap":        {``, func(t *testing.T, o ebpf.Options) { require.Zero(t, o.HeapBytes) }},
		"no page_faults": {``, func(t *testing.T, o ebpf.Options) { require.Zero(t, o.Periods) }},
		"container_id_cache_size": {`container_id_cache_size = 10`, func(t *testing.T, o ebpf.Options) {
			require.Equal(t, 10, o.ContainerIDCacheSize)
		}},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			args, err := decode(t, "forward_to = []\n"+test.text)
			require.NoError(t, err)
			require.Empty(t, args.Settings.Unused.withoutEffect())
			require.NoError(t, args.Settings.options().Validate())
			test.check(t, args.Settings.options())
		})
	}
}

func TestDebuginfodOfTheEnvironment(t *testing.T) {
	t.Setenv("DEBUGINFOD_URLS", "http://a ima:enforcing http://b:8002/x")
	for text, want := range map[string][]string{
		``:                                       {"http://a", "http://b:8002/x"},
		`debuginfod { }`:                         {"http://a", "http://b:8002/x"},
		`debuginfod { urls = [] }`:               {},
		`debuginfod { urls = ["https://only"] }`: {"https://only"},
	} {
		args, err := decode(t, "forward_to = []\n"+text)
		require.NoError(t, err)
		require.ElementsMatch(t, want, args.Settings.options().Debuginfod.URLs, text)
	}
}

func TestArgumentErrors(t *testing.T) {
	tests := map[string]struct{ attribute, text string }{
		`sample_rate = 0`: {"sample_rate",
			"sample_rate must be between 1 and 10000 samples per second, got 0"},
		`sample_rate = 10001`: {"sample_rate",
			"sample_rate must be between 1 and 10000 samples per second, got 10001"},
		`sample_rate = null`: {"sample_rate",
			"sample_rate must be between 1 and 10000 samples per second, got 0"},
		`sample_rate = "fast"`:      {"", `test.river:2:15: "fast" should be number, got string`},
		`collect_interval = "0s"`:   {"collect_interval", "collect_interval must be longer than 0s, got 0s"},
		`collect_interval = "-15s"`: {"collect_interval", "collect_interval must be longer than 0s, got -15s"},
		`collect_interval = "soon"`: {"", `test.river:2:20: "soon" time: invalid duration "soon"`},
		`unwind_table_memory = "1MiB"`: {"unwind_table_memory",
			"unwind_table_memory must be at least 4MiB, got 1MiB"},
		`memory_limit = "8MiB"`: {"memory_limit", "memory_limit must be 0B (no limit) or at least 16MiB, got 8MiB"},
		`history_disk_limit = "8KiB"`: {"history_disk_limit",
			"history_disk_limit must be 0B (no history on disk) or at least 1MiB, got 8KiB"},
		`container_id_cache_size = 0`: {"container_id_cache_size",
			"container_id_cache_size must be greater than 0, got 0"},
		`demangle = "all"`: {"demangle",
			`demangle must be one of none, simplified, templates, full, got "all"`},
		`comm = "frame"`: {"comm",
			`comm must be one of none, label, stackframe, both, got "frame"`},
		"debuginfod {\n  urls = [\"ftp://x\"]\n }": {"debuginfod",
			`debuginfod is invalid: "ftp://x" is no http or https URL`},
		"off_cpu_threshold = -0.1": {"off_cpu_threshold", `off_cpu_threshold must not be negative, got -0.1`},
		`targets = [{"k8s-app" = "x"}]`: {"targets",
			`targets cannot be used: invalid label name "k8s-app": only letters, digits, _ and . are allowed`},
		`targets = [{"a.b" = "", "__a-b" = "c", "c-d" = ""}, {"weird label" = "y"}]`: {"targets",
			`targets cannot be used: target 2 of 2: invalid label name "weird label": only letters, digits, _ and . ` +
				`are allowed`},
		`default_target = {"k8s-app" = "x"}`: {"default_target",
			`default_target cannot be used: invalid label name "k8s-app": only letters, digits, _ and . are allowed`},
		"off_cpu {\n rate = 5000\n }": {"off_cpu", `off_cpu is invalid: rate must be between 0 and 1000, got 5000`},
		"off_cpu {\n labels = [\"x\"]\n }": {"off_cpu", `off_cpu is invalid: labels must be some of state, wait, waker, ` +
			`got "x"`},
		"off_cpu {\n states = [\"running\"]\n }": {"off_cpu", `off_cpu is invalid: states must be some of runnable, ` +
			`sleeping, uninterruptible, stopped, traced, frozen, idle, got "running"`},
		"heap {\n overhead_limit = 101\n }": {"heap", `heap is invalid: overhead_limit must be between 0 (no limit) and ` +
			`100 percent of a process's CPU time, got 101`},
		"heap {\n sample_bytes = \"3GiB\"\n }": {"heap",
			`heap is invalid: sample_bytes must be between 0B and 2GiB, got 3GiB`},
		"page_faults {\n period = -1\n }": {"page_faults",
			`page_faults is invalid: period must be between 0 and 2147483648, got -1`},
		`targets = "x"`:          {"", `test.river:2:11: "x" should be array, got string`},
		`targets = [{"a" = {}}]`: {"", `test.river:2:19: {} should be string, got object`},
		`forward_twice = []`:     {"", `test.river:2:1: unrecognized attribute name "forward_twice"`},
		`debug_info = {}`: {"",
			`test.river:2:1: "debug_info" must be a block, but is used as an attribute`},
		"debug_info {\n  upload = 1\n }": {"", `test.river:3:12: 1 should be bool, got number`},
	}
	for text, want := range tests {
		t.Run(text, func(t *testing.T) {
			_, err := decode(t, "forward_to = []\n"+text)
			require.EqualError(t, err, want.text)
			var attribute *component.AttributeError
			if errors.As(err, &attribute); want.attribute != "" {
				require.Equal(t, want.attribute, attribute.Attribute)
			}
		})
	}
	_, err := decode(t, ``)
	require.EqualError(t, err, `missing required attribute "forward_to"`)
	_, err = decode(t, `forward_to = ["x"]`)
	require.EqualError(t, err, `test.river:1:15: "x" should be capsule, got string`)
}

// TestEveryKnownArgument loads the arguments that the documentation of each version allows. There is a warning for each
// value that asks for a behaviour that this profiler does not have.
func TestEveryKnownArgument(t *testing.T) {
	tests := map[string]struct {
		text string
		warn []string
	}{
		"Agent v0.36": {
			`targets = []
			default_target = {}
			targets_only = true
			collect_interval = "15s"
			sample_rate = 97
			pid_cache_size = 32
			build_id_cache_size = 64
			same_file_cache_size = 8
			container_id_cache_size = 1024
			cache_rounds = 3
			collect_user_profile = true
			collect_kernel_profile = true`,
			[]string{"pid_cache_size", "build_id_cache_size", "same_file_cache_size", "cache_rounds"},
		},
		"Agent v0.40": {
			`targets = []
			collect_interval = "15s"
			sample_rate = 97
			collect_user_profile = true
			collect_kernel_profile = true
			demangle = "none"
			python_enabled = true`,
			nil,
		},
		"Alloy 1.6": {
			`python_enabled = false
			symbols_map_size = 2048
			pid_map_size = 16384`,
			[]string{"symbols_map_size", "pid_map_size"},
		},
		"Alloy 1.10":        {`go_table_fallback = false`, nil},
		"Alloy 1.10, other": {`go_table_fallback = true`, []string{"go_table_fallback"}},
		"newest Alloy, defaults": {
			`perl_enabled = false
			php_enabled = false
			hotspot_enabled = false
			ruby_enabled = false
			v8_enabled = false
			dotnet_enabled = false
			go_enabled = false
			off_cpu_threshold = 0
			reporter_unsymbolized_stubs = false
			load_probe = false
			verbose_mode = false
			u_probe_links = []
			lazy_mode = false
			comm = "none"
			pid_label = false
			kernel_frames = true
			debug_info { }
			no_kernel_version_check = true
			probe_links = []
			obi_process_context_enabled = false`,
			nil,
		},
		"newest Alloy, everything": {
			`python_enabled = true
			perl_enabled = true
			php_enabled = true
			hotspot_enabled = true
			ruby_enabled = true
			v8_enabled = true
			dotnet_enabled = true
			go_enabled = true
			off_cpu_threshold = 0.1
			symb_cache_path = "/tmp/symb-cache"
			symb_cache_size = 2048
			reporter_unsymbolized_stubs = true
			load_probe = true
			verbose_mode = true
			u_probe_links = ["/lib/libc.so.6:malloc"]
			lazy_mode = true
			debug_info {
				on_target_symbolization = false
				upload = true
				cache_size = 1
				strip_text_section = true
				queue_size = 1
				worker_num = 1
			}
			no_kernel_version_check = false
			probe_links = ["kprobe:x"]
			bpf_fs_root = "/sys/fs/bpf/"
			obi_process_context_enabled = true`,
			[]string{
				"symb_cache_path", "symb_cache_size", "bpf_fs_root",
				"perl_enabled", "php_enabled", "ruby_enabled",
				"dotnet_enabled", "go_enabled",
				"load_probe",
				"reporter_unsymbolized_stubs", "verbose_mode", "lazy_mode", "no_kernel_version_check",
				"obi_process_context_enabled",
				"debug_info.on_target_symbolization", "debug_info.upload", "debug_info.cache_size", "debug_info.strip_text_section",
				"debug_info.queue_size", "debug_info.worker_num",
			},
		},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			args, err := decode(t, "forward_to = [receiver]\n"+test.text)
			require.NoError(t, err)
			require.Equal(t, test.warn, args.Settings.Unused.withoutEffect())
		})
	}
}

// TestOffCPUThresholdOfOldDocs: the documentation of Alloy 1.11 has off_cpu_threshold = 1000.
func TestOffCPUThresholdOfOldDocs(t *testing.T) {
	decode := func(threshold string) (a Arguments) {
		require.NoError(t, river.Unmarshal([]byte("forward_to = []\noff_cpu_threshold = "+threshold), &a))
		return a
	}
	old, most := decode("1000"), decode("1")
	require.Equal(t, most.Settings.options().OffCPU, old.Settings.options().OffCPU)
	require.Empty(t, most.Warnings())
	require.Equal(t, []*component.AttributeError{{Attribute: "off_cpu_threshold",
		Message: "is a probability from 0 to 1, got 1000: it counts as 1"}}, old.Warnings())
}
