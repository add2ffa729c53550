package server

import (
	"bytes"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/pprof/profile"
	"github.com/stretchr/testify/require"
)

// prefix is where a host mounts the page in these tests.
const prefix = "/some/where/pyroscope.ebpf.instance"

// serve mounts the page below prefix, as a host does.
func serve(t testing.TB, page http.Handler) *httptest.Server {
	t.Helper()
	mux := http.NewServeMux()
	mux.Handle(prefix+"/", http.StripPrefix(prefix, page))
	server := httptest.NewServer(mux)
	t.Cleanup(server.Close)
	return server
}

// get follows redirects and returns the last answer.
func get(t testing.TB, address string) (*http.Response, string) {
	t.Helper()
	answer, err := http.Get(address)
	require.NoError(t, err)
	defer answer.Body.Close()
	body, err := io.ReadAll(answer.Body)
	require.NoError(t, err)
	return answer, string(body)
}

func fioID() string { return newTarget(fioProfile(noTB{}, time.Time{}).Labels).id }

// noTB is for calling helpers that need a testing.TB where they cannot fail.
type noTB struct{ testing.TB }

func (noTB) Helper() {}

func TestOverview(t *testing.T) {
	server := serve(t, testPage(t, time.Now()))
	answer, body := get(t, server.URL+prefix+"/?range=last")
	require.Equal(t, http.StatusOK, answer.StatusCode)
	require.Equal(t, "text/html; charset=utf-8", answer.Header.Get("Content-Type"))

	text := visible(body)
	for _, want := range []string{
		"pyroscope.ebpf.instance", "Healthy", "profiling 1 target and all other processes",
		"fio", "host_cpu", "1,152", "232,791 of 232,800 samples due on busy CPUs; 9 lost",
		"complete_fp", "libjvm.so", "74 profiles", "worker-8", "python 3.11", "12,034", "functions of PHP are not named",
	} {
		require.Contains(t, text, want)
	}
	require.Contains(t, body, `__container_id__=&#34;4ec0624267de`)
}

// requireText is require.Contains without printing a whole page.
func requireText(t *testing.T, body, want, where string) {
	t.Helper()
	if !strings.Contains(body, want) {
		t.Errorf("%s: no %q in a page of %d bytes", where, want, len(body))
	}
}

// visible is what remains of a page without its tags.
func visible(body string) string {
	text := regexp.MustCompile(`(?s)<(script|style).*?</(script|style)>|<[^>]*>`).ReplaceAllString(body, " ")
	return strings.Join(strings.Fields(text), " ")
}

func TestOverviewOfOneProcess(t *testing.T) {
	server := serve(t, testPage(t, time.Now()))
	_, body := get(t, server.URL+prefix+"/?range=last&process=bash&target="+fioID())
	require.Contains(t, visible(body), "fio, process bash, last interval")
	require.Contains(t, visible(body), "Samples 12 ")
}

func TestOverviewSaysWhatToWaitFor(t *testing.T) {
	status := testStatus()
	page := New(Options{Name: "pyroscope.ebpf.x", Status: func() Status { return status }})
	server := serve(t, page)

	_, body := get(t, server.URL+prefix+"/")
	require.Contains(t, visible(body), "The first profile is ready one collect interval (15s) after the start")

	status.TargetsOnly, status.Targets = true, 0
	_, body = get(t, server.URL+prefix+"/")
	require.Contains(t, visible(body), "Nothing is profiled: targets_only is true")

	status.Healthy, status.Message = false, "needs CAP_BPF"
	_, body = get(t, server.URL+prefix+"/")
	require.Contains(t, visible(body), "Unhealthy needs CAP_BPF")
}

