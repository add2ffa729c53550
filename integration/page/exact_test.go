package page

import (
	"bytes"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/chromedp/chromedp"
	"github.com/google/pprof/profile"
	"github.com/stretchr/testify/require"

	"github.com/headwater/headwater/flame/server"
)

// manyStacks is a profile of 12,000 different stacks, which take 120,000 nodes. The function "often" is in one of so
// many.
func manyStacks(seed uint64, often int) *profile.Profile {
	random := rand.New(rand.NewPCG(seed, 1))
	p := stackProfile(12_000, 3000, func(i int) (stack []int) {
		for range 10 {
			stack = append(stack, 2+random.IntN(2998))
		}
		if i%often == 0 {
			stack[5] = 1
		}
		return append([]int{0}, stack...)
	})
	p.Function[1].Name = "often"
	return p
}

// manyServer shows profiles of more stacks than are drawn.
func manyServer(t *testing.T) *httptest.Server {
	t.Helper()
	page := server.New(server.Options{Name: "test", Status: func() server.Status {
		return server.Status{Healthy: true, Interval: time.Minute}
	}})
	now := time.Now()
	for i := range 4 {
		var data bytes.Buffer
		require.NoError(t, manyStacks(uint64(i), 2+4*i).Write(&data)) // the newest has least of "often"
		end := now.Add(time.Duration(i-3) * 15 * time.Second)
		page.Add(end.Add(-15*time.Second), end, []server.Profile{{
			Labels: map[string]string{"service_name": "service"}, Data: data.Bytes(), Samples: 12_000,
		}})
	}
	server := httptest.NewServer(http.StripPrefix("/profiler", page))
	t.Cleanup(server.Close)
	return server
}

// shareOf returns which percentage of the samples of the exported file has a function, itself or at the end.
func shareOf(t *testing.T, address, name string) (total, self string) {
	t.Helper()
	answer, err := http.Get(address)
	require.NoError(t, err)
	defer answer.Body.Close()
	file, err := io.ReadAll(answer.Body)
	require.NoError(t, err)
	p, err := profile.ParseData(file)
	require.NoError(t, err)
	var sum, with, end int64
	for _, s := range p.Sample {
		sum += s.Value[0]
		for i, l := range s.Location {
			if l.Line[0].Function.Name != name {
				continue
			}
			if i == 0 {
				end += s.Value[0]
			}
			with += s.Value[0]
			break
		}
	}
	percent := func(n int64) string { return fmt.Sprintf("%.1f %%", 100*float64(n)/float64(sum)) }
	return percent(with), percent(end)
}

// TestFiguresAreOfAllSamples: table, search and sandwich say what the exported file has, however much of the flame
// graph is folded.
func TestFiguresAreOfAllSamples(t *testing.T) {
	t.Parallel()
	server := manyServer(t)
	b := openBrowser(t)
	b.do(t, chromedp.Navigate(server.URL+"/profiler/open?range=5m"))
	waitForFlame(t, b)
	require.Contains(t, text(t, b, "p.selection"), "48,000 samples")
	nodes := result(t, b, chromedp.Evaluate[int](`document.querySelector("#flame").view.tree.length`))
	require.LessOrEqual(t, nodes, 20_000)
	total, self := shareOf(t, server.URL+"/profiler/profile?range=5m", "often")
	require.Equal(t, "21.0 %", total)

	b.do(t, chromedp.Evaluate[chromedp.Void](`document.querySelector("#flame").view.showMode("table")`))
	b.waits(t, "the functions are of all samples", `document.querySelector("#flame").view.exact.count > 0`)
	require.Contains(t, text(t, b, "section.table .note"), "3,000 functions.")
	b.do(t, chromedp.Evaluate[chromedp.Void](`document.querySelector("#flame").view.searchFor("^often$")`))
	b.waits(t, "the search is of all samples", `document.querySelector("#found").textContent.endsWith(", `+total+`")`)
	rows := rowsOf(t, b, ".top")
	require.Len(t, rows, 1)
	require.Contains(t, rows[0], total)
	require.Equal(t, self, "0.0 %")
	b.do(t, chromedp.Evaluate[chromedp.Void](`document.querySelector("#flame").view.showMode("sandwich")`))
	b.waits(t, "callers and callees are of all samples",
		`document.querySelector("#flame").view.exact.sandwiches.size === 1`)
	painted(t, b)
	require.Equal(t, "often total "+total+", self "+self, text(t, b, "#sandwich-heading"))
	for _, chart := range []string{"above", "below"} {
		require.Equal(t, total, result(t, b, chromedp.Evaluate[string](
			`(view => view.subject.share(view.`+chart+`.tree, 0))(document.querySelector("#flame").view)`)), chart)
	}
	require.Empty(t, text(t, b, "#notice"))
	b.screenshot(t, "exact-sandwich")
	b.checkComplaints(t, server.URL)
}

// TestFoldedFunctionsAreFound: the search and the table know functions that no frame shows.
func TestFoldedFunctionsAreFound(t *testing.T) {
	t.Parallel()
	server := flameServer(t)
	b := openBrowser(t)
	b.do(t, chromedp.Navigate(server.URL+"/profiler/open#mode=table"))
	waitForFlame(t, b)
	b.waits(t, "functions are listed", `document.querySelector("#flame").view.exact.count > 14000`)
	note := text(t, b, "section.table .note")
	require.True(t, strings.HasSuffix(note, "There are 14,013 in total; the search finds all of them."), note)
	b.do(t, chromedp.Evaluate[chromedp.Void](`document.querySelector("#flame").view.searchFor("tiny13999")`))
	b.waits(t, "a folded function is found", `document.querySelector("#found").textContent === "0 frames, <0.1 %"`)
	require.Len(t, rowsOf(t, b, ".top"), 1)
	b.checkComplaints(t, server.URL)
}
