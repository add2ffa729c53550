package java

import (
	"bytes"
	"context"
	"maps"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/go-kit/log"
	"github.com/google/pprof/profile"
	"github.com/grafana/river/parser"
	rivervm "github.com/grafana/river/vm"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/prometheus/model/labels"
	"github.com/stretchr/testify/require"

	"github.com/headwater/headwater/component"
	"github.com/headwater/headwater/component/pyroscope"
	"github.com/headwater/headwater/integration/testkit"
	"github.com/headwater/headwater/integration/testkit/javawork"
)

// received is a receiver that sums up the values of its profiles.
type received struct {
	mu     sync.Mutex
	sums   map[string]int64 // by name of the profile, type of the value and function
	labels map[string]labels.Labels
}

func (r *received) Append(_ context.Context, l labels.Labels, samples []*pyroscope.RawSample) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, raw := range samples {
		p, err := profile.Parse(bytes.NewReader(raw.RawProfile))
		if err != nil {
			return err
		}
		r.labels[l.Get("__name__")] = l
		for _, s := range p.Sample {
			functions := map[string]bool{}
			for _, location := range s.Location {
				for _, line := range location.Line {
					functions[line.Function.Name] = true
				}
			}
			for function := range functions {
				for i, v := range s.Value {
					r.sums[strings.Join([]string{l.Get("__name__"), p.SampleType[i].Type, function}, " ")] += v
				}
			}
		}
	}
	return nil
}

func (r *received) sum(names ...string) (sum int64) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, name := range names {
		sum += r.sums[name]
	}
	return sum
}

// ofWork returns the sums of the program's methods.
func (r *received) ofWork() map[string]int64 {
	r.mu.Lock()
	defer r.mu.Unlock()
	sums := maps.Clone(r.sums)
	maps.DeleteFunc(sums, func(name string, _ int64) bool { return !strings.Contains(name, " Work.") })
	return sums
}

func decode(t *testing.T, text string) (args Arguments, err error) {
	t.Helper()
	file, err := parser.ParseFile("", []byte(text))
	require.NoError(t, err)
	return args, rivervm.New(file).Evaluate(nil, &args)
}

func arguments(t *testing.T, text string) Arguments {
	t.Helper()
	args, err := decode(t, text)
	require.NoError(t, err)
	return args
}

