package server

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/pprof/profile"
	"github.com/stretchr/testify/require"

	"github.com/headwater/headwater/flame/tree"
)

// getTree asks for the data of a flame graph.
func getTree(t testing.TB, address string) treeAnswer {
	t.Helper()
	answer, body := get(t, address)
	require.Equal(t, http.StatusOK, answer.StatusCode, body)
	require.Equal(t, "application/json", answer.Header.Get("Content-Type"))
	tree := treeAnswer{Tree: &tree.Tree{}}
	require.NoError(t, json.Unmarshal([]byte(body), &tree))
	return tree
}

// totals returns self and total of each function, in the profile's unit.
func totals(tree *tree.Tree) map[string][2]int64 {
	out := map[string][2]int64{}
	for i, name := range tree.Frames.Name {
		out[tree.Strings[name]] = [2]int64{tree.Frames.Self[i] * tree.Scale, tree.Frames.Total[i] * tree.Scale}
	}
	return out
}

func TestFlame(t *testing.T) {
	server := serve(t, testPage(t, time.Now()))
	answer, body := get(t, server.URL+prefix+"/open?range=1m&target="+fioID())
	require.Equal(t, http.StatusOK, answer.StatusCode)
	require.Equal(t, prefix+"/flame", answer.Request.URL.Path)
	require.NotContains(t, answer.Header.Get("Content-Security-Policy"), "unsafe")
	require.Contains(t, body, "<title>Flame graph of fio · Headwater</title>")
	require.Contains(t, visible(body), "4,608 samples")
	require.Regexp(t, `href="\./download\?from=\d+&amp;target=[0-9a-f]+&amp;to=\d+"`, body)
	again, _ := get(t, server.URL+prefix+"/flame?range=1m&target="+fioID())
	require.Equal(t, answer.Request.URL.String(), again.Request.URL.String(), "times are made absolute")

	data, err := answer.Request.URL.Parse("./api/tree?" + answer.Request.URL.RawQuery)
	require.NoError(t, err)
	require.Contains(t, body, `data-tree="./api/tree?`+strings.ReplaceAll(answer.Request.URL.RawQuery, "&", "&amp;")+`"`)
	tree := getTree(t, data.String())
	require.Equal(t, "fio", tree.Target)
	require.Equal(t, uint64(4*1152), tree.Samples)
	require.Equal(t, 4, tree.Used)
	require.Equal(t, 4, tree.Of)

	const period = 10_309_278
	require.Equal(t, int64(4*1152*period), tree.Total*tree.Scale)
	sums := totals(tree.Tree)
	require.Equal(t, [2]int64{4 * 620 * period, 4 * 620 * period}, sums["_copy_to_iter"])
	require.Equal(t, [2]int64{0, 4 * 840 * period}, sums["do_syscall_64"])
	require.Equal(t, [2]int64{0, 4 * 1140 * period}, sums["fio"])
	kinds := map[string]string{}
	for i, name := range tree.Frames.Name {
		kinds[tree.Strings[name]] = tree.Kinds.Name[tree.Frames.Kind[i]]
	}
	require.Equal(t, "kernel", kinds["do_syscall_64"])
	require.Equal(t, "native", kinds["io_submit"])
	require.Equal(t, "unnamed", kinds["fio+0x8a2c1"])
}

// A flame graph is of the selected process, and the same samples as in the pprof file.
func TestFlameOfAProcess(t *testing.T) {
	server := serve(t, testPage(t, time.Now()))
	const selected = "?range=5m&process=fio&pid=4712&target="
	tree := getTree(t, server.URL+prefix+"/api/tree"+selected+fioID())
	require.Equal(t, "fio pid 4712", tree.Process)
	require.Equal(t, uint64(20*300), tree.Samples)
	_, body := get(t, server.URL+prefix+"/download"+selected+fioID())
	p, err := profile.ParseData([]byte(body))
	require.NoError(t, err)
	var sum int64
	for _, s := range p.Sample {
		sum += s.Value[0]
	}
	require.Equal(t, sum, tree.Total*tree.Scale)

	grouped := getTree(t, server.URL+prefix+"/api/tree?range=last&tagroot=pid&target="+fioID())
	require.Equal(t, int64(300*10_309_278), totals(grouped.Tree)["pid=4712"][1])
}

