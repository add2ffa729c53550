package integration

import (
	"encoding/json"
	"os"
	"os/exec"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/headwater/headwater/ebpf/trial"
)

// bothHosts is a configuration for headwater and for the Grafana Agent. The
// address of the server comes from the environment, so that it is the same to
// the letter.
const bothHosts = `
logging {
	level = "info"
}

pyroscope.write "server" {
	endpoint {
		url = env("PYROSCOPE_URL")
	}
	external_labels = {"cluster" = "test"}
}

declare "settings" {
	argument "service" { }

	export "target" {
		value = {"service_name" = argument.service.value}
	}
}

settings "chain" {
	service = "chain"
}

pyroscope.ebpf "host" {
	forward_to       = [pyroscope.write.server.receiver]
	targets_only     = false
	default_target   = settings.chain.target
	collect_interval = "2s"
	sample_rate      = 97
}
`

// TestBothHosts runs one configuration in headwater and in the Grafana Agent that
// HEADWATER_AGENT names, at the same time and on the same program.
func TestBothHosts(t *testing.T) {
	agent := os.Getenv("HEADWATER_AGENT")
	if agent == "" {
		t.Skip("HEADWATER_AGENT names no grafana-agent-flow; make agent-test builds one")
	}
	trial.Run(t, func(t *trial.T) { tryBothHosts(t, agent) })
}

func tryBothHosts(t *trial.T, agent string) {
	requireRoot(t)
	program := chainProgram(t, "hwchain-hosts")
	startChain(t, program, 120)

	hosts := []struct {
		name   string
		binary string
		server *pyroscope
		*headwater
	}{{name: "headwater", binary: headwaterBinary(t)}, {name: "agent", binary: agent}}
	for i := range hosts {
		h := &hosts[i]
		h.server = startPyroscope(t)
		h.headwater = launchHeadwater(t, bothHosts, func(cmd *exec.Cmd) {
			cmd.Path, cmd.Args[0] = h.binary, h.binary
			cmd.Env = append(os.Environ(), "PYROSCOPE_URL="+h.server.url)
		})
	}
	for _, h := range hosts {
		h.waitReady(t)
	}
	for _, h := range hosts {
		t.Run(h.name, func(t *trial.T) {
			checkChain(t, h.server, program)
			if status, page := h.get(t, "/api/v0/component/pyroscope.ebpf.host/"); status != 200 || !strings.Contains(page, "pyroscope.ebpf.host") {
				t.Errorf("the component's page: status %d\n%.500s", status, page)
			}
			if refused := h.server.discarded(t); refused != "" {
				t.Errorf("Pyroscope has refused profiles:\n%s", refused)
			}
		})
	}
	for _, label := range []string{"service_name", "cluster", "__profile_type__", "__name__", "pid", "comm"} {
		ours, theirs := hosts[0].server.labelValues(t, label), hosts[1].server.labelValues(t, label)
		if !slices.Equal(ours, theirs) {
			t.Errorf("label %s: headwater sends %q, the agent %q", label, ours, theirs)
		}
	}
	ours, theirs := components(t, hosts[0].headwater), components(t, hosts[1].headwater)
	if !slices.Equal(ours, theirs) {
		t.Errorf("components:\nheadwater %v\nagent     %v", ours, theirs)
	}
	for _, h := range hosts {
		h.stop(t)
	}
}

// components returns the components that run, with their health.
func components(t testing.TB, h *headwater) []string {
	t.Helper()
	var found []string
	eventually(t, 20*time.Second, "all components are healthy", func() bool {
		_, body := h.get(t, "/api/v0/web/components")
		var answer []struct {
			LocalID string
			Health  struct{ State string }
		}
		if err := json.Unmarshal([]byte(body), &answer); err != nil {
			t.Fatalf("%v: %s", err, body)
		}
		found = nil
		healthy := true
		for _, c := range answer {
			found = append(found, c.LocalID)
			healthy = healthy && c.Health.State == "healthy"
		}
		slices.Sort(found)
		return healthy && len(found) == 3
	})
	return found
}