// TestComponent profiles a VM and changes the arguments: CPU time, allocations and locks arrive, and nothing is left at
// the end.
func TestComponent(t *testing.T) {
	w := javawork.Start(t, "java", 0)
	got := &received{sums: map[string]int64{}, labels: map[string]labels.Labels{}}
	args := arguments(t, `targets = [{"__process_pid__" = "`+strconv.Itoa(w.PID)+`", "zone" = "a"}]
		forward_to = []
		profiling_config { interval = "1s" }`)
	receiver := pyroscope.AppendableFunc(got.Append)
	args.ForwardTo = []pyroscope.Appendable{receiver}
	opts := component.Options{ID: "pyroscope.java.test", Logger: log.NewNopLogger(), DataPath: t.TempDir(),
		Registerer: prometheus.NewRegistry()}
	c, err := New(opts, args)
	require.NoError(t, err)
	t.Cleanup(func() {
		if t.Failed() {
			t.Logf("%+v\nof Work: %v", c.DebugInfo().(DebugInfo).VMs, got.ofWork())
		}
	})
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- c.Run(ctx) }()
	recording := func() DebugVM {
		if all := c.DebugInfo().(DebugInfo).VMs; len(all) == 1 && all[0].Recording != "" {
			return all[0]
		}
		return DebugVM{}
	}
	testkit.Eventually(t, "the VM records", func() bool { return recording().PID == w.PID })

	small, large, enter := w.Work("small", 500_000), w.Work("large", 100), w.Work("enter", 50)
	testkit.Eventually(t, "the receiver has CPU time", func() bool {
		w.Work("small", 0) // the VM works on
		small += w.Work("small", 100_000)
		return got.sum("process_cpu cpu Work.small") > 0
	})
	t.Logf("%d bytes in small objects, %d in large ones, %d ns to enter the monitor", small, large, enter)
	const smalls, larges = "memory alloc_in_new_tlab_bytes Work.small", "memory alloc_outside_tlab_bytes Work.large"
	const waits = "mutex delay Work.enter"
	testkit.Eventually(t, "the receiver has all that the program did", func() bool {
		return got.sum(smalls) > small*9/10 && got.sum(larges) == large && got.sum(waits) > int64(50*time.Millisecond)*99/100
	})
	require.Less(t, got.sum(smalls), small*11/10)
	require.Less(t, got.sum(waits), enter*101/100)
	for _, name := range []string{"process_cpu", "memory", "mutex"} {
		l := got.labels[name]
		require.Equal(t, "a", l.Get("zone"), name)
		require.Equal(t, "unspecified", l.Get("service_name"), name)
	}
	require.Equal(t, "false", got.labels["memory"].Get(pyroscope.LabelNameDelta))
	require.Equal(t, component.HealthTypeHealthy, c.CurrentHealth().Health, c.CurrentHealth().Message)

	off := args
	off.Profiling.Alloc, off.Profiling.Lock = "", ""
	require.NoError(t, c.Update(off))
	testkit.Eventually(t, "the recording ends", func() bool {
		return strings.Contains(w.JCmd("JFR.check"), "No available recordings")
	})
	bad := args
	bad.TmpDir = "/nowhere"
	require.NoError(t, c.Update(bad))
	testkit.Eventually(t, "the health says why", func() bool {
		h := c.CurrentHealth()
		return h.Health == component.HealthTypeUnhealthy && strings.Contains(h.Message, "/nowhere")
	})
	require.NoError(t, c.Update(args))
	testkit.Eventually(t, "the VM records again", func() bool { return recording().Error == "" && recording().PID != 0 })
	before := got.sum(larges)
	more := w.Work("large", 10)
	cancel()
	require.NoError(t, <-ended)
	require.Equal(t, before+more, got.sum(larges), "what the program did until the end arrives")
	require.Contains(t, w.JCmd("JFR.check"), "No available recordings")
}

func TestArguments(t *testing.T) {
	const needed = "targets = []\nforward_to = []\n"
	args := arguments(t, needed)
	require.Empty(t, args.Warnings())
	require.Equal(t, Profiling{Interval: time.Minute, SampleRate: 100, Alloc: "10ms", Lock: "512k", CPU: true,
		Event: "itimer", LogLevel: "INFO"}, args.Profiling)
	require.Equal(t, 524288*time.Nanosecond, args.Profiling.lock())
	for text, want := range map[string]string{
		`tmp_dir = "tmp"`:                             "tmp_dir must be an absolute path",
		`profiling_config { interval = "1ms" }`:       "profiling_config.interval must be at least 1s",
		`profiling_config { sample_rate = 0 }`:        "profiling_config.sample_rate must be between",
		`profiling_config { alloc = "much" }`:         `profiling_config.alloc is no number with a unit, such as 10ms or`,
		`profiling_config { lock = "1x" }`:            `profiling_config.lock is a number with an unknown unit: "1x"`,
		`profiling_config { lock = "9000000000000g"}`: `profiling_config.lock is too large`,
	} {
		_, err := decode(t, needed+text)
		require.ErrorContains(t, err, want, text)
	}
	args = arguments(t, needed+"dist = \"/opt/async-profiler\"\nprofiling_config { event = \"wall\" }")
	require.Len(t, args.Warnings(), 2)
	args = arguments(t, needed+"profiling_config {\nlock = \"10ms\"\ncpu = false\n}")
	require.Equal(t, 10*time.Millisecond, args.Profiling.lock())
	require.Empty(t, args.cpuSettings().Targets)
}

// TestServices has the names that Alloy's component gives.
func TestServices(t *testing.T) {
	kubernetes := map[string]string{"__meta_kubernetes_namespace": "shop", "__meta_kubernetes_pod_container_name": "cart"}
	own := maps.Clone(kubernetes)
	own["service_name"] = "ebpf/mine"
	var names []string
	for _, s := range services([]map[string]string{kubernetes, own, {}}) {
		names = append(names, s["service_name"])
	}
	require.True(t, slices.Equal(names, []string{"java/shop/cart", "ebpf/mine", "unspecified"}), names)
}
