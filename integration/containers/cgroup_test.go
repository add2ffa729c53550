package containers

import (
	"fmt"
	"os/exec"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/headwater/headwater/integration/testkit"
	"github.com/headwater/headwater/integration/testkit/need"
	"github.com/headwater/headwater/integration/testkit/rig"
)

// TestContainerTargets profiles a process without a container, in a cgroup with a name like Docker's. Its samples
// belong to the target with that ID. Samples of other processes belong to the default target, or to no target with
// targets_only.
func TestContainerTargets(t *testing.T) {
	need.Root(t)
	id := strings.Repeat("0123456789abcdef", 4)
	program := rig.ChainProgram(t, "hwcontainer")
	outside := rig.ChainProgram(t, "hwoutside")
	rig.StartInCgroup(t, "docker-"+id+".scope", exec.Command(program, "600", "20000000", "3"))
	rig.StartRestingChain(t, outside, 600)

	for _, only := range []bool{true, false} {
		t.Run(fmt.Sprintf("targets_only=%v", only), func(t *testing.T) {
			t.Parallel()
			server := rig.StartPyroscope(t)
			h := rig.StartHeadwater(t, fmt.Sprintf(`
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
`, server.URL, id, only))
			checkContainer(t, server, only)
			h.Stop(t)
		})
	}
}

func checkContainer(t testing.TB, server *rig.Pyroscope, only bool) {
	t.Helper()
	query := func(selector string) []rig.Stack {
		return rig.Stacks(server.Profile(t, rig.CPUProfile, selector, time.Time{}))
	}
	testkit.Eventually(t, "0.3 s of the container are in Pyroscope", func() bool {
		return rig.Total(rig.OfCommand(query(`{service_name="contained", team="river"}`), "hwcontainer")) >= 3e8
	})

	for _, s := range query(`{service_name="contained"}`) {
		if s.Frames[0].Name != "hwcontainer" {
			t.Errorf("a process that is not in the container has its labels: %v", s)
		}
	}
	services := server.LabelValues(t, "service_name")
	if only {
		if !slices.Equal(services, []string{"contained"}) {
			t.Errorf("targets_only is true, but the services are %q", services)
		}
		return
	}
	testkit.Eventually(t, "0.3 s of the process outside are in Pyroscope", func() bool {
		return rig.Total(rig.OfCommand(query(`{service_name="everything-else"}`), "hwoutside")) >= 3e8
	})

	if leaked := rig.OfCommand(query(`{service_name="everything-else"}`), "hwcontainer"); len(leaked) > 0 {
		t.Errorf("the container is in the default target as well:\n%s", rig.Show(leaked, 3))
	}
}