func TestLinksStayBelowThePrefix(t *testing.T) {
	server := serve(t, testPage(t, time.Now()))
	link := regexp.MustCompile(`(?:href|src|action|formaction)="([^"]*)"`)
	seen := map[string]bool{}
	queue := []string{server.URL + prefix + "/"}
	for len(queue) > 0 && len(seen) < 60 {
		at := queue[0]
		queue = queue[1:]
		if seen[at] {
			continue
		}
		seen[at] = true
		answer, body := get(t, at)
		require.Less(t, answer.StatusCode, 400, "%s", at)
		require.NotContains(t, body, "//cdn")
		for _, m := range link.FindAllStringSubmatch(body, -1) {
			target := strings.ReplaceAll(m[1], "&amp;", "&")
			if target == "#" || strings.HasPrefix(target, "data:") || strings.HasPrefix(target, "?") {
				continue
			}
			require.False(t, strings.HasPrefix(target, "/") || strings.Contains(target, "://"),
				"%s on %s is not relative", target, at)
			next, err := answer.Request.URL.Parse(target)
			require.NoError(t, err)
			require.True(t, strings.HasPrefix(next.Path, prefix+"/"), "%s on %s leaves the prefix", target, at)
			for name := range next.Query() {
				require.Regexp(t, "^[a-z]+$", name, "parameter of %s on %s", target, at)
			}
			queue = append(queue, next.String())
		}
	}
	require.Greater(t, len(seen), 20)
}

func TestMissingSlash(t *testing.T) {
	page := testPage(t, time.Now())
	for _, stripped := range []string{"", "/"} { // the remainder of the path differs between hosts
		r := httptest.NewRequest(http.MethodGet, prefix+"?range=1m", nil)
		r.URL.Path = stripped
		w := httptest.NewRecorder()
		page.ServeHTTP(w, r)
		require.Equal(t, http.StatusMovedPermanently, w.Code)
		require.Equal(t, "pyroscope.ebpf.instance/?range=1m", w.Header().Get("Location"))
	}
}

func TestDownloadIsTheSumOfTheRange(t *testing.T) {
	server := serve(t, testPage(t, time.Now()))
	answer, body := get(t, server.URL+prefix+"/download?range=5m&process=bash&target="+fioID())
	require.Equal(t, http.StatusOK, answer.StatusCode)
	require.Regexp(t, `attachment; filename=fio-\d{8}T\d{6}Z\.pb\.gz`, answer.Header.Get("Content-Disposition"))

	p, err := profile.ParseData([]byte(body))
	require.NoError(t, err)
	require.NoError(t, p.CheckValid())
	require.Len(t, p.Sample, 1)
	require.Equal(t, int64(20*12*10_309_278), p.Sample[0].Value[0], "20 rounds of 15 s")
	require.Equal(t, "bash", p.Mapping[0].File, "pprof titles it")
	require.Equal(t, "/usr/bin/fio", p.Mapping[1].File)

	_, body = get(t, server.URL+prefix+"/download?range=5m")
	p, err = profile.ParseData([]byte(body))
	require.NoError(t, err)
	require.NoError(t, p.CheckValid())
	require.Equal(t, "all targets", p.Mapping[0].File)
}

func TestSelectionByPID(t *testing.T) {
	server := serve(t, testPage(t, time.Now()))
	_, body := get(t, server.URL+prefix+"/download?range=last&pid=4712&process=fio&target="+fioID())
	p, err := profile.ParseData([]byte(body))
	require.NoError(t, err)
	var sum int64
	for _, s := range p.Sample {
		sum += s.Value[0]
	}
	require.Equal(t, int64(300*10_309_278), sum)
}

func TestRefusals(t *testing.T) {
	server := serve(t, testPage(t, time.Now()))
	for path, want := range map[string]struct {
		status int
		text   string
	}{
		"/?range=1y":                      {400, `unknown range "1y"`},
		"/open?range=1y":                  {400, `unknown range "1y"`},
		"/?pid=x":                         {400, `pid "x" is not a number`},
		"/open?target=ffffffffffff":       {404, "There are no profiles of this target in the last 5 minutes."},
		"/open?process=nobody&range=last": {404, "No sample of these profiles matches."},
		"/flame?from=1&to=2":              {410, "These profiles are no longer kept."},
		"/flame?from=1&to=x":              {400, `to "x" is not a time in milliseconds`},
		"/nothing":                        {404, "There is no such page."},
		"/?target=%3Cscript%3Ealert(1)":   {200, "no profiles"},
	} {
		answer, body := get(t, server.URL+prefix+path)
		require.Equal(t, want.status, answer.StatusCode, path)
		require.Contains(t, strings.ReplaceAll(body, "&#34;", `"`), want.text, path)
		require.NotContains(t, body, "<script>alert")
	}
	answer, err := http.Post(server.URL+prefix+"/", "text/plain", nil)
	require.NoError(t, err)
	answer.Body.Close()
	require.Equal(t, http.StatusMethodNotAllowed, answer.StatusCode)
}

