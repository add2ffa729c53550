package server

import (
	"bytes"
	"encoding/json"
	"fmt"
	stdfnv "hash/fnv"
	"net/http"
	"testing"
	"time"

	"github.com/google/pprof/profile"
	"github.com/stretchr/testify/require"
)

// period of the samples of test profiles, in ns.
const testPeriod = 10_309_278

// getJSON asks for a path below api/.
func getJSON[T any](t *testing.T, base, query string) (out T) {
	t.Helper()
	answer, body := get(t, base+"/api/"+query)
	require.Equal(t, http.StatusOK, answer.StatusCode, body)
	require.Equal(t, "application/json", answer.Header.Get("Content-Type"))
	require.NoError(t, json.Unmarshal([]byte(body), &out))
	return out
}

func TestSeries(t *testing.T) {
	end := time.Now()
	base := serve(t, testPage(t, end)).URL + prefix
	got := getJSON[seriesAnswer](t, base, "series?target=fio")
	require.Equal(t, []string{"fio", "bash"}, got.Names)
	require.Len(t, got.From, 37)
	require.Equal(t, end.UnixMilli(), got.To[36])
	require.Equal(t, end.Add(-15*time.Second).UnixMilli(), got.From[36])
	require.EqualValues(t, 1140*1000/97, got.Values[0][36], "1140 samples at 97 a second")
	require.EqualValues(t, 15_000, got.Interval)

	got = getJSON[seriesAnswer](t, base, "series")
	require.Len(t, got.Names, 5)
	require.Equal(t, 11-5, got.Others)
	sum := got.Rest[3]
	for _, values := range got.Values {
		sum += values[3]
	}
	require.Equal(t, got.All[3], sum)

	got = getJSON[seriesAnswer](t, base, "series?by=target&range=1m")
	require.ElementsMatch(t, []string{"fio", "host_cpu"}, got.Names)
	got = getJSON[seriesAnswer](t, base, "series?process=bash")
	require.Equal(t, []string{"bash"}, got.Names)
	got = getJSON[seriesAnswer](t, base, "series?from=1&to=2")
	require.Empty(t, got.Names)
	require.NotNil(t, got.From)
}

func TestLongSeriesAreJoined(t *testing.T) {
	var bins []*bin
	for i := range int64(1000) {
		bins = append(bins, &bin{from: i, to: i + 1, all: 7, by: map[string]int64{"a": 7}})
	}
	got := joinBins(bins)
	require.Len(t, got, 200)
	require.Equal(t, bin{5, 10, 35, map[string]int64{"a": 35}}, *got[1])
}

func TestTop(t *testing.T) {
	base := serve(t, testPage(t, time.Now())).URL + prefix
	got := getJSON[topAnswer](t, base, "top?target=fio&range=last&limit=2")
	require.Len(t, got.Functions, 2)
	require.Equal(t, "_copy_to_iter", got.Functions[0].Name)
	require.EqualValues(t, 620*testPeriod, got.Functions[0].Self)
	require.EqualValues(t, 1152*testPeriod, got.Total)
	require.Equal(t, "nanoseconds", got.Unit)
	require.Greater(t, got.Count, 10)
	got = getJSON[topAnswer](t, base, "top?target=fio&range=last&sort=total&limit=1")
	require.Equal(t, "__libc_start_main.isra.0", got.Functions[0].Name)
	require.EqualValues(t, 1152*testPeriod, got.Functions[0].Total)
}

func TestSandwich(t *testing.T) {
	base := serve(t, testPage(t, time.Now())).URL + prefix
	got := getJSON[sandwichAnswer](t, base, "sandwich?target=fio&range=last&function=io_submit")
	require.EqualValues(t, 750*testPeriod, got.Total)
	require.EqualValues(t, 1152*testPeriod, got.All)
	require.Equal(t, got.Total, got.Callers.Total*got.Callers.Scale)
	require.Equal(t, got.Total, got.Callees.Total*got.Callees.Scale)
	require.Contains(t, got.Callers.Strings, "fio+0x61d02")
	require.NotContains(t, got.Callers.Strings, "filemap_read")
	require.Contains(t, got.Callees.Strings, "filemap_read")
	require.NotContains(t, got.Callees.Strings, "fio+0x61d02")
}

func TestProcessesAndHealth(t *testing.T) {
	base := serve(t, testPage(t, time.Now())).URL + prefix
	got := getJSON[processesAnswer](t, base, "processes?range=last&target=fio")
	require.Len(t, got.Targets, 2)
	require.Equal(t, []nameState{
		{"fio", 1140, 1140, 1139, 1140. / 1152, []uint32{4711, 4712}}, {"bash", 12, 12, 12, 12. / 1152, []uint32{99}},
	}, got.Processes)
	require.EqualValues(t, 1152, got.Samples)

	health := getJSON[healthAnswer](t, base, "health")
	require.True(t, health.Healthy)
	require.EqualValues(t, 232_791, health.Delivered)
	require.Equal(t, "complete", health.Outcomes[0].Name)
	require.Equal(t, 74, health.History.Profiles)
}

func TestFiltersOfSamples(t *testing.T) {
	base := serve(t, testPage(t, time.Now())).URL + prefix
	for query, want := range map[string]int64{
		"focus=io_submit": 750, "ignore=filemap_read": 402, "focus=io_submit&ignore=_copy_to_iter": 130, "pid=4712": 300,
	} {
		got := getJSON[topAnswer](t, base, "top?target=fio&range=last&"+query)
		require.Equal(t, want*testPeriod, got.Total, query)
	}
}

