package integration

import (
	"fmt"
	"os/exec"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/headwater/headwater/ebpf/trial"
)

// TestContainerTargets profiles a process in a cgroup that is named as
// Docker names a container's, without a container around it: its samples belong to the target with that ID,
// those of others to the default target, or to nobody with targets_only.
func TestContainerTargets(t *testing.T) { trial.Run(t, tryContainerTargets) }

func tryContainerTargets(t *trial.T) {
	requireRoot(t)
	id := strings.Repeat("0123456789abcdef", 4)
	program := chainProgram(t, "hwcontainer")
	outside := chainProgram(t, "hwoutside")
	startInCgroup(t, "docker-"+id+".scope", exec.Command(program, "120"))
	startChain(t, outside, 120)

	for _, only := range []bool{true, false} {
		t.Run(fmt.Sprintf("targets_only=%v", only), func(t *trial.T) {
			server := startPyroscope(t)
			h := startHeadwater(t, fmt.Sprintf(`
pyroscope.write "server" {
	endpoint {
		url = %q
	}
}

pyroscope.ebpf "containers" {
	forward_to       = [pyroscope.write.server.receiver]
	targets          = [{"__container_id__" = %q, "service_name" = "contained", "team" = "river"}]
	default_target   = {"service_name" = "everything-else"}
	targets_only     = %v
	collect_interval = "1s"
}
`, server.url, id, only))
			checkContainer(t, server, only)
			h.stop(t)
		})
	}
}

func checkContainer(t testing.TB, server *pyroscope, only bool) {
	t.Helper()
	query := func(selector string) []stack {
		return stacks(server.profile(t, cpuProfile, selector, time.Time{}))
	}
	eventually(t, 30*time.Second, "2 s of the container are in Pyroscope", func() bool {
		return total(ofCommand(query(`{service_name="contained", team="river"}`), "hwcontainer")) >= 2e9
	})
	for _, s := range query(`{service_name="contained"}`) {
		if s.frames[0].name != "hwcontainer" {
			t.Errorf("a process that is not in the container has its labels: %v", s)
		}
	}
	services := server.labelValues(t, "service_name")
	if only {
		if !slices.Equal(services, []string{"contained"}) {
			t.Errorf("targets_only is true, but the services are %q", services)
		}
		return
	}
	eventually(t, 20*time.Second, "1 s of the process outside is in Pyroscope", func() bool {
		return total(ofCommand(query(`{service_name="everything-else"}`), "hwoutside")) >= 1e9
	})
	if leaked := ofCommand(query(`{service_name="everything-else"}`), "hwcontainer"); len(leaked) > 0 {
		t.Errorf("the container is in the default target as well:\n%s", show(leaked, 3))
	}
}
