package hosts

import (
	"fmt"
	"net/http"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/headwater/headwater/integration/testkit"
	"github.com/headwater/headwater/integration/testkit/need"
	"github.com/headwater/headwater/integration/testkit/rig"
)

// TestReload breaks the configuration of a running profiler, reloads it, and repairs it. In between, the old graph
// keeps collecting, and headwater says so.
func TestReload(t *testing.T) {
	need.Root(t)
	t.Parallel()
	program := rig.ChainProgram(t, "hwreload")
	rig.StartRestingChain(t, program, 600)
	received := rig.StartReceiver(t)
	config := func(service string) string {
		return strings.Replace(rig.HostConfig(received.URL, service, `collect_kernel_profile = true`), `"2s"`, `"1s"`, 1)
	}
	h := rig.StartPrioritized(t, config("before"))
	collected := func() float64 { return h.Metric(t, "pyroscope_ebpf_profiling_sessions_total") }
	goesOn := func(t testing.TB) {
		t.Helper()
		soFar := collected()
		testkit.Eventually(t, "collecting goes on", func() bool { return collected() >= soFar+2 })
		if code, _ := h.Get(t, "/-/ready"); code != http.StatusOK {
			t.Errorf("/-/ready answers %d", code)
		}
	}
	goesOn(t)

	for name, broken := range map[string]string{
		"syntax error":      "pyroscope.ebpf \"host\" {\n",
		"unknown component": config("broken") + "pyroscope.telepathy \"x\" { }\n",
		"missing reference": strings.Replace(config("broken"), "write.server.receiver", "write.nowhere.receiver", 1),
	} {
		t.Run(name, func(t *testing.T) {
			rig.WriteFile(t, h.Config, broken)
			code, body := h.Reload(t)
			if code != http.StatusBadRequest || !strings.Contains(body, "config.river:") {
				t.Errorf("/-/reload answers %d %q, want 400 and the place", code, body)
			}
			said := len(h.Output.Lines("failed to reload"))
			h.Signal(t, syscall.SIGHUP)
			testkit.Eventually(t, "the log says that SIGHUP's reload failed", func() bool {
				return len(h.Output.Lines("failed to reload")) > said
			})

			goesOn(t)
		})
	}

	rig.WriteFile(t, h.Config, config("after"))
	if code, body := h.Reload(t); code != http.StatusOK {
		t.Fatalf("/-/reload of a good file answers %d %q", code, body)
	}
	testkit.Eventually(t, "a profile of the repaired configuration", func() bool {
		return len(received.Profiles("after")) > 0
	})
	if n := received.Counts()["broken"]; n > 0 {
		t.Errorf("a configuration that was refused has sent %d profiles", n)
	}
	h.Stop(t)
}

// TestUpdateArguments changes the sample rate of a running profiler: the new
// period holds, and the CPU time of a busy process is neither lost nor doubled.
func TestUpdateArguments(t *testing.T) {
	need.Root(t)
	t.Parallel()
	program := rig.ChainProgram(t, "hwupdate")
	received := rig.StartReceiver(t)
	config := func(rate int) string {
		return strings.Replace(rig.HostConfig(received.URL, "update", ""), "= 97", fmt.Sprintf("= %d", rate), 1)
	}
	rates := []int{400, 2000, 250, 1000}
	h := rig.StartPrioritized(t, config(rates[0]))
	busy := rig.StartChain(t, program, 600)
	used := func() time.Duration { return rig.CPUTime(t, fmt.Sprint(busy.PID())) }
	before := used()
	// The process is sampled at each rate for two seconds of its CPU time. If it gets a third of a CPU, samples hit it
	// randomly: the standard deviation is 1.9 % of the sum, and 10 % are five standard deviations.
	burn := func() {
		end := used() + 2*time.Second
		testkit.Eventually(t, "the process has used 2 s of CPU time", func() bool { return used() >= end })
	}
	for _, rate := range rates[1:] {
		burn()
		rig.WriteFile(t, h.Config, config(rate))
		if code, body := h.Reload(t); code != http.StatusOK {
			t.Fatalf("/-/reload answers %d %q", code, body)
		}
	}
	burn()
	want := used() - before
	busy.Kill(t)
	h.Stop(t) // flushes

	var seen time.Duration
	periods := map[int64]bool{}
	for _, p := range received.Profiles("update") {
		periods[p.Period] = true
		seen += time.Duration(rig.Total(rig.OfCommand(rig.Stacks(p), "hwupdate")))
	}
	for _, rate := range rates {
		if period := int64(time.Second) / int64(rate); !periods[period] {
			t.Errorf("no profile has the period %d ns, but %v", period, periods)
		}
	}
	if ratio := seen.Seconds() / want.Seconds(); ratio < 0.9 || ratio > 1.1 {
		t.Errorf("the profile holds %v of the process's %v", seen, want)
	}
}
