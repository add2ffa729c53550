package tools

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/headwater/headwater/integration/testkit"
	"github.com/headwater/headwater/integration/testkit/need"
)

// TestProbes: each call of a function is in the recording, with its caller, and what its argument adds up to.
func TestProbes(t *testing.T) {
	t.Parallel()
	need.Tools(t, "gcc", "/usr/include/x86_64-linux-gnu/sys/sdt.h")
	program := compiled(t, "hwprobed", "gcc", "-O1", "-g", "../../ebpf/source/probe/testdata/probed.c")
	// The program waits until headwater has heard of it: on a busy machine it would have ended before.
	begin := "sleep 2; printf x"
	if testkit.IsNightly() {
		begin = "printf x"
	}
	command := []string{"--", "sh", "-c", fmt.Sprintf("(%s) | %s 100", begin, program)}
	for _, probe := range []struct {
		link, typ, unit, says string
		value                 float64
	}{
		{"uprobe:" + program + ":work", "hits", "count", "100 samples in .*, one for each hit, until", 100},
		{"usdt:" + program + ":shop:sold", "hits", "count", "100 samples in .*, one for each hit, until", 100},
		// The arguments are 0 to 9, repeatedly; 0 adds no bytes.
		{"uprobe:" + program + ":work value=arg1 unit=bytes", "space", "bytes",
			"90 samples in .*, one for each hit, 450 bytes in all, until", 450},
	} {
		t.Run(probe.link[:strings.Index(probe.link, ":")]+" "+probe.unit, func(t *testing.T) {
			t.Parallel()
			folder, _, stderr, code := record(t, append([]string{"-e", probe.link}, command...)...)
			require.Equal(t, 0, code, stderr)
			require.Regexp(t, probe.says, stderr)
			require.Regexp(t, "100.0 % of stacks are whole, 0 samples were lost", stderr)
			p := readProfile(t, folder, "headwater.pb.gz")
			require.Equal(t, probe.typ, p.SampleType[len(p.SampleType)-1].Type)
			require.Equal(t, probe.unit, p.SampleType[len(p.SampleType)-1].Unit)
			require.Equal(t, probe.value, valueOf(p, "outer", probe.typ), "the caller")
		})
	}
	_, _, stderr, code := record(t, append([]string{"-e", "uprobe:" + program + ":worc"}, command...)...)
	require.Equal(t, 2, code)
	require.Contains(t, stderr, `has no function "worc": see nm -D`)
}
