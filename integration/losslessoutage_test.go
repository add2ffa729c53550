package integration

import (
	"fmt"
	"os"
	"testing"
	"time"
)

// TestLosslessOutage keeps Pyroscope away from a profiler at 100 Hz for
// HEADWATER_OUTAGE (15s): with a queue, all profiles that it makes arrive, byte
// for byte and sample for sample, and Pyroscope has as much CPU time as they hold.
func TestLosslessOutage(t *testing.T) {
	requireRoot(t)
	away := 15 * time.Second
	if text := os.Getenv("HEADWATER_OUTAGE"); text != "" {
		var err error
		if away, err = time.ParseDuration(text); err != nil {
			t.Fatalf("HEADWATER_OUTAGE: %v", err)
		}
	}
	server := startPyroscope(t)
	g := newGate(t, server.url)
	program := chainProgram(t, "hwlossless")
	startChain(t, program, int(away.Seconds())+300)
	config := func(interval string) string {
		return fmt.Sprintf(`
pyroscope.write "server" {
	endpoint {
		url            = %q
		remote_timeout = "20s"
	}
	queue {
	}
}

pyroscope.ebpf "host" {
	forward_to       = [pyroscope.write.server.receiver]
	targets_only     = false
	default_target   = {"service_name" = "lossless"}
	collect_interval = %q
	sample_rate      = 100
}
`, g.url, interval)
	}
	h := startHeadwater(t, config("1s"))
	waitForService(t, server, "lossless")

	g.shut()
	before, _ := g.sum()
	time.Sleep(away)
	if n, _ := g.sum(); n > before+1 { // one may have been under way
		t.Errorf("%d profiles arrived during the outage", n-before)
	}
	waiting := h.metric(t, "pyroscope_write_queue_profiles")
	if waiting < 1 {
		t.Errorf("no profiles wait after %v", away)
	}
	g.open(t)
	back := time.Now()
	eventually(t, time.Minute, "profiles arrive again", func() bool { n, _ := g.sum(); return n > before+1 })
	resumed := time.Since(back)

	// From now on one profile an hour: what was made until here can be counted.
	writeFile(t, h.config, config("1h"))
	if code, body := h.reload(t); code != 200 {
		t.Fatalf("reload: %d %s", code, body)
	}
	profiles := func() float64 { return h.metric(t, "pyroscope_ebpf_pprofs_total") }
	made := profiles()
	eventually(t, 2*time.Minute+away, "all have arrived", func() bool {
		last := made
		made = profiles()
		arrived, _ := g.sum()
		return made == last && float64(arrived) >= made && h.metric(t, "pyroscope_write_queue_profiles") == 0
	})
	arrived, all := g.sum()
	if dropped := h.metric(t, "pyroscope_write_dropped_profiles_total") + h.metric(t, "pyroscope_ebpf_pprofs_dropped_total"); dropped != 0 {
		t.Errorf("%v profiles were dropped", dropped)
	}
	bytes, samples := h.metric(t, "pyroscope_ebpf_pprof_bytes_total"), h.metric(t, "pyroscope_ebpf_pprof_samples_total")
	const period = int64(time.Second) / 100
	if float64(arrived) != made || float64(all.bytes) != bytes || float64(all.total/period) != samples {
		t.Errorf("made %v profiles, %v bytes, %v samples; arrived %d, %d, %d", made, bytes, samples, arrived, all.bytes, all.total/period)
	}
	stored := int64(0)
	eventually(t, 30*time.Second, "Pyroscope has it all", func() bool {
		stored = total(stacks(server.profile(t, cpuProfile, `{service_name="lossless"}`, time.Time{})))
		return stored >= all.total
	})
	if stored != all.total {
		t.Errorf("Pyroscope has %d ns, the profiles hold %d", stored, all.total)
	}
	t.Logf("%v away, %v profiles waited, the first arrived %v after the server was back; in all %d profiles, %s, all of them in Pyroscope",
		away, waiting, resumed.Round(time.Millisecond), arrived, all)
	h.stop(t)
}
