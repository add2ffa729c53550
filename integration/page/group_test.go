package page

import (
	"bytes"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/chromedp/chromedp"
	"github.com/stretchr/testify/require"

	"github.com/headwater/headwater/flame/server"
)

// waitingServer shows time of threads that do not run: 600 samples wait for a lock, 300 for a file, and 100 for an
// unknown reason.
func waitingServer(t *testing.T) *httptest.Server {
	t.Helper()
	p := stackProfile(4, 4, func(i int) []int { return [][]int{{0, 1}, {0, 2}, {0, 1}, {0, 3}}[i] })
	for i, of := range []struct {
		value               int64
		wait, state, thread string
	}{
		{400, "lock", "sleeping", "http-1"}, {300, "file", "uninterruptible", "http-1"}, {200, "lock", "sleeping", "pool"},
		{100, "", "runnable", "pool"},
	} {
		s := p.Sample[i]
		s.Value[0] *= of.value
		s.Label = map[string][]string{"state": {of.state}, "thread_name": {of.thread}, "comm": {"service"}}
		if of.wait != "" {
			s.Label["wait"] = []string{of.wait}
		}
	}
	var data bytes.Buffer
	require.NoError(t, p.Write(&data))
	page := server.New(server.Options{Name: "test", Status: func() server.Status {
		return server.Status{Healthy: true, Interval: time.Minute}
	}})
	now := time.Now()
	page.Add(now.Add(-15*time.Second), now, []server.Profile{{
		Labels: map[string]string{"service_name": "service"}, Data: data.Bytes(), Samples: 1000, Kind: "off-cpu",
	}})
	server := httptest.NewServer(http.StripPrefix("/profiler", page))
	t.Cleanup(server.Close)
	return server
}

// rootsOf returns the outermost frames of the flame graph and how many samples they have.
func rootsOf(t *testing.T, b *browser) map[string]int {
	t.Helper()
	return result(t, b, chromedp.Evaluate[map[string]int](`(tree => Object.fromEntries(tree.children(0).map(
		i => [tree.name(i), 1000 * tree.totalOf(i) / tree.total])))(document.querySelector("#flame").view.tree)`))
}

// group chooses a way to group, and waits for the flame graph of it.
func group(t *testing.T, b *browser, label string) {
	t.Helper()
	b.do(t, chromedp.Evaluate[chromedp.Void](fmt.Sprintf(`(select => {
		select.value = %q;
		select.dispatchEvent(new Event("change"));
	})(document.querySelector("#group"))`, label)))
	b.waits(t, "grouped by "+label, fmt.Sprintf(`(new URLSearchParams(location.search).get("tagroot") || "") === %q &&
		document.querySelector("#flame").view !== undefined`, label))
	painted(t, b)
}

// TestGroup groups a flame graph by labels of its samples. The link keeps it.
func TestGroup(t *testing.T) {
	t.Parallel()
	server := waitingServer(t)
	b := openBrowser(t)
	b.do(t, chromedp.Navigate(server.URL+"/profiler/open?range=5m&kind=off-cpu"))
	waitForFlame(t, b)
	options := result(t, b, chromedp.Evaluate[[]string](
		`[...document.querySelector("#group").options].map(option => option.text)`))
	require.Equal(t, []string{"nothing", "process", "thread", "thread state", "reason of the wait"}, options)
	b.do(t, chromedp.Evaluate[chromedp.Void](`document.querySelector("#flame").view.searchFor("step1")`))
	b.waits(t, "the search is in the address", `location.hash === "#search=step1"`)

	group(t, b, "wait")
	byWait := map[string]int{"wait=lock": 600, "wait=file": 300, "wait=(none)": 100}
	require.Equal(t, byWait, rootsOf(t, b))
	require.True(t, strings.HasSuffix(text(t, b, "#found"), "60.0 %"), "the search stays")
	b.screenshot(t, "group")
	b.do(t, chromedp.Reload())
	waitForFlame(t, b)
	require.Equal(t, byWait, rootsOf(t, b), "of the link")
	require.Equal(t, "wait", result(t, b, chromedp.Evaluate[string](`document.querySelector("#group").value`)))

	group(t, b, "state")
	require.Equal(t, map[string]int{"state=sleeping": 600, "state=uninterruptible": 300, "state=runnable": 100},
		rootsOf(t, b))
	group(t, b, "thread_name")
	require.Equal(t, map[string]int{"thread_name=http-1": 700, "thread_name=pool": 300}, rootsOf(t, b))
	group(t, b, "comm")
	require.Equal(t, map[string]int{"comm=service": 1000}, rootsOf(t, b))

	// The form that chooses a range, a target or functions keeps it.
	b.do(t, chromedp.Evaluate[chromedp.Void](`(form => {
		form.elements.focus.value = "step2";
		form.requestSubmit();
	})(document.querySelector("#choose-form"))`))
	b.waits(t, "the form is sent", `location.search.includes("focus=step2") &&
		document.querySelector("#flame").view !== undefined`)
	require.Equal(t, map[string]int{"comm=service": 1000}, rootsOf(t, b))
	group(t, b, "")
	require.Len(t, rootsOf(t, b), 1)
	require.NotContains(t, result(t, b, chromedp.Location()), "tagroot")
	b.checkComplaints(t, server.URL)
}
