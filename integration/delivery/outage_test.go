package delivery

import (
	"fmt"
	"testing"
	"time"

	"github.com/headwater/headwater/integration/testkit"
	"github.com/headwater/headwater/integration/testkit/need"
	"github.com/headwater/headwater/integration/testkit/rig"
)

const outageConfig = `
pyroscope.write "server" {
	endpoint {
		url                 = %q
		remote_timeout      = "1m"
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
`

// TestOutage stops Pyroscope for a while: collecting continues, dropped profiles are counted and logged, and profiles
// arrive again afterwards.
func TestOutage(t *testing.T) {
	need.Root(t)
	t.Parallel()
	outage := 5.0 // collections
	if testkit.IsNightly() {
		outage = 30
	}
	program := rig.ChainProgram(t, "hwoutage")
	rig.StartRestingChain(t, program, 600)
	server := rig.StartPyroscope(t)
	h := rig.StartHeadwater(t, fmt.Sprintf(outageConfig, server.URL))
	rig.WaitForService(t, server, "outage")
	collected := func() float64 { return h.Metric(t, "pyroscope_ebpf_profiling_sessions_total") }
	dropped := func() float64 { return h.Metric(t, "pyroscope_write_dropped_profiles_total") }
	sent := func() float64 { return h.Metric(t, "pyroscope_write_sent_profiles_total") }
	if n := dropped(); n != 0 {
		t.Errorf("%v profiles are dropped while Pyroscope is there", n)
	}

	server.Stop(t)
	collectedBefore, sentBefore := collected(), sent()
	rounds := 0.0
	testkit.Eventually(t, "collecting goes on without Pyroscope, and what is dropped is counted", func() bool {
		rounds = collected() - collectedBefore
		return rounds >= outage && dropped() > 0
	})
	if n := sent() - sentBefore; n > 1 { // one may have been under way
		t.Errorf("%v profiles are counted as sent to a server that is not there", n)
	}
	// There are fewer complaints than collections.
	const from = "component=pyroscope.write.server"
	complaints := len(h.Output.Lines("level=error", from)) + len(h.Output.Lines("level=warn", from))
	if complaints == 0 || float64(complaints) > rounds/2 {
		t.Errorf("the log complains %d times in %v collections, want a few:\n%s", complaints, rounds, h.Output.Tail(40))
	}

	server.Run(t)
	back := time.Now()
	testkit.Eventually(t, "profiles arrive again", func() bool {
		p := server.Profile(t, rig.CPUProfile, `{service_name="outage"}`, back)
		return rig.Total(rig.OfCommand(rig.Stacks(p), "hwoutage")) >= 3e8
	})

	if sent() <= sentBefore {
		t.Error("nothing is counted as sent after the outage")
	}
	t.Logf("dropped %v, sent %v, %d lines of complaint", dropped(), sent(), complaints)
	h.Stop(t)
}
