package delivery

import (
	"fmt"
	"os"
	"testing"
	"time"

	"github.com/headwater/headwater/integration/testkit"
	"github.com/headwater/headwater/integration/testkit/need"
	"github.com/headwater/headwater/integration/testkit/record"
	"github.com/headwater/headwater/integration/testkit/rig"
)

// TestLosslessOutage keeps Pyroscope away from a profiler at 100 Hz for HEADWATER_OUTAGE
// (5s, of make nightly 15s). With a queue, all profiles arrive, byte for byte and sample for sample, and Pyroscope
// has as much CPU time as they hold.
func TestLosslessOutage(t *testing.T) {
	need.Root(t)
	t.Parallel()
	away := 5 * time.Second
	if testkit.IsNightly() {
		away = 15 * time.Second
	}
	if text := os.Getenv("HEADWATER_OUTAGE"); text != "" {
		var err error
		if away, err = time.ParseDuration(text); err != nil {
			t.Fatalf("HEADWATER_OUTAGE: %v", err)
		}
	}
	save := record.Test(t, "outage", fmt.Sprintf("make -C integration outage OUTAGE=%v", away))
	server := sharedPyroscope(t)
	g := newGate(t, server.URL)
	busy := rig.StartRestingChain(t, rig.ChainProgram(t, "hwlossless"), int(away.Seconds())+300)
	target := `targets_only   = false
	default_target = {"service_name" = "lossless"}`
	if !testkit.IsNightly() && os.Getenv("HEADWATER_OUTAGE") == "" {
		// Tests of other packages may run at the same time. Profiles of their hostile programs are modified to fit
		// Pyroscope's limits.
		target = fmt.Sprintf(`targets = [{"__process_pid__" = "%d", "service_name" = "lossless"}]`, busy.PID())
	}
	config := func(interval string) string { return losslessConfig(g.url, target, interval) }
	h := rig.StartHeadwater(t, config("1s"))
	rig.WaitForService(t, server, "lossless")

	waited, resumed := keepAway(t, h, g, away)
	made := allArrived(t, h, g, config("1h"))
	arrived, all := g.sum()
	checkArrived(t, h, made, arrived, all)
	stored := int64(0)
	testkit.Eventually(t, "Pyroscope has it all", func() bool {
		stored = rig.Total(rig.Stacks(server.Profile(t, rig.CPUProfile, `{service_name="lossless"}`, time.Time{})))
		return stored >= all.total
	})

	if stored != all.total {
		t.Errorf("Pyroscope has %d ns, the profiles hold %d", stored, all.total)
	}
	t.Logf("%v away, %v profiles waited, the first arrived %v after the server was back; "+
		"in all %d profiles, %s, all of them in Pyroscope",
		away, waited, resumed.Round(time.Millisecond), arrived, all)
	h.Stop(t)
	save(map[string]float64{
		"away_seconds": away.Seconds(), "waited": waited, "resumed_seconds": resumed.Seconds(),
		"profiles": float64(arrived), "bytes": float64(all.bytes), "cpu_seconds": float64(all.total) / 1e9,
		"stored_cpu_seconds": float64(stored) / 1e9,
	})
}

func losslessConfig(server, target, interval string) string {
	return fmt.Sprintf(`
pyroscope.write "server" {
	endpoint {
		url            = %q
		remote_timeout = "2m"
	}
	queue {
	}
}

pyroscope.ebpf "host" {
	forward_to       = [pyroscope.write.server.receiver]
	collect_interval = %q
	sample_rate      = 100
	%s
}
`, server, interval, target)
}

// keepAway shuts the gate for some time. It returns how many profiles waited at the end, and
// how long it took until profiles arrived again.
func keepAway(t testing.TB, h *rig.Headwater, g *gate, away time.Duration) (waited float64, resumed time.Duration) {
	t.Helper()
	g.shut(t)
	before, _ := g.sum()
	time.Sleep(away)
	if n, _ := g.sum(); n > before+1 { // one may have been under way
		t.Errorf("%d profiles arrived during the outage", n-before)
	}
	testkit.Eventually(t, "profiles wait", func() bool {
		waited = h.Metric(t, "pyroscope_write_queue_profiles")
		return waited >= 1
	})
	g.open(t)
	back := time.Now()
	testkit.Eventually(t, "profiles arrive again", func() bool { n, _ := g.sum(); return n > before+1 })
	return waited, time.Since(back)
}

// allArrived lets headwater make one profile an hour, as config says, so that those made until here can be
// counted, waits until all have arrived, and returns how many were made.
func allArrived(t testing.TB, h *rig.Headwater, g *gate, config string) (made float64) {
	t.Helper()
	rig.WriteFile(t, h.Config, config)
	if code, body := h.Reload(t); code != 200 {
		t.Fatalf("reload: %d %s", code, body)
	}
	profiles := func() float64 { return h.Metric(t, "pyroscope_ebpf_pprofs_total") }
	made = profiles()
	testkit.Eventually(t, "all have arrived", func() bool {
		last := made
		made = profiles()
		arrived, _ := g.sum()
		return made == last && float64(arrived) >= made && h.Metric(t, "pyroscope_write_queue_profiles") == 0
	})

	return made
}

// checkArrived compares the arrived profiles with the number that headwater reports.
func checkArrived(t testing.TB, h *rig.Headwater, made float64, arrived int, all arrival) {
	t.Helper()
	m := h.Metrics(t)
	dropped := m.Sum(t, "pyroscope_write_dropped_profiles_total") + m.Sum(t, "pyroscope_ebpf_pprofs_dropped_total")
	if dropped != 0 {
		t.Errorf("%v profiles were dropped", dropped)
	}
	bytes, samples := m.Sum(t, "pyroscope_ebpf_pprof_bytes_total"), m.Sum(t, "pyroscope_ebpf_pprof_samples_total")
	const period = int64(time.Second) / 100
	if float64(arrived) != made || float64(all.bytes) != bytes || float64(all.total/period) != samples {
		t.Errorf("made %v profiles, %v bytes, %v samples; arrived %d, %d, %d",
			made, bytes, samples, arrived, all.bytes, all.total/period)
	}
}
