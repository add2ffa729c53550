package page

import (
	"cmp"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/tracing"
	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"
	"github.com/google/pprof/profile"
	"github.com/stretchr/testify/require"

	"github.com/headwater/headwater/flame/tree"
	"github.com/headwater/headwater/flame/view"
	"github.com/headwater/headwater/integration/testkit"
)

// stackProfile returns a profile of n stacks. stack returns the numbers of the functions of one, outermost first.
func stackProfile(n, functions int, stack func(i int) []int) *profile.Profile {
	cpu := &profile.ValueType{Type: "cpu", Unit: "nanoseconds"}
	p := &profile.Profile{SampleType: []*profile.ValueType{cpu}, PeriodType: cpu, Period: 1e6}
	m := &profile.Mapping{ID: 1, File: "/usr/bin/service"}
	p.Mapping = []*profile.Mapping{m}
	for i := range functions {
		f := &profile.Function{ID: uint64(i + 1), Name: fmt.Sprintf("shop::Orders<int, std::less<int> >::step%d(int)", i)}
		p.Function = append(p.Function, f)
		p.Location = append(p.Location, &profile.Location{ID: f.ID, Mapping: m, Line: []profile.Line{{Function: f}}})
	}
	for i := range n {
		s := &profile.Sample{Value: []int64{1e6}}
		for _, function := range slices.Backward(stack(i)) {
			s.Location = append(s.Location, p.Location[function])
		}
		p.Sample = append(p.Sample, s)
	}
	return p
}

// visibleNodes is a profile of 20,000 nodes, 40 deep, all of which a window shows.
func visibleNodes() *profile.Profile {
	return stackProfile(500, 20_000, func(i int) (stack []int) {
		for depth := range 40 {
			stack = append(stack, i*40+depth)
		}
		return stack
	})
}

// distinctStacks is a profile of 100,000 different stacks, and 100,000 functions.
func distinctStacks() *profile.Profile {
	random := rand.New(rand.NewPCG(1, 2))
	return stackProfile(100_000, 100_000, func(i int) (stack []int) {
		for range 5 + random.IntN(10) {
			stack = append(stack, random.IntN(20))
		}
		return append(stack, i)
	})
}

// openTree opens a file that has all nodes of a profile, and returns the milliseconds until the browser
// had run its script.
func openTree(t testing.TB, b *browser, p *profile.Profile) float64 {
	t.Helper()
	builder := tree.NewBuilder(nil)
	require.NoError(t, builder.Add(p))
	path := filepath.Join(t.TempDir(), "flame.html")
	file, err := os.Create(path)
	require.NoError(t, err)
	all := tree.Options{Share: -1, Enough: 1 << 30, MaxNodes: 1 << 30}
	require.NoError(t, view.Write(file, view.About{Title: "many"}, builder.Tree(all), nil))
	require.NoError(t, file.Close())
	b.do(t, chromedp.EmulateViewport(1280, 1200),
		chromedp.Navigate((&url.URL{Scheme: "file", Path: path, Fragment: "mode=flame"}).String()))
	waitForFlame(t, b)
	return result(t, b, chromedp.Evaluate[float64](
		`performance.getEntriesByType("navigation")[0].domComplete`))
}

// TestLarge: the work does not grow with the invisible part. A moving pointer does not redraw frames, changes between
// two frames of the display are drawn once, and a table of 100,000 functions contains only the visible rows.
func TestLarge(t *testing.T) {
	testkit.Nightly(t, "it counts paints of a large graph, TestFlame draws one")
	b := openBrowser(t)
	openTree(t, b, visibleNodes())
	const counted = `(async () => {
		const view = document.querySelector("#flame").view, chart = view.chart.getBoundingClientRect();
		const frame = () => new Promise(requestAnimationFrame);
		let painted = 0;
		const paint = view.main.paint;
		view.main.paint = function () { painted++; return paint.call(this); };
		const move = (x, y) => view.chart.dispatchEvent(
			new PointerEvent("pointermove", {clientX: chart.x + x, clientY: chart.y + y, bubbles: true}));
		const act = { %s };
		await frame(); await frame();
		painted = 0;
		const out = {};
		for (const [name, run] of Object.entries(act)) {
			painted = 0;
			await run();
			await frame(); await frame();
			out[name] = painted;
		}
		return out;
	})()`
	painted := result(t, b, chromedp.Evaluate[map[string]int](fmt.Sprintf(counted, `
		hover: async () => {
			for (let i = 0; i < 200; i++) {
				move(5 + i * 5, 30 + i * 2);
				if (i % 20 === 0) await frame();
			}
		},
		search: () => { for (let i = 0; i < 20; i++) view.searchFor("step" + i); },
		zoom: () => { for (let i = 1; i < 20; i++) view.zoom(i); view.zoom(0); }`), chromedp.EvalAwaitPromise))
	require.Equal(t, map[string]int{"hover": 0, "search": 1, "zoom": 1}, painted)
	require.Contains(t, text(t, b, "#tip"), "step")

	openTree(t, b, distinctStacks())
	b.do(t, chromedp.Click(chromedp.CSS("[data-mode=table]")))
	rows := func() int {
		return result(t, b, chromedp.Evaluate[int](`document.querySelectorAll(".top tbody tr").length`))
	}
	require.Less(t, rows(), 100)
	b.do(t, chromedp.Evaluate[chromedp.Void](`document.querySelector(".top tbody tr").focus()`), chromedp.KeyEvent(kb.End))
	require.Equal(t, "100001", result(t, b, chromedp.Evaluate[string](
		`document.activeElement.getAttribute("aria-rowindex")`)), "the row of the last function, below the heads")
	require.Less(t, rows(), 100)
	b.do(t, chromedp.Evaluate[chromedp.Void](`document.querySelector("#flame").view.searchFor("step99999(")`))
	require.Len(t, rowsOf(t, b, ".top"), 1)
}

