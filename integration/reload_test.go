package integration

import (
	"fmt"
	"net/http"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/headwater/headwater/ebpf/trial"
)

// TestReload breaks the configuration of a running profiler, reloads it, and
// mends it again: the old graph goes on collecting, and says so.
func TestReload(t *testing.T) { trial.Run(t, tryReload) }

func tryReload(t *trial.T) {
	requireRoot(t)
	program := chainProgram(t, "hwreload")
	startChain(t, program, 120)
	server := startPyroscope(t)
	config := func(service string) string { return hostConfig(server.url, service, `collect_kernel_profile = true`) }
	h := startHeadwater(t, config("before"))
	collected := func() float64 { return h.metric(t, "pyroscope_ebpf_profiling_sessions_total") }
	goesOn := func(t testing.TB) {
		t.Helper()
		soFar := collected()
		eventually(t, 20*time.Second, "collecting goes on", func() bool { return collected() >= soFar+2 })
		if code, _ := h.get(t, "/-/ready"); code != http.StatusOK {
			t.Errorf("/-/ready answers %d", code)
		}
	}
	goesOn(t)

	for name, broken := range map[string]string{
		"syntax error":      "pyroscope.ebpf \"host\" {\n",
		"unknown component": config("broken") + "pyroscope.telepathy \"x\" { }\n",
		"missing reference": strings.Replace(config("broken"), "write.server.receiver", "write.nowhere.receiver", 1),
	} {
		t.Run(name, func(t *trial.T) {
			writeFile(t, h.config, broken)
			code, body := h.reload(t)
			if code != http.StatusBadRequest || !strings.Contains(body, "config.river:") {
				t.Errorf("/-/reload answers %d %q, want 400 and the place", code, body)
			}
			said := len(h.output.lines("failed to reload"))
			h.signal(t, syscall.SIGHUP)
			eventually(t, 10*time.Second, "the log says that SIGHUP's reload failed", func() bool {
				return len(h.output.lines("failed to reload")) > said
			})
			goesOn(t)
		})
	}

	writeFile(t, h.config, config("after"))
	if code, body := h.reload(t); code != http.StatusOK {
		t.Fatalf("/-/reload of a good file answers %d %q", code, body)
	}
	waitForService(t, server, "after")
	if all := server.profile(t, cpuProfile, `{service_name="broken"}`, time.Time{}); len(all.Sample) > 0 {
		t.Errorf("a configuration that was refused has sent %d stacks", len(all.Sample))
	}
	h.stop(t)
}

// TestUpdateArguments changes the sample rate of a running profiler: the new
// period holds, and the CPU time of a busy process is neither lost nor doubled.
func TestUpdateArguments(t *testing.T) { trial.Run(t, tryUpdateArguments) }

func tryUpdateArguments(t *trial.T) {
	requireRoot(t)
	program := chainProgram(t, "hwupdate")
	server := startPyroscope(t)
	config := func(rate int) string {
		return strings.Replace(hostConfig(server.url, "update", ""), "= 97", fmt.Sprintf("= %d", rate), 1)
	}
	h := startHeadwater(t, config(100))
	busy := startChain(t, program, 120)
	before := cpuTime(t, fmt.Sprint(busy.pid()))
	for _, rate := range []int{400, 50, 200} {
		time.Sleep(3 * time.Second)
		writeFile(t, h.config, config(rate))
		if code, body := h.reload(t); code != http.StatusOK {
			t.Fatalf("/-/reload answers %d %q", code, body)
		}
	}
	time.Sleep(3 * time.Second)
	used := cpuTime(t, fmt.Sprint(busy.pid())) - before
	busy.kill(t)
	h.stop(t) // flushes

	p := server.profile(t, cpuProfile, `{service_name="update"}`, time.Time{})
	seen := time.Duration(total(ofCommand(stacks(p), "hwupdate")))
	if ratio := seen.Seconds() / used.Seconds(); ratio < 0.9 || ratio > 1.1 {
		t.Errorf("the profile holds %v of the process's %v", seen, used)
	}
}

// waitForService waits until a service has sent something.
func waitForService(t testing.TB, server *pyroscope, service string) {
	t.Helper()
	eventually(t, 30*time.Second, "service "+service+" is in Pyroscope", func() bool {
		p := server.profile(t, cpuProfile, fmt.Sprintf("{service_name=%q}", service), time.Time{})
		return len(p.Sample) > 0
	})
}
