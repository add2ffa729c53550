package page

import (
	"bytes"
	"compress/gzip"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/headwater/headwater/integration/testkit/need"
	"github.com/headwater/headwater/integration/testkit/rig"
)

// hostConfig profiles the whole host at the usual rate, only for its page.
const hostConfig = `
pyroscope.ebpf "host" {
	forward_to     = []
	targets_only   = false
	default_target = {"service_name" = "host"}
}
`

// The measurement of flame graphs that were not requested recently.
const (
	firstLooks = 5
	// After this time, the server has dropped all earlier views. It is a multiple of the 15 s after which profiles
	// arrive, so that their cost is not counted for a view.
	forgotten = 75 * time.Second
)

// hostSeconds is how long the host is profiled, unless HEADWATER_HOST_SECONDS says otherwise.
const hostSeconds = 30

// sentTree requests a flame graph, compressed like for browsers, and returns its size and contents.
func sentTree(b *testing.B, address string) (size int, tree hostTree) {
	b.Helper()
	request, err := http.NewRequest(http.MethodGet, address, nil)
	require.NoError(b, err)
	request.Header.Set("Accept-Encoding", "gzip") // said by hand, it is not undone
	answer, err := http.DefaultClient.Do(request)
	require.NoError(b, err)
	defer answer.Body.Close()
	body, err := io.ReadAll(answer.Body)
	require.NoError(b, err)
	require.Equal(b, http.StatusOK, answer.StatusCode, "%s", body)
	require.Equal(b, "gzip", answer.Header.Get("Content-Encoding"))
	require.NoError(b, json.Unmarshal(inflated(b, body), &tree))
	return len(body), tree
}

// inflated decompresses a response.
func inflated(b *testing.B, data []byte) []byte {
	b.Helper()
	r, err := gzip.NewReader(bytes.NewReader(data))
	require.NoError(b, err)
	text, err := io.ReadAll(r)
	require.NoError(b, err)
	return text
}

// hostTree is what the benchmark wants to know of a flame graph.
type hostTree struct {
	Samples, Profiles, Of int
	Nodes                 struct{ Frame []int }
	Omitted               struct{ Nodes int }
}

// BenchmarkHostTree profiles the host while it runs the programs of integration/load that HEADWATER_HOST_LOAD names, if
// any, and reports the cost of its flame graph: KB as sent, and milliseconds of CPU that the server takes to make it:
// for the first one, and for later ones, each with a different range, so that no answer is cached. From all CPU time of
// the server it subtracts the cost of profiling in the same time, by the rate of a whole interval before.
func BenchmarkHostTree(b *testing.B) {
	need.Root(b)
	seconds := hostSeconds
	if text := os.Getenv("HEADWATER_HOST_SECONDS"); text != "" {
		var err error
		seconds, err = strconv.Atoi(text)
		require.NoError(b, err)
	}
	h := rig.StartHeadwater(b, hostConfig)
	began := time.Now()
	if load := os.Getenv("HEADWATER_HOST_LOAD"); load != "" {
		rig.Start(b, exec.Command("../load", load, strconv.Itoa(seconds)))
	}
	end := began.Add(time.Duration(seconds)*time.Second + 5*time.Second) // the last round is there
	address := func(i int) string {
		return fmt.Sprintf("%s%sapi/tree?from=%d&to=%d", h.URL, rig.PagePath, began.UnixMilli()-int64(i), end.UnixMilli())
	}
	time.Sleep(time.Until(end))
	server := cpuMeter{b: b, pid: h.PID()}
	server.observe(15 * time.Second)
	var size int
	var tree hostTree
	var first []time.Duration
	asked := 0
	for range firstLooks {
		if asked > 0 {
			time.Sleep(forgotten)
		}
		asked++
		first = append(first, server.spent(func() { size, tree = sentTree(b, address(asked)) }))
	}
	slices.Sort(first)
	others := server.spent(func() {
		for b.Loop() {
			asked++
			sentTree(b, address(asked))
		}
	})
	b.ReportMetric(max(0, others.Seconds()*1000/float64(asked-firstLooks)), "ms-cpu/op")
	b.ReportMetric(max(0, first[firstLooks/2].Seconds()*1000), "first-ms-cpu")
	b.ReportMetric(server.rate*100, "percent-profiling")
	b.ReportMetric(float64(size)/1000, "KB")
	b.ReportMetric(float64(tree.Samples), "samples")
	b.ReportMetric(float64(len(tree.Nodes.Frame)), "nodes")
	b.ReportMetric(float64(tree.Omitted.Nodes), "folded")
	b.ReportMetric(float64(tree.Profiles)/float64(tree.Of), "profiles-part")
	h.Stop(b)
}

// cpuMeter measures the CPU time that a process takes for requests.
type cpuMeter struct {
	b    *testing.B
	pid  int
	rate float64 // CPU use without requests
}

// observe measures the CPU use of the process without requests.
func (m *cpuMeter) observe(during time.Duration) {
	m.b.Helper()
	begun, before := time.Now(), m.total()
	time.Sleep(during)
	m.rate = float64(m.total()-before) / float64(time.Since(begun))
}

// spent returns the CPU time of the process during do, without its use in the absence of requests.
func (m *cpuMeter) spent(do func()) time.Duration {
	m.b.Helper()
	begun, before := time.Now(), m.total()
	do()
	return m.total() - before - time.Duration(m.rate*float64(time.Since(begun)))
}

// total returns the CPU time of all threads, which schedstat has in ns.
func (m *cpuMeter) total() (sum time.Duration) {
	m.b.Helper()
	threads, err := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/schedstat", m.pid))
	require.NoError(m.b, err)
	require.NotEmpty(m.b, threads)
	for _, thread := range threads {
		text, err := os.ReadFile(thread)
		require.NoError(m.b, err)
		var ns int64
		_, err = fmt.Sscan(string(text), &ns)
		require.NoError(m.b, err)
		sum += time.Duration(ns)
	}
	return sum
}