func TestTreeIsCompressed(t *testing.T) {
	server := serve(t, testPage(t, time.Now()))
	ask := func(accepted string) (*http.Response, []byte) {
		r, err := http.NewRequest(http.MethodGet, server.URL+prefix+"/api/tree", nil)
		require.NoError(t, err)
		r.Header.Set("Accept-Encoding", accepted)
		answer, err := http.DefaultTransport.RoundTrip(r)
		require.NoError(t, err)
		defer answer.Body.Close()
		body, err := io.ReadAll(answer.Body)
		require.NoError(t, err)
		require.Equal(t, "Accept-Encoding", answer.Header.Get("Vary"))
		return answer, body
	}
	for accepted, want := range map[string]string{
		"gzip": "gzip", "br, gzip;q=0.5": "gzip", "identity": "", "gzip;q=0": "", "br": "",
	} {
		answer, body := ask(accepted)
		require.Equal(t, want, answer.Header.Get("Content-Encoding"), accepted)
		require.Equal(t, want == "", json.Valid(body), accepted)
	}
}

func TestTreeRefusals(t *testing.T) {
	server := serve(t, testPage(t, time.Now()))
	for query, want := range map[string]struct {
		status int
		text   string
	}{
		"range=1y":            {400, `unknown range "1y"`},
		"pid=x":               {400, `pid "x" is not a number`},
		"from=1":              {400, `to "" is not a time in milliseconds`},
		"from=x&to=2":         {400, `from "x" is not a time in milliseconds`},
		"from=2&to=2":         {400, "the time from 2 to 2 is empty"},
		"from=1&to=2":         {410, "These profiles are no longer kept."},
		"target=ffffffffffff": {410, "These profiles are no longer kept."},
		"range=last&process=nobody": {404, "No sample of these profiles matches. Threads need " +
			"thread_name_label = true, and PIDs pid_label = true."},
	} {
		answer, body := get(t, server.URL+prefix+"/api/tree?"+query)
		require.Equal(t, want.status, answer.StatusCode, query)
		require.Equal(t, "application/json", answer.Header.Get("Content-Type"), query)
		text, err := json.Marshal(map[string]string{"error": want.text})
		require.NoError(t, err)
		require.JSONEq(t, string(text), body, query)

		answer, body = get(t, server.URL+prefix+"/flame?"+query)
		require.GreaterOrEqual(t, answer.StatusCode, 400, query)
		require.Contains(t, answer.Header.Get("Content-Type"), "text/html", query)
		require.Contains(t, body, "Back to the overview", query)
	}
}

func TestFixedSelection(t *testing.T) {
	want := selection{target: "0123456789ab", from: 1763637600000, to: 1763637615000, comm: "a.b/ü &?-_", pid: 7,
		root: "pid"}
	v, err := url.ParseQuery(want.values().Encode())
	require.NoError(t, err)
	got, err := fixedSelection(v)
	require.NoError(t, err)
	require.Equal(t, want, got)
}

// All profiles are shown, however many nodes they have together.
func TestFlameIsBounded(t *testing.T) {
	start := time.Unix(1_700_000_000, 0)
	h := history{maxAge: time.Hour, maxBytes: 1 << 30}
	const stacks, frames = 1000, 60
	for i := range 12 {
		var all []testStack
		for j := range stacks {
			s := testStack{comm: "x", value: 1}
			for k := range frames {
				s.frames = append(s.frames, fmt.Sprintf("f%d", (i*stacks+j*7+k*13)%5000))
			}
			all = append(all, s)
		}
		at := start.Add(time.Duration(i) * time.Second)
		h.addRound(at, at, []Profile{{Data: testProfile(t, at, all...)}})
	}
	f, err := New(Options{}).newTree(h.allProfiles(), selection{target: allTargets}, treeOptions{})
	require.NoError(t, err)
	require.Equal(t, 12, f.about.Of)
	require.Equal(t, 12, f.about.Used, "of 60,000 nodes each")
	require.Equal(t, start.Add(11*time.Second).UnixMilli(), f.about.To.UnixMilli())
	require.Less(t, len(f.data), 300<<10)
}

