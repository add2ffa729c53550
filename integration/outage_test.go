package integration

import (
	"fmt"
	"testing"
	"time"

	"github.com/headwater/headwater/ebpf/trial"
)

// outage is how long Pyroscope is away in TestOutage.
const outage = 30 * time.Second

// TestOutage stops Pyroscope for a while: collecting goes on, what is dropped
// is counted and logged, and profiles arrive again afterwards.
func TestOutage(t *testing.T) { trial.Run(t, tryOutage) }

func tryOutage(t *trial.T) {
	requireRoot(t)
	program := chainProgram(t, "hwoutage")
	startChain(t, program, 180)
	server := startPyroscope(t)
	h := startHeadwater(t, fmt.Sprintf(`
pyroscope.write "server" {
	endpoint {
		url                 = %q
		remote_timeout      = "2s"
		max_backoff_period  = "1s"
		max_backoff_retries = 3
	}
}

pyroscope.ebpf "host" {
	forward_to       = [pyroscope.write.server.receiver]
	targets_only     = false
	default_target   = {"service_name" = "outage"}
	collect_interval = "1s"
}
`, server.url))
	waitForService(t, server, "outage")
	collected := func() float64 { return h.metric(t, "pyroscope_ebpf_profiling_sessions_total") }
	dropped := func() float64 { return h.metric(t, "pyroscope_write_dropped_profiles_total") }
	sent := func() float64 { return h.metric(t, "pyroscope_write_sent_profiles_total") }
	if n := dropped(); n != 0 {
		t.Errorf("%v profiles are dropped while Pyroscope is there", n)
	}

	server.stop(t)
	collectedBefore, sentBefore := collected(), sent()
	time.Sleep(outage)
	if rounds := collected() - collectedBefore; rounds < outage.Seconds()*0.8 {
		t.Errorf("only %v collections in %v without Pyroscope", rounds, outage)
	}
	if n := dropped(); n == 0 {
		t.Error("nothing is counted as dropped")
	}
	if n := sent() - sentBefore; n > 1 { // one may have been under way
		t.Errorf("%v profiles are counted as sent to a server that is not there", n)
	}
	// Thirty collections must not make thirty complaints.
	complaints := len(h.output.lines("level=error")) + len(h.output.lines("level=warn"))
	if complaints == 0 || complaints > 15 {
		t.Errorf("the log complains %d times, want a few:\n%s", complaints, h.output.tail(40))
	}

	server.run(t)
	back := time.Now()
	eventually(t, 40*time.Second, "profiles arrive again", func() bool {
		p := server.profile(t, cpuProfile, `{service_name="outage"}`, back)
		return total(ofCommand(stacks(p), "hwoutage")) >= 3e9
	})
	if sent() <= sentBefore {
		t.Error("nothing is counted as sent after the outage")
	}
	t.Logf("dropped %v, sent %v, %d lines of complaint", dropped(), sent(), complaints)
	h.stop(t)
}
