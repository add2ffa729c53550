package ebpf

import (
	"bytes"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/go-kit/log"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	"github.com/stretchr/testify/require"

	"github.com/headwater/headwater/flame/compare"
	"github.com/headwater/headwater/flame/server"
)

// testChange is a change that made price more expensive and parse less.
func testChange(program string) server.Change {
	high, less := 1.8, 0.7
	return server.Change{
		Service: "shop", Program: program, Old: "aaa", New: "bbb", Began: time.Unix(1_700_000_000, 0),
		Report: &compare.Report{
			Per: compare.PerSecond, All: compare.Change{Base: 2, New: 3},
			Changed: []compare.Change{{Name: "price", Low: 1.2, High: &high}, {Name: "parse", Low: 0.5, High: &less}},
		},
	}
}

// TestBuildMetrics: two programs whose names become one have one series, so that no metric is lost to it.
func TestBuildMetrics(t *testing.T) {
	early := testChange("/usr/bin/early")
	early.Report = nil
	both := testChange("/usr/bin/both")
	both.Both = true
	fresh := testChange("/usr/bin/fresh")
	fresh.Report.All.Base = 0
	changes := []server.Change{testChange("/bin/\xff"), testChange("/bin/\xfe"), early, both, fresh}
	registry := prometheus.NewRegistry()
	registry.MustRegister(newBuildCollector(func() ([]server.Change, uint64) { return changes, 7 }))
	got, err := registry.Gather()
	require.NoError(t, err)
	for _, family := range got {
		for _, m := range family.Metric {
			require.False(t, math.IsInf(m.GetGauge().GetValue(), 0), family.GetName())
		}
	}
	const ratio, functions = "pyroscope_ebpf_build_change_cpu_ratio", "pyroscope_ebpf_build_change_functions"
	want := "# HELP " + ratio +
		" CPU time per second of the newest build of a program, divided by the value of the previous build.\n" +
		"# TYPE " + ratio + " gauge\n" + ratio + "{executable=\"/bin/\uFFFD\",service_name=\"shop\"} 1.5\n"
	require.NoError(t, testutil.GatherAndCompare(registry, strings.NewReader(want), ratio))
	n, err := testutil.GatherAndCount(registry, functions)
	require.NoError(t, err)
	require.Equal(t, 3*2, n)
}

// TestBuildLog: each change is logged once when it is seen, and once when it is certain.
func TestBuildLog(t *testing.T) {
	var out bytes.Buffer
	logger, l := log.NewLogfmtLogger(&out), &buildLog{}
	change := testChange("/usr/bin/shopd")
	report := change.Report
	change.Report = nil
	l.logChanges(logger, []server.Change{change})
	change.Report = report
	l.logChanges(logger, []server.Change{change})
	change.Report = &compare.Report{} // no longer certain
	l.logChanges(logger, []server.Change{change})
	change.Report = report
	l.logChanges(logger, []server.Change{change})
	lines := strings.Split(strings.TrimSpace(out.String()), "\n")
	require.Len(t, lines, 2, out.String())
	require.Contains(t, lines[0], `msg="a program has a new build" service_name=shop executable=/usr/bin/shopd`)
	require.Contains(t, lines[1], `level=warn`)
	require.Contains(t, lines[1], `more_expensive=1 less_expensive=1 first="price: 1.20 to 1.80 times as much CPU"`)

	info := debugBuilds([]server.Change{change})
	require.Equal(t, []string{"price"}, info[0].More)
	require.Equal(t, []string{"parse"}, info[0].Less)
}