func TestConcurrentViews(t *testing.T) {
	server := serve(t, testPage(t, time.Now()))
	var wg sync.WaitGroup
	for i := range 24 {
		path := []string{"/open?range=last", "/pprof?range=1m", "/open?range=5m", "/pprof?range=10m",
			"/open?process=bash", "/api/tree?range=last", "/"}[i%7]
		wg.Go(func() {
			answer, err := http.Get(server.URL + prefix + path)
			if err != nil {
				t.Error(err)
				return
			}
			defer answer.Body.Close()
			if _, err := io.Copy(io.Discard, answer.Body); err != nil || answer.StatusCode != http.StatusOK {
				t.Error(path, answer.StatusCode, err)
			}
		})
	}
	wg.Wait()
}

func TestHistoryIsBounded(t *testing.T) {
	h := history{maxAge: time.Minute, maxBytes: 100 << 10}
	start := time.Unix(1_700_000_000, 0)
	for i := range 1000 {
		at := start.Add(time.Duration(i) * time.Second)
		h.addRound(at.Add(-time.Second), at, []Profile{{
			Labels: map[string]string{"service_name": "x"}, Data: bytes.Repeat([]byte{1}, 10+i*10),
			Processes: make([]Process, 20),
		}})
		require.LessOrEqual(t, h.size(), int64(100<<10))
		entries := h.allProfiles()
		require.NotEmpty(t, entries)
		require.GreaterOrEqual(t, entries[0].end, at.Add(-time.Minute).UnixMilli())
	}
	h.addRound(start.Add(time.Hour), start.Add(time.Hour), []Profile{{Data: make([]byte, 200<<10)}})
	require.Empty(t, h.allProfiles(), "a profile beyond the limit is not kept at all")
	require.Zero(t, h.size())
}

func TestMergeKeepsTheNewestWithinTheLimits(t *testing.T) {
	start := time.Unix(1_700_000_000, 0)
	h := history{maxAge: time.Hour, maxBytes: 1 << 30}
	for i := range 40 {
		var stacks []testStack
		for j := range 100 {
			stacks = append(stacks, testStack{comm: "x", frames: []string{fmt.Sprintf("f%d", i*100+j)}, value: 1})
		}
		at := start.Add(time.Duration(i) * time.Second)
		h.addRound(at, at, []Profile{{Data: testProfile(t, at, stacks...)}})
	}
	sum, err := merge(h.allProfiles(), selection{target: allTargets}, 2500)
	require.NoError(t, err)
	require.Equal(t, 40, sum.of)
	require.Equal(t, 24, sum.used, "three chunks of eight; a fourth is too much")
	require.Len(t, sum.profile.Sample, 24*100)
	require.Equal(t, start.Add(16*time.Second).UnixNano(), sum.profile.TimeNanos)
}

// TestSelectionText: the parameters of a selection's address give the same selection.
func TestSelectionText(t *testing.T) {
	for _, s := range []selection{
		{target: allTargets, from: 1, to: 2},
		{target: "0123456789ab", from: 1763637600000, to: 1763637615000, comm: "a.b/ü \x00-_", pid: 7, root: "pid"},
		{target: allTargets, from: 1, to: 2, exe: "/bin/a", build: "c0ffee", filter: filter{focus: "^f(o|u)", ignore: "x"}},
	} {
		back, err := fixedSelection(s.values())
		require.NoError(t, err)
		require.Equal(t, s, back)
	}
}

// TestPprofAddress: the address that pprof's own views had leads to the flame graph.
func TestPprofAddress(t *testing.T) {
	server := serve(t, testPage(t, time.Now()))
	answer, body := get(t, server.URL+prefix+"/pprof?range=last")
	require.Equal(t, http.StatusOK, answer.StatusCode)
	require.Equal(t, prefix+"/flame", answer.Request.URL.Path)
	require.Contains(t, body, `id="flame"`)
}

func TestFormats(t *testing.T) {
	for n, want := range map[uint64]string{0: "0", 999: "999", 1000: "1,000", 1234567: "1,234,567"} {
		require.Equal(t, want, formatCount(n))
	}
	for share, want := range map[float64]string{0: "0.0 %", 0.0001: "<0.1 %", 0.5: "50.0 %", 0.99999: "99.9 %",
		1: "100.0 %"} {
		require.Equal(t, want, formatPercent(share))
	}
}
