package delivery

import (
	"fmt"
	"io"
	"os/exec"
	"path/filepath"
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/headwater/headwater/integration/testkit"
	"github.com/headwater/headwater/integration/testkit/need"
	"github.com/headwater/headwater/integration/testkit/rig"
)

// TestProbes: the samples of probe_links arrive in Pyroscope, each link under its own type: each call of a function,
// the sum of its arguments, and no samples of a link whose function does not exist, which does not affect other links.
func TestProbes(t *testing.T) {
	need.Tools(t, "gcc", "/usr/include/x86_64-linux-gnu/sys/sdt.h")
	t.Parallel()
	program := filepath.Join(t.TempDir(), "hwprobed")
	rig.Compile(t, "gcc", "-O1", "-g", "-o", program, "../../ebpf/source/probe/testdata/probed.c")
	server := sharedPyroscope(t)
	agent := rig.StartPrioritized(t, rig.HostConfig(server.URL, "probes", fmt.Sprintf(`
		u_probe_links = ["%[1]s:outer"]
		probe_links   = [
			"uprobe:%[1]s:work value=arg1 unit=bytes name=sold_bytes",
			"usdt:%[1]s:shop:sold",
			"uprobe:%[1]s:missing",
		]`, program)))
	defer agent.Stop(t)
	rig.WaitForService(t, server, "probes")
	testkit.Eventually(t, "probes are attached", func() bool {
		return agent.Metric(t, "pyroscope_ebpf_probes_attached") == 3
	})

	require.EqualValues(t, 1, agent.Metric(t, "pyroscope_ebpf_probes_failed"))
	const calls = 100
	since := time.Now()
	cmd := exec.Command(program, strconv.Itoa(calls))
	stdin, err := cmd.StdinPipe()
	require.NoError(t, err)
	require.NoError(t, cmd.Start())
	_, err = io.WriteString(stdin, "x")
	require.NoError(t, err)
	require.NoError(t, cmd.Wait())
	for profileType, want := range map[string]int64{
		"uprobe_outer:hits:count:hits:count":   calls,
		"sold_bytes:space:bytes:space:bytes":   calls / 10 * 45, // the arguments are 0 to 9, again and again
		"usdt_shop_sold:hits:count:hits:count": calls,
	} {
		got := int64(0)
		testkit.Eventually(t, profileType+" is in Pyroscope", func() bool {
			got = ofFunction(server.Profile(t, profileType, `{service_name="probes"}`, since), "outer")
			return got >= want
		})

		require.Equal(t, want, got, profileType)
	}
	require.Empty(t, refused(t, server))
}
