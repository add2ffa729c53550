package tools

import (
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/headwater/headwater/integration/testkit/need"
	"github.com/headwater/headwater/integration/testkit/rig"
)

// TestLabels: samples of a program that may run on only one CPU have that CPU and its node as labels, and report groups
// by them.
func TestLabels(t *testing.T) {
	t.Parallel()
	need.Tools(t, "taskset")
	nodes, err := filepath.Glob("/sys/devices/system/cpu/cpu0/node*")
	require.NoError(t, err)
	node := "0" // a kernel without nodes
	if len(nodes) == 1 {
		node = strings.TrimPrefix(filepath.Base(nodes[0]), "node")
	}
	program := chain(t, "hwlabels")
	folder, _, _, code := record(t, "-F", "499", "--label", "cpu,numa_node", "--", "taskset", "-c", "0", program, "2")
	require.Equal(t, 0, code)
	p := readProfile(t, folder, "headwater.pb.gz")
	on := map[string]int64{}
	for _, s := range p.Sample {
		require.Equal(t, []string{node}, s.Label["numa_node"])
		require.Len(t, s.Label["cpu"], 1)
		on[s.Label["cpu"][0]] += s.Value[len(s.Value)-1]
	}
	total := int64(0)
	for _, value := range on {
		total += value
	}
	require.Greater(t, float64(on["0"]), 0.9*float64(total), "taskset itself may have begun elsewhere: %v", on)

	file := filepath.Join(folder, "headwater.pb.gz")
	out, err := exec.Command(rig.Binary(t), "report", "--by", "numa_node", file).Output()
	require.NoError(t, err)
	require.Regexp(t, `(?m)^ *100\.0 %  `+node+`$`, string(out))
	_, errs, code := headwater(t, "report", "--by", "colour", file)
	require.Equal(t, 2, code)
	require.Contains(t, errs, `no sample has the label "colour"`)
	_, errs, code = headwater(t, "record", "--label", "colour", "-a")
	require.Equal(t, 2, code)
	require.Contains(t, errs,
		`--label: there is no label "colour"; the labels are pid, thread_name, thread_id, cpu, numa_node, waker`)
	_, errs, code = headwater(t, "record", "--label", "waker", "-a")
	require.Equal(t, 2, code)
	require.Contains(t, errs, `--label waker needs waits: add -e off-cpu or -e wall`)
}

// headwater runs headwater.
func headwater(t testing.TB, args ...string) (stdout, stderr string, code int) {
	t.Helper()
	var out, errs strings.Builder
	cmd := exec.Command(rig.Binary(t), args...)
	cmd.Stdout, cmd.Stderr = &out, &errs
	_ = cmd.Run() // the exit code says how it went
	return out.String(), errs.String(), cmd.ProcessState.ExitCode()
}