// manyStacks is a history of more than maxTrieNodes nodes: each profile has stacks of its own.
func manyStacks(t *testing.T, page *Page, end time.Time) (nodes int) {
	t.Helper()
	const profiles, stacks, frames = 6, 1000, 60
	for i := range profiles {
		var all []testStack
		for j := range stacks {
			s := testStack{comm: "x", value: int64(1 + (i+j)%3)}
			for k := range frames {
				s.frames = append(s.frames, fmt.Sprintf("f%d", (i*stacks+j*7+k*13)%5000))
			}
			all = append(all, s)
		}
		at := end.Add(time.Duration(i-profiles+1) * time.Second)
		page.Add(at.Add(-time.Second), at, []Profile{{Data: testProfile(t, at, all...)}})
	}
	return profiles * stacks * (frames - 1)
}

// TestFlameSaysWhatIsLeftOut: beyond maxMergedBytes a flame graph has the newest profiles, and says so.
func TestFlameSaysWhatIsLeftOut(t *testing.T) {
	page, end := New(Options{Name: "x", Status: testStatus}), time.Now()
	page.SetMaxBytes(1 << 30)
	for i := range 3 {
		at := end.Add(time.Duration(i-2) * time.Second)
		p, err := profile.ParseData(testProfile(t, at, testStack{comm: "x", value: 1, frames: []string{"main"}}))
		require.NoError(t, err)
		page.Add(at.Add(-time.Second), at, []Profile{{Data: make([]byte, maxMergedBytes*2/3), Pprof: p, Samples: 1}})
	}
	base := serve(t, page).URL + prefix
	tree := getTree(t, base+"/api/tree?range=5m")
	require.Equal(t, []int{2, 3}, []int{tree.Used, tree.Of})
	require.EqualValues(t, 2, tree.Total*tree.Scale)
	_, text := get(t, base+"/open?range=5m")
	require.Contains(t, text, "the flame graph has the newest 2 of 3 profiles, as more are too large for one page")
}

// functionsOf adds up a pprof file: self and total of each function, and the value of the samples with any of names.
func functionsOf(t *testing.T, file string, names ...string) (sums map[string][2]int64, found int64) {
	t.Helper()
	p, err := profile.ParseData([]byte(file))
	require.NoError(t, err)
	sums = map[string][2]int64{}
	for _, s := range p.Sample {
		seen, has := map[string]bool{}, false
		for i, l := range s.Location {
			for j, line := range l.Line {
				name := line.Function.Name
				sum := sums[name]
				if i == 0 && j == 0 {
					sum[0] += s.Value[0]
				}
				if !seen[name] {
					sum[1] += s.Value[0]
				}
				sums[name], seen[name], has = sum, true, has || slices.Contains(names, name)
			}
		}
		if has {
			found += s.Value[0]
		}
	}
	return sums, found
}

// Even with very many nodes, the flame graph has all samples, and the list of functions matches the pprof file.
func TestTopIsOfAllProfiles(t *testing.T) {
	page := New(Options{Name: "test", Status: func() Status { return Status{} }})
	require.Greater(t, manyStacks(t, page, time.Now()), maxTrieNodes)
	base := serve(t, page).URL + prefix
	shown := getTree(t, base+"/api/tree?range=5m")
	require.Equal(t, shown.Of, shown.Used)

	_, file := get(t, base+"/profile?range=5m")
	want, found := functionsOf(t, file, "f17", "f4711")
	require.Equal(t, want["x"][1], shown.Total*shown.Scale)
	top := getJSON[topAnswer](t, base, "top?range=5m&limit=10000")
	require.Equal(t, top.Of, top.Used)
	require.Equal(t, len(want), top.Count)
	got := map[string][2]int64{}
	for _, f := range top.Functions {
		got[f.Name] = [2]int64{f.Self, f.Total}
	}
	require.Equal(t, want, got)
	require.Nil(t, top.Found)

	top = getJSON[topAnswer](t, base, "top?range=5m&search=%5EF(17%7C4711)$")
	require.Equal(t, found, *top.Found)
	require.Len(t, top.Functions, 2)
	require.Equal(t, want["f17"][1], top.Functions[slices.IndexFunc(top.Functions,
		func(f tree.Function) bool { return f.Name == "f17" })].Total)
	top = getJSON[topAnswer](t, base, "top?range=5m&search=nothing")
	require.Zero(t, *top.Found)
	require.NotNil(t, top.Functions)
}
