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

	"github.com/headwater/headwater/integration/lab"
	"github.com/headwater/headwater/integration/testkit/need"
)

// hostConfig profiles the whole host as often as is usual, for its page alone.
const hostConfig = `
pyroscope.ebpf "host" {
	forward_to     = []
	targets_only   = false
	default_target = {"service_name" = "host"}
}
`

// Of the looks at a flame graph before which nobody looked.
const (
	firstLooks = 5
	// After that, the server has nothing left of looks before. It is a multiple of the 15 s after which profiles come,
	// so that what these take is not taken for a part of a look.
	forgotten = 75 * time.Second
)

// hostSeconds is how long the host is profiled, unless HEADWATER_HOST_SECONDS says otherwise.
const hostSeconds = 30

// sentTree asks for a flame graph, compressed as it is for browsers, and returns its size and what it says.
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

// inflated decompresses what was sent.
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
// any, and reports what the flame graph of that costs: KB as it is sent, and milliseconds of CPU that the server takes
// to make it: the first one, and those after it, each of a range of its own, so that no answer is there already. From
// all CPU time of the server it subtracts what profiling took meanwhile, by the rate of a whole interval before.
func BenchmarkHostTree(b *testing.B) {
	need.Root(b)
	seconds := hostSeconds
	if text := os.Getenv("HEADWATER_HOST_SECONDS"); text != "" {
		var err error
		seconds, err = strconv.Atoi(text)
		require.NoError(b, err)
	}
	h := lab.StartHeadwater(b, hostConfig)
	began := time.Now()
	if load := os.Getenv("HEADWATER_HOST_LOAD"); load != "" {
		lab.Start(b, exec.Command("../load", load, strconv.Itoa(seconds)))
	}
	end := began.Add(time.Duration(seconds)*time.Second + 5*time.Second) // the last round is there
	address := func(i int) string {
		return fmt.Sprintf("%s%sapi/tree?from=%d&to=%d", h.URL, lab.PagePath, began.UnixMilli()-int64(i), end.UnixMilli())
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

// cpuMeter measures the CPU time that a process takes for what it is asked.
type cpuMeter struct {
	b    *testing.B
	pid  int
	rate float64 // of CPU time that it takes anyway
}

// observe measures what the process takes if it is asked nothing.
func (m *cpuMeter) observe(during time.Duration) {
	m.b.Helper()
	begun, before := time.Now(), m.total()
	time.Sleep(during)
	m.rate = float64(m.total()-before) / float64(time.Since(begun))
}

// spent returns what the process takes while something is done, without what it takes anyway.
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
