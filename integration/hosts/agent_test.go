package hosts

import (
	"os"
	"os/exec"
	"slices"
	"strings"
	"testing"

	"github.com/headwater/headwater/integration/testkit"
	"github.com/headwater/headwater/integration/testkit/need"
	"github.com/headwater/headwater/integration/testkit/rig"
)

// bothHosts is the configuration of headwater and of the Grafana Agent, the same to the
// letter: the address of the server comes from the environment.
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
	testkit.Nightly(t, "it needs a Grafana Agent; integration/conformance compares with what the Agent does")
	agent := os.Getenv("HEADWATER_AGENT")
	if agent == "" {
		t.Skip("HEADWATER_AGENT names no grafana-agent-flow; make -C integration agent-test builds one")
	}
	need.Root(t)
	program := rig.ChainProgram(t, "hwchain-hosts")
	rig.StartChain(t, program, 600)

	hosts := []struct {
		name   string
		binary string
		server *rig.Pyroscope
		*rig.Headwater
	}{{name: "headwater", binary: rig.Binary(t)}, {name: "agent", binary: agent}}
	for i := range hosts {
		h := &hosts[i]
		h.server = rig.StartPyroscope(t)
		h.Headwater = rig.LaunchHeadwater(t, bothHosts, func(cmd *exec.Cmd) {
			cmd.Path, cmd.Args[0] = h.binary, h.binary
			cmd.Env = append(os.Environ(), "PYROSCOPE_URL="+h.server.URL)
		})
	}
	for _, h := range hosts {
		h.Prioritize(t)
		h.WaitReady(t)
	}
	for _, h := range hosts {
		t.Run(h.name, func(t *testing.T) {
			rig.CheckChain(t, h.server, program)
			status, page := h.Get(t, rig.PagePath)
			if status != 200 || !strings.Contains(page, "pyroscope.ebpf.host") {
				t.Errorf("the component's page: status %d\n%.500s", status, page)
			}
			if refused := h.server.Discarded(t); refused != "" {
				t.Errorf("Pyroscope has refused profiles:\n%s", refused)
			}
		})
	}
	for _, label := range []string{"service_name", "cluster", "__profile_type__", "__name__", "pid", "comm"} {
		ours, theirs := hosts[0].server.LabelValues(t, label), hosts[1].server.LabelValues(t, label)
		if !slices.Equal(ours, theirs) {
			t.Errorf("label %s: headwater sends %q, the agent %q", label, ours, theirs)
		}
	}
	ours, theirs := healthyIDs(t, hosts[0].Headwater), healthyIDs(t, hosts[1].Headwater)
	if !slices.Equal(ours, theirs) {
		t.Errorf("components:\nheadwater %v\nagent     %v", ours, theirs)
	}
	for _, h := range hosts {
		h.Stop(t)
	}
}

// healthyIDs waits until three components are healthy, and returns their IDs.
func healthyIDs(t testing.TB, h *rig.Headwater) (ids []string) {
	t.Helper()
	testkit.Eventually(t, "all components are healthy", func() bool {
		n, unhealthy := h.Unhealthy(t)
		return n == 3 && len(unhealthy) == 0
	})

	for _, c := range h.Components(t) {
		ids = append(ids, c.ID)
	}
	slices.Sort(ids)
	return ids
}
