package numa

import (
	"os"
	"path/filepath"
	"runtime"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestNodes(t *testing.T) {
	dir := t.TempDir()
	write := func(node, list string) {
		require.NoError(t, os.MkdirAll(filepath.Join(dir, node), 0o755))
		require.NoError(t, os.WriteFile(filepath.Join(dir, node, "cpulist"), []byte(list+"\n"), 0o644))
	}
	require.Equal(t, int32(0), New(dir).Of(7), "a kernel without nodes")
	write("node0", "0-1,8-9")
	write("node1", "2-3")
	write("node12", "4")
	write("node2", "") // only memory
	write("node3", "x")
	n := New(dir)
	for cpu, want := range map[uint32]int32{0: 0, 1: 0, 2: 1, 3: 1, 4: 12, 8: 0, 9: 0, 5: -1, 10: -1} {
		require.Equal(t, want, n.Of(cpu), "CPU %d", cpu)
	}
	write("node1", "2-3,5")
	require.Equal(t, int32(-1), n.Of(5), "read a moment ago")
	n.read = n.read.Add(-again)
	require.Equal(t, int32(1), n.Of(5), "a CPU that has come online")
}

// TestThisHost: each CPU of this host has a node, or none has.
func TestThisHost(t *testing.T) {
	n := New(Sysfs)
	for cpu := range uint32(runtime.NumCPU()) {
		require.GreaterOrEqual(t, n.Of(cpu), int32(0), "CPU %d", cpu)
	}
}

func TestParseCPUs(t *testing.T) {
	cpus, err := ParseCPUs("0-2,7")
	require.NoError(t, err)
	require.Equal(t, []uint32{0, 1, 2, 7}, cpus)
	for _, list := range []string{"x", "1-", "3-1", "0-99999999", "-1", ","} {
		_, err := ParseCPUs(list)
		require.ErrorContains(t, err, "no list of CPUs", list)
	}
}
