package endurance

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/headwater/headwater/integration/lab"
	"github.com/headwater/headwater/integration/testkit"
	"github.com/headwater/headwater/integration/testkit/need"
	"github.com/headwater/headwater/integration/testkit/retry"
)

// TestOverheadLimit: a profiler that costs more than its limit samples less often, and the CPU time in its profiles is
// what the kernel has counted all the same.
func TestOverheadLimit(t *testing.T) {
	need.Root(t)
	program := lab.ChainProgram(t, "hwlimited")
	retry.Run(t, func(t *retry.T) {
		living := lab.StartChain(t, program, 600)
		defer living.Kill(t)
		received := lab.StartReceiver(t)
		h := lab.StartHeadwater(t, fmt.Sprintf(`
pyroscope.write "server" {
	endpoint {
		url = %q
	}
}

pyroscope.ebpf "host" {
	forward_to       = [pyroscope.write.server.receiver]
	targets          = [{"__process_pid__" = "%d", "service_name" = "limited"}]
	collect_interval = "1s"
	sample_rate      = 2000
	overhead_limit   = 0.05
}
`, received.URL, living.PID()))
		process := fmt.Sprint(living.PID())
		before := lab.CPUTime(t, process)
		testkit.Eventually(t, "a lower rate", func() bool {
			all := received.Profiles("limited")
			return len(all) > 0 && all[len(all)-1].Period > int64(10*time.Millisecond)
		})

		time.Sleep(3 * time.Second) // of the lower rate
		if h.Metric(t, "pyroscope_ebpf_bpf_microseconds_total") == 0 {
			t.Error("no time in BPF programs")
		}
		counted := lab.CPUTime(t, process) - before
		h.Stop(t)

		var sum time.Duration
		periods := map[int64]bool{}
		for _, p := range received.Profiles("limited") {
			sum += time.Duration(lab.Total(lab.Stacks(p)))
			periods[p.Period] = true
		}
		t.Logf("%v in profiles with %d periods, %v of /proc", sum, len(periods), counted)
		require.Greater(t, len(periods), 1, "the first round has the configured rate")
		if sum < counted*8/10 || sum > counted*12/10+time.Second {
			t.Errorf("profiles have %v of CPU time, the kernel has counted %v", sum, counted)
		}
	})
}

// TestMemoryLimit: a profiler that takes more than its limit keeps little, and names all the same.
func TestMemoryLimit(t *testing.T) {
	need.Root(t)
	living := lab.StartChain(t, lab.ChainProgram(t, "hwremembered"), 600)
	defer living.Kill(t)
	received := lab.StartReceiver(t)
	h := lab.StartHeadwater(t, fmt.Sprintf(`
pyroscope.write "server" {
	endpoint {
		url = %q
	}
}

pyroscope.ebpf "host" {
	forward_to       = [pyroscope.write.server.receiver]
	targets          = [{"__process_pid__" = "%d", "service_name" = "remembered"}]
	targets_only     = false
	collect_interval = "1s"
	memory_limit     = "16MiB" // the process alone takes more
}
`, received.URL, living.PID()))
	limited := func() bool {
		return strings.Contains(h.Component(t, "pyroscope.ebpf.host").Message, "the memory_limit of")
	}
	testkit.Eventually(t, "less kept in memory", limited)
	before := len(received.Profiles("remembered"))
	testkit.Eventually(t, "more profiles", func() bool { return len(received.Profiles("remembered")) > before+3 })
	if !limited() {
		t.Error("the limit applies no more")
	}
	all := received.Profiles("remembered")[before+1:]
	h.Stop(t)
	deepest := 0
	for _, p := range all {
		for _, s := range lab.Stacks(p) {
			depth, err := lab.ChainDepth(s)
			require.NoError(t, err)
			deepest = max(deepest, depth)
		}
	}
	require.Equal(t, 59, deepest, "names of the whole chain")
}
