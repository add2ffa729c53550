package endurance

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/headwater/headwater/integration/testkit"
	"github.com/headwater/headwater/integration/testkit/need"
	"github.com/headwater/headwater/integration/testkit/rig"
)

// TestOverheadLimit: a profiler that costs more than its limit samples less often, and the CPU time in its profiles is
// what the kernel has counted all the same.
func TestOverheadLimit(t *testing.T) {
	need.Root(t)
	t.Parallel()
	living := rig.StartChain(t, rig.ChainProgram(t, "hwlimited"), 600)
	received := rig.StartReceiver(t)
	used := func() time.Duration { return rig.CPUTime(t, fmt.Sprint(living.PID())) }
	launched := used()
	h := rig.StartPrioritized(t, fmt.Sprintf(`
pyroscope.write "server" {
	endpoint {
		url            = %q
		remote_timeout = "2m"
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
	testkit.Eventually(t, "samples", func() bool { return len(received.Profiles("limited")) > 0 })
	sampled := used()
	testkit.Eventually(t, "a lower rate", func() bool {
		all := received.Profiles("limited")
		return all[len(all)-1].Period > int64(10*time.Millisecond)
	})
	// The program gets a CPU to itself: samples are wrong by periods, of 16 ms at the lowest rate, and not by chance.
	living.Prioritize(t)
	lower := used()
	testkit.Eventually(t, "2 s of CPU time at the lower rate", func() bool { return used() >= lower+2*time.Second })
	if h.Metric(t, "pyroscope_ebpf_bpf_microseconds_total") == 0 {
		t.Error("no time in BPF programs")
	}
	least := used() - sampled
	metrics := h.Metrics(t)
	h.Stop(t)
	most := used() - launched

	var sum, gaps time.Duration
	var until int64
	periods := map[int64]bool{}
	for _, p := range received.Profiles("limited") {
		sum += time.Duration(rig.Total(rig.Stacks(p)))
		periods[p.Period] = true
		if until > 0 {
			gaps += time.Duration(max(0, p.TimeNanos-until))
		}
		until = p.TimeNanos + p.DurationNanos
	}
	lost := metrics.Sum(t, "pyroscope_ebpf_samples_lost_total") / metrics.Sum(t, "pyroscope_ebpf_samples_expected_total")
	t.Logf("%v in profiles with %d periods and gaps of %v, %v to %v of /proc; %.2f %% of the samples lost",
		sum, len(periods), gaps, least, most, 100*lost)
	require.Greater(t, len(periods), 1, "the first round has the configured rate")
	// If CPUs are busy, a new rate takes a while to start, and logs of samples are full.
	const usual = 0.1 // of samples, at most
	if sum+gaps < least*8/10 && lost < usual || sum > most*12/10 {
		t.Errorf("profiles have %v of CPU time, the kernel has counted %v to %v", sum, least, most)
	}
}

// TestMemoryLimit: a profiler that takes more than its limit keeps little, and names all the same.
func TestMemoryLimit(t *testing.T) {
	need.Root(t)
	t.Parallel()
	living := rig.StartChain(t, rig.ChainProgram(t, "hwremembered"), 600)
	received := rig.StartReceiver(t)
	h := rig.StartPrioritized(t, fmt.Sprintf(`
pyroscope.write "server" {
	endpoint {
		url            = %q
		remote_timeout = "2m"
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
	testkit.Eventually(t, "the limit still applies", limited) // health may name a round that is overdue
	all := received.Profiles("remembered")[before+1:]
	h.Stop(t)
	var inWhole int64
	for _, p := range all {
		whole, _ := wholeChains(t, p, "hwremembered")
		inWhole += whole
	}
	require.Positive(t, inWhole, "names of the whole chain")
}