// traceEvent is what the browser's tracing says of a piece of work. Times are in microseconds.
type traceEvent struct {
	Name      string  `json:"name"`
	Phase     string  `json:"ph"`
	Thread    int     `json:"tid"`
	Process   int     `json:"pid"`
	Timestamp float64 `json:"ts"`
	Duration  float64 `json:"dur"`
	CPU       float64 `json:"tdur"`
	Args      struct {
		Name string `json:"name"`
	} `json:"args"`
}

// traced runs a script in the page, and returns the browser's trace of that time.
func traced(t testing.TB, b *browser, script string) []traceEvent {
	t.Helper()
	var mu sync.Mutex
	var events []traceEvent
	done := make(chan struct{})
	var once sync.Once
	require.NoError(t, chromedp.Listen(b.ctx, func(event any) {
		switch e := event.(type) {
		case *tracing.EventDataCollected:
			mu.Lock()
			defer mu.Unlock()
			for _, value := range e.Value {
				var one traceEvent
				if json.Unmarshal(value, &one) == nil {
					events = append(events, one)
				}
			}
		case *tracing.EventTracingComplete:
			once.Do(func() { close(done) })
		}
	}))
	_, err := chromedp.Call(b.ctx, tracing.Start, tracing.StartParams{TraceConfig: &tracing.TraceConfig{
		IncludedCategories: []string{"devtools.timeline", "toplevel", "v8.execute", "__metadata"},
	}})
	require.NoError(t, err)
	result(t, b, chromedp.Evaluate[bool](script, chromedp.EvalAwaitPromise))
	_, err = chromedp.Call(b.ctx, tracing.End, cdp.Empty{})
	require.NoError(t, err)
	select {
	case <-done:
	case <-time.After(browserPatience):
		t.Fatal("the trace does not end")
	}
	mu.Lock()
	defer mu.Unlock()
	return slices.Clone(events)
}

// work is what a page's main thread did, in milliseconds: its scripts, all of it, the longest script, and the CPU time
// of the script that took most of it.
type work struct{ script, all, longest, longestCPU float64 }

// busy adds up the work of the page's main thread.
func busy(events []traceEvent) (sum work) {
	main := map[[2]int]bool{}
	for _, e := range events {
		if e.Name == "thread_name" && e.Args.Name == "CrRendererMain" {
			main[[2]int{e.Process, e.Thread}] = true
		}
	}
	events = slices.DeleteFunc(slices.Clone(events), func(e traceEvent) bool {
		return !main[[2]int{e.Process, e.Thread}] || e.Phase != "X"
	})
	slices.SortFunc(events, func(a, b traceEvent) int { return cmp.Compare(a.Timestamp, b.Timestamp) })
	scripts := []string{"FireAnimationFrame", "FunctionCall", "RunMicrotasks", "EventDispatch", "TimerFire"}
	var scriptEnd, taskEnd float64 // of the events counted so far: events are nested
	for _, e := range events {
		end := e.Timestamp + e.Duration
		if slices.Contains(scripts, e.Name) && end > scriptEnd {
			sum.script += (end - max(e.Timestamp, scriptEnd)) / 1000
			sum.longest = max(sum.longest, e.Duration/1000)
			sum.longestCPU = max(sum.longestCPU, e.CPU/1000)
			scriptEnd = end
		}
		if end > taskEnd {
			sum.all += (end - max(e.Timestamp, taskEnd)) / 1000
			taskEnd = end
		}
	}
	return sum
}

// BenchmarkView reports the browser's own trace of zoom, search and hover, one action per display frame: milliseconds
// of scripts, and of all work of the page's main thread, and the longest script, by wall clock and by CPU time. At 60
// frames per second there are 16.7.
func BenchmarkView(b *testing.B) {
	const frames = 120
	actions := []struct{ name, step string }{
		{"zoom", `view.zoom(i % 2 ? view.tree.child(0) : 0)`},
		{"search", `view.searchFor("step" + i)`},
		{"hover", `view.chart.dispatchEvent(new PointerEvent("pointermove",
			{clientX: 30 + i * 9, clientY: 200 + i * 4, bubbles: true}))`},
	}
	for name, p := range map[string]*profile.Profile{"20000nodes": visibleNodes(), "100000stacks": distinctStacks()} {
		tab := openBrowser(b)
		opened := openTree(b, tab, p)
		for _, action := range actions {
			b.Run(name+"/"+action.name, func(b *testing.B) {
				var sum work
				for b.Loop() {
					one := busy(traced(b, tab, fmt.Sprintf(`(async () => {
						const view = document.querySelector("#flame").view;
						for (let i = 0; i < %d; i++) {
							await new Promise(requestAnimationFrame);
							%s;
						}
						return true;
					})()`, frames, action.step)))
					sum.script, sum.all = sum.script+one.script, sum.all+one.all
					sum.longest = max(sum.longest, one.longest)
					sum.longestCPU = max(sum.longestCPU, one.longestCPU)
				}
				b.ReportMetric(sum.script/float64(b.N*frames), "ms-script/frame")
				b.ReportMetric(sum.all/float64(b.N*frames), "ms-all/frame")
				b.ReportMetric(sum.longest, "ms-longest")
				b.ReportMetric(sum.longestCPU, "ms-longest-cpu")
				b.ReportMetric(opened, "ms-to-open")
				b.ReportMetric(0, "ns/op")
			})
		}
	}
}