func TestThreads(t *testing.T) {
	p, err := profile.ParseData(testProfile(t, time.Now(),
		testStack{comm: "x", frames: []string{"main"}, value: 3}, testStack{comm: "x", frames: []string{"run"}, value: 5}))
	require.NoError(t, err)
	p.Sample[0].Label["thread_name"] = []string{"http-1"}
	p.Sample[0].NumLabel = map[string][]int64{"thread_id": {4713}}
	for thread, want := range map[string]int{"http-1": 1, "4713": 1, "4714": 0} {
		some := p.Copy()
		filter{thread: thread}.apply(some)
		require.Len(t, some.Sample, want, thread)
	}
}

// The subtree of a node is a request of its own.
func TestTreeBelow(t *testing.T) {
	base := serve(t, testPage(t, time.Now())).URL + prefix
	type tree struct {
		Total, Scale int64
		Root         string
	}
	// FNV-1a of "fio\0/usr/bin/fio\0": the process is the outermost frame.
	got := getJSON[tree](t, base, "tree?target=fio&range=last&min=0&max=50&root="+fnv("fio\x00/usr/bin/fio\x00"))
	require.EqualValues(t, 1140*testPeriod, got.Total*got.Scale)
	require.Len(t, got.Root, 16)
}

func TestWrongParameters(t *testing.T) {
	base := serve(t, testPage(t, time.Now())).URL + prefix
	for query, status := range map[string]int{
		"api/top?sort=x": 400, "api/top?limit=0": 400, "api/top?focus=(": 400, "api/series?by=x": 400,
		"api/sandwich": 400, "api/sandwich?function=nothing": 404, "api/tree?root=x": 400, "api/tree?min=99": 400,
		"api/tree?root=0000000000000000": 404, "api/top?kind=off-cpu": 410, "api/nothing": 404, "api/top?thread=nobody": 404,
		"api/processes?range=1y": 400, "profile?format=x": 400, "profile?seconds=x": 400, "profile?seconds=1e9": 400,
		"profile?target=nobody": 404, "profile?seconds=1&from=1&to=2": 400, "profile?process=nobody": 404,
		"profile?format=trace": 422, // kept profiles have no times of samples
	} {
		answer, body := get(t, base+"/"+query)
		require.Equal(t, status, answer.StatusCode, "%s: %s", query, body)
	}
}

func TestProfileInFormats(t *testing.T) {
	base := serve(t, testPage(t, time.Now())).URL + prefix
	answer, body := get(t, base+"/profile?target=fio&seconds=20")
	require.Equal(t, http.StatusOK, answer.StatusCode)
	p, err := profile.Parse(bytes.NewReader([]byte(body)))
	require.NoError(t, err)
	require.EqualValues(t, 2*1152*testPeriod, pprofTotal(p), "two rounds cover 20 s")
	require.EqualValues(t, 30*time.Second, p.DurationNanos)
	for format, want := range map[string]string{
		"folded": "fio;", "html": "<!DOCTYPE html>", "speedscope": "speedscope.app", "gecko": `"meta"`,
		"svg": "<svg", "json": "{",
	} {
		answer, body := get(t, base+"/profile?target=fio&range=last&format="+format)
		require.Equal(t, http.StatusOK, answer.StatusCode, "%s: %.300s", format, body)
		requireText(t, body, want, format)
		require.Contains(t, answer.Header.Get("Content-Disposition"), "fio-")
	}
}

// A fresh profile is of rounds that end after the request.
func TestFreshProfile(t *testing.T) {
	page := testPage(t, time.Now().Add(-time.Second))
	base := serve(t, page).URL + prefix
	done := make(chan string)
	go func() {
		answer, err := http.Get(base + "/profile?target=fio&seconds=0.01&fresh=1")
		if err != nil {
			done <- err.Error()
			return
		}
		defer answer.Body.Close()
		p, err := profile.Parse(answer.Body)
		if err != nil {
			done <- err.Error()
			return
		}
		done <- time.Duration(pprofTotal(p) / testPeriod).String()
	}()
	for { // the request may come after a round
		now := time.Now().Add(time.Second)
		page.Add(now.Add(-15*time.Second), now, []Profile{fioProfile(t, now)})
		select {
		case got := <-done:
			samples, err := time.ParseDuration(got)
			require.NoError(t, err)
			require.Zero(t, int64(samples)%1152)
			require.NotZero(t, samples)
			return
		case <-time.After(50 * time.Millisecond):
		}
	}
}

func TestCacheIsBoundedInBytes(t *testing.T) {
	c := viewCache[*answer]{maxBytes: 10_000}
	build := func() (*answer, error) { return &answer{data: make([]byte, 4_000)}, nil }
	for _, key := range []string{"a", "b", "a", "c"} {
		_, err := c.getView(t.Context(), key, build)
		require.NoError(t, err)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	require.LessOrEqual(t, c.bytes(), int64(10_000))
	require.NotContains(t, c.views, "b", "the one that was used longest ago")
}

// fnv is what api/tree calls a node, by the standard library.
func fnv(path string) string {
	h := stdfnv.New64a()
	h.Write([]byte(path))
	return fmt.Sprintf("%016x", h.Sum64())
}
