package page

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"math"
	"net/http"
	"net/http/httptest"
	"net/url"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/cdproto/input"
	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"
	"github.com/google/pprof/profile"

	"github.com/headwater/headwater/flame/server"
	"github.com/headwater/headwater/flame/tree"
	"github.com/headwater/headwater/integration/testkit"
)

// box is where the page draws a frame.
type box struct{ X, Y, Width, Height float64 }

// waitForFlame waits until the flame graph is drawn.
func waitForFlame(t testing.TB, b *browser) {
	t.Helper()
	testkit.Eventually(t, "the flame graph is drawn", func() bool {
		return result(t, b, chromedp.Evaluate[bool](
			`document.querySelector("#flame")?.view !== undefined`))
	})

	painted(t, b)
}

// painted waits until the page has drawn its changes.
func painted(t testing.TB, b *browser) {
	t.Helper()
	result(t, b, chromedp.Evaluate[bool](
		`new Promise(done => requestAnimationFrame(() => requestAnimationFrame(() => done(true))))`,
		chromedp.EvalAwaitPromise))
}

// flameBox returns where the first frame of that name is in the window; zero if it is not.
func flameBox(t testing.TB, b *browser, name string) box {
	t.Helper()
	return result(t, b, chromedp.Evaluate[box](fmt.Sprintf(`(() => {
		const view = document.querySelector("#flame").view;
		const chart = view.chart.getBoundingClientRect();
		for (let i = 0; i < view.tree.length; i++) {
			if (view.tree.name(i) !== %q) continue;
			const box = view.box(i);
			if (box === null) break;
			return {X: chart.x + view.chart.clientLeft + box.x, Y: chart.y + view.chart.clientTop + box.y - view.chart.scrollTop,
				Width: box.width, Height: box.height};
		}
		return {X: 0, Y: 0, Width: 0, Height: 0};
	})()`, name)))
}

// pixel returns the colour of a frame at its left, as CSS has it.
func pixel(t testing.TB, b *browser, name string) string {
	t.Helper()
	at := flameBox(t, b, name)
	if at.Width < 8 {
		t.Fatalf("%s is not drawn: %+v", name, at)
	}
	return result(t, b, chromedp.Evaluate[string](fmt.Sprintf(`(() => {
		const canvas = document.querySelector("#chart canvas");
		const at = canvas.getBoundingClientRect(), ratio = devicePixelRatio;
		const copy = document.createElement("canvas").getContext("2d");
		copy.drawImage(canvas, -Math.floor((%f - at.x) * ratio), -Math.floor((%f - at.y) * ratio));
		const [r, g, b] = copy.getImageData(0, 0, 1, 1).data;
		return "rgb(" + r + ", " + g + ", " + b + ")";
	})()`, at.X+2, at.Y+3)))
}

// press presses a key as a keyboard does: KeyEvent sends the key and its text apart, and a page cannot stop the second
// by stopping the first.
func press(t testing.TB, b *browser, key, text string) {
	t.Helper()
	for _, event := range []input.DispatchKeyEventParams{
		{Type: "keyDown", Key: key, Text: text}, {Type: "keyUp", Key: key},
	} {
		if _, err := chromedp.Call(b.ctx, input.DispatchKeyEvent, event); err != nil {
			t.Fatal(err)
		}
	}
}

func text(t testing.TB, b *browser, selector string) string {
	t.Helper()
	return result(t, b, chromedp.Evaluate[string](fmt.Sprintf(`document.querySelector(%q).textContent`, selector)))
}

// flameProfile is a profile that has frames of all kinds.
func flameProfile(t testing.TB) *profile.Profile {
	t.Helper()
	cpu := &profile.ValueType{Type: "cpu", Unit: "nanoseconds"}
	p := &profile.Profile{SampleType: []*profile.ValueType{cpu}, PeriodType: cpu, Period: 100_000}
	byText := map[string]*profile.Location{}
	// location takes "file:function", or "file:function|inlined|inlined into that".
	location := func(text string) *profile.Location {
		if l := byText[text]; l != nil {
			return l
		}
		file, names, _ := strings.Cut(text, ":")
		id := uint64(len(p.Location) + 1)
		l := &profile.Location{ID: id, Address: id * 16}
		if file != "" {
			l.Mapping = &profile.Mapping{ID: id, File: file, BuildID: "c0ffee"}
			p.Mapping = append(p.Mapping, l.Mapping)
		}
		for name := range strings.SplitSeq(names, "|") {
			f := &profile.Function{ID: uint64(len(p.Function) + 1), Name: name, Filename: "source.c"}
			p.Function = append(p.Function, f)
			l.Line = slices.Insert(l.Line, 0, profile.Line{Function: f, Line: int64(id)})
		}
		p.Location = append(p.Location, l)
		byText[text] = l
		return l
	}
	sample := func(count int64, frames ...string) {
		s := &profile.Sample{Value: []int64{count * 350 * p.Period}}
		for _, frame := range slices.Backward(append([]string{":service"}, frames...)) {
			s.Location = append(s.Location, location(frame))
		}
		p.Sample = append(p.Sample, s)
	}
	const long = "/usr/bin/service:std::map<int, std::vector<std::string>, std::less<int> >::operator[](int const&)"
	sample(300, "/usr/bin/service:main", "/usr/lib/libpython3.11.so:_PyEval_EvalFrameDefault", "[python 3.11]:handle")
	sample(200, "/usr/bin/service:main", "/usr/lib/libpython3.11.so:_PyEval_EvalFrameDefault", "[python 3.11]:handle",
		"/usr/lib/libc.so.6:write", "[kernel.kallsyms]:do_syscall_64")
	sample(150, "/usr/bin/service:main", "[jit]:Svc.sortOrders")
	sample(150, "/usr/bin/service:main", long, "/usr/bin/service:find|compare")
	sample(120, "/usr/bin/service:main", "/usr/bin/service:service+0x4f10")
	sample(80, "/usr/bin/service:main")
	sample(500, ":group0")
	sample(500, ":group1")
	for i := range 40 * 350 { // too small and too many to be shown
		sample(1, "/usr/bin/service:main", fmt.Sprintf("/usr/bin/service:tiny%d", i))
		p.Sample[len(p.Sample)-1].Value[0] = p.Period
	}
	if err := p.CheckValid(); err != nil {
		t.Fatal(err)
	}
	return p
}

// nothingRecorded stands for a profiler that can record.
func nothingRecorded(context.Context, server.Recording) (*profile.Profile, error) {
	return nil, nil
}

// flameServer shows flameProfile.
func flameServer(t *testing.T) *httptest.Server {
	t.Helper()
	p := flameProfile(t)
	var data bytes.Buffer
	if err := p.Write(&data); err != nil {
		t.Fatal(err)
	}
	page := server.New(server.Options{Name: "test", Record: nothingRecorded, Status: func() server.Status {
		return server.Status{Healthy: true, Interval: time.Minute}
	}})
	now := time.Now()
	page.Add(now.Add(-15*time.Second), now, []server.Profile{{
		Labels: map[string]string{"service_name": "service"}, Data: data.Bytes(), Samples: 2040 * 350,
	}})
	server := httptest.NewServer(http.StripPrefix("/profiler", page))
	t.Cleanup(server.Close)
	return server
}

// TestFlame looks at a flame graph as people do: colours, search, zoom, keys, the list of
// functions; in light and dark, on a desktop and on a phone.
func TestFlame(t *testing.T) {
	t.Parallel()
	server := flameServer(t)
	b := openBrowser(t)
	page := &uiPage{t: t, b: b, url: server.URL}
	b.do(t, chromedp.Navigate(server.URL+"/profiler/open"))
	waitForFlame(t, b)
	t.Run("colours", func(t *testing.T) { checkColors(t, b) })
	t.Run("totals", func(t *testing.T) { checkTotals(t, b, server) })
	t.Run("search", func(t *testing.T) { checkSearch(t, b) })
	t.Run("zoom", func(t *testing.T) { checkZoom(t, b) })
	t.Run("keys", func(t *testing.T) { checkKeys(t, b) })
	t.Run("names", func(t *testing.T) { checkShortNames(t, b) })
	page.checkNames()
	b.screenshot(t, "flame-light")

	dark := emulation.SetEmulatedMediaParams{
		Features: []*emulation.MediaFeature{{Name: "prefers-color-scheme", Value: "dark"}},
	}
	light := pixel(t, b, "main")
	if _, err := chromedp.Call(b.ctx, emulation.SetEmulatedMedia, dark); err != nil {
		t.Fatal(err)
	}
	painted(t, b)
	b.screenshot(t, "flame-dark")
	if pixel(t, b, "main") == light {
		t.Error("a dark page has frames as a light one")
	}
	t.Run("dark colours", func(t *testing.T) { checkColors(t, b) })

	b.do(t, chromedp.EmulateViewport(400, 800))
	painted(t, b)
	b.screenshot(t, "flame-phone")
	page.checkNames()
	if row := text(t, b, ".top tbody tr"); !strings.Contains(row, "group0") {
		t.Errorf("on a phone the first row is %q", row)
	}
	b.do(t, chromedp.Click(chromedp.CSS("[data-mode=flame]")))
	painted(t, b)
	if at := flameBox(t, b, "main"); at.Width < 150 || at.X+at.Width > 400 {
		t.Errorf("on a phone main is at %+v", at)
	}
	b.checkComplaints(t, server.URL)
}

// checkColors demands that each kind has a colour of its own, the one in the legend.
func checkColors(t *testing.T, b *browser) {
	seen := map[string]string{}
	for name, kind := range map[string]string{"do_syscall_64": "kernel", "main": "native", "compare": "inlined",
		"handle": "runtime", "Svc.sortOrders": "jit", "group0": "other"} {
		color := pixel(t, b, name)
		if other := seen[color]; other != "" {
			t.Errorf("%s and %s are both %s", name, other, color)
		}
		seen[color] = name
		if kind == "other" {
			continue
		}
		legend := result(t, b, chromedp.Evaluate[string](fmt.Sprintf(
			`getComputedStyle(document.querySelector('.legend .swatch[data-kind=%s]')).backgroundColor`, kind)))
		if color != legend {
			t.Errorf("%s is %s, the legend says %s", name, color, legend)
		}
	}
	if color := pixel(t, b, "service+0x4f10"); seen[color] != "" {
		t.Errorf("a frame without a name is %s, like %s", color, seen[color])
	}
}

// checkTotals compares the drawn and listed values with the data.
func checkTotals(t *testing.T, b *browser, server *httptest.Server) {
	here, err := url.Parse(result(t, b, chromedp.Location()))
	if err != nil {
		t.Fatal(err)
	}
	answer, err := http.Get(server.URL + "/profiler/api/tree?" + here.RawQuery)
	if err != nil {
		t.Fatal(err)
	}
	defer answer.Body.Close()
	var tree tree.Tree
	if err := json.NewDecoder(answer.Body).Decode(&tree); err != nil {
		t.Fatal(err)
	}
	if tree.Total != 2040*350 {
		t.Fatalf("the data has a total of %d", tree.Total)
	}
	whole := flameBox(t, b, "all").Width
	for name, want := range map[string]float64{
		"main": 1040, "handle": 500, "do_syscall_64": 200, "group1": 500, "(14,000 more)": 40,
	} {
		if got := flameBox(t, b, name).Width / whole * 2040; math.Abs(got-want) > 0.01 {
			t.Errorf("%s is as wide as %f samples, not %f", name, got, want)
		}
	}
	rows := result(t, b, chromedp.Evaluate[[]string](`[...document.querySelectorAll(".top tbody tr")].map(row =>
		[...row.cells].map(cell => cell.textContent).join(" | "))`))
	for _, want := range []string{
		"handle | 14.7 % | 10.50 s | 24.5 % | 17.50 s | language runtime | [python 3.11]",
		"do_syscall_64 | 9.8 % | 7.00 s | 9.8 % | 7.00 s | kernel | [kernel.kallsyms]",
		"compare | 7.4 % | 5.25 s | 7.4 % | 5.25 s | inlined | service",
		"main | 3.9 % | 2.80 s | 51.0 % | 36.40 s | native | service",
		"tiny1 | <0.1 % | 100 µs | <0.1 % | 100 µs | native | service",
	} {
		if !slices.Contains(rows, want) {
			t.Errorf("the list of functions has no row %q, but %q", want, rows)
		}
	}
	legend := text(t, b, ".legend")
	for _, want := range []string{
		"language runtime 14.7 %", "kernel 9.8 %", "inlined 7.4 %", "no name 5.9 %", "JIT code 7.4 %",
	} {
		if !strings.Contains(legend, want) {
			t.Errorf("the legend is %q, without %q", legend, want)
		}
	}
}

func checkSearch(t *testing.T, b *browser) {
	main := pixel(t, b, "main")
	press(t, b, "/", "/")
	b.do(t, chromedp.KeyEvent("SYSCALL"))
	painted(t, b)
	if found := text(t, b, "#found"); found != "1 frame, 9.8 %" {
		t.Errorf("searched for do_syscall_64 and found %q", found)
	}
	if pixel(t, b, "main") == main {
		t.Error("frames that were not searched for look as before")
	}
	if rows := result(t, b, chromedp.Evaluate[int](`document.querySelectorAll(".top tbody tr").length`)); rows != 1 {
		t.Errorf("%d functions are listed, not 1", rows)
	}
	// The samples of nested matching frames count once; files and binaries are also searched.
	for search, want := range map[string]string{
		"main|do_syscall": "2 frames, 51.0 %", "python 3.11": "1 frame, 24.5 %", "map<int, ": "1 frame, 7.4 %",
		"[V8": "0 frames, 0.0 %", "operator[](int const&)": "1 frame, 7.4 %",
	} {
		b.do(t, chromedp.Evaluate[chromedp.Void](fmt.Sprintf(`document.querySelector("#flame").view.searchFor(%q)`, search)))
		if found := text(t, b, "#found"); found != want {
			t.Errorf("searched for %s and found %q, not %q", search, found, want)
		}
	}
	b.do(t, chromedp.KeyEvent(kb.Escape))
	painted(t, b)
	if found := text(t, b, "#found"); found != "" || pixel(t, b, "main") != main {
		t.Errorf("after Esc there is still %q", found)
	}
}

func checkZoom(t *testing.T, b *browser) {
	whole := flameBox(t, b, "all").Width
	at := flameBox(t, b, "handle")
	b.do(t, chromedp.MouseEvent("mouseMoved", at.X+at.Width/2, at.Y+at.Height/2))
	painted(t, b)
	b.screenshot(t, "flame-tip")
	tip := text(t, b, "#tip")
	for _, want := range []string{"handle", "source.c:", "[python 3.11]", "17.50 s", "24.5 % of all",
		"100.0 % of its caller", "10.50 s, 14.7 %", "language runtime", "c0ffee"} {
		if !strings.Contains(tip, want) {
			t.Errorf("the tooltip is %q, without %q", tip, want)
		}
	}
	b.do(t, chromedp.MouseClickXY(at.X+at.Width/2, at.Y+at.Height/2))
	painted(t, b)
	if got := flameBox(t, b, "handle").Width; got != whole {
		t.Errorf("handle is %f wide after a click, not %f", got, whole)
	}
	if got := flameBox(t, b, "do_syscall_64").Width / whole; math.Abs(got-0.4) > 0.001 {
		t.Errorf("do_syscall_64 has %f of handle, not 0.4", got)
	}
	if at := flameBox(t, b, "Svc.sortOrders"); at.Width != 0 {
		t.Errorf("Svc.sortOrders is still at %+v", at)
	}
	if way := text(t, b, ".crumbs"); !strings.HasPrefix(way, "allservicemain") || !strings.HasSuffix(way, "handle") {
		t.Errorf("the way to handle is %q", way)
	}
	at = flameBox(t, b, "do_syscall_64")
	b.do(t, chromedp.MouseClickXY(at.X+at.Width/2, at.Y+at.Height/2), chromedp.KeyEvent(kb.Escape))
	painted(t, b)
	if got := flameBox(t, b, "handle").Width; got != whole {
		t.Errorf("Esc leads not back to handle, which is %f wide", got)
	}
	b.do(t, chromedp.Click(chromedp.CSS("#reset")))
	painted(t, b)
	if got := flameBox(t, b, "Svc.sortOrders").Width / whole * 2040; math.Abs(got-150) > 0.01 {
		t.Errorf("Svc.sortOrders has %f samples after zooming out", got)
	}
}

func checkKeys(t *testing.T, b *browser) {
	b.do(t, chromedp.Focus(chromedp.CSS("#chart")))
	for _, step := range []struct{ key, name string }{
		{kb.ArrowDown, "all"}, {kb.ArrowDown, "service"}, {kb.ArrowDown, "main"}, {kb.ArrowRight, "group0"},
		{kb.ArrowLeft, "main"}, {kb.ArrowDown, "_PyEval_EvalFrameDefault"}, {kb.ArrowUp, "main"}, {kb.Home, "all"},
	} {
		b.do(t, chromedp.KeyEvent(step.key))
		if said := text(t, b, "#said"); !strings.HasPrefix(said, step.name+"; ") {
			t.Fatalf("%q says %q, not %s", step.key, said, step.name)
		}
	}
	b.do(t, chromedp.KeyEvent(kb.ArrowDown), chromedp.KeyEvent(kb.ArrowDown))
	press(t, b, "Enter", "\r")
	if first := result(t, b, chromedp.Evaluate[string](`document.activeElement.textContent`)); first != "Zoom" {
		t.Fatalf("after Enter %q has the focus, not Zoom", first)
	}
	press(t, b, "Enter", "\r")
	painted(t, b)
	if got, whole := flameBox(t, b, "main").Width, flameBox(t, b, "all").Width; got != whole {
		t.Errorf("after Enter main is %f wide, of %f", got, whole)
	}
	b.do(t, chromedp.KeyEvent(kb.Escape))
	painted(t, b)
	if got, whole := flameBox(t, b, "main").Width, flameBox(t, b, "all").Width; got > whole*0.6 {
		t.Errorf("after Esc main is %f wide, of %f", got, whole)
	}
}

// checkShortNames: names lose their arguments, never their head.
func checkShortNames(t *testing.T, b *browser) {
	want := map[string]string{
		"std::map<int, std::vector<std::string>, std::less<int> >::operator[](int const&)": "std::map<..>::operator[](..)",
		"operator<< <char>(std::ostream&)":                                                 "operator<< <char>(..)",
		"Foo::operator<(Foo const&)":                                                       "Foo::operator<(..)",
		"f<(a->b)>(int)":                                                                   "f<..>(..)",
		"<vec::Vec<T> as Clone>::clone":                                                    "<vec::Vec<..> as Clone>::clone",
		"<module>":                                                                         "<module>",
		"work.<locals>.<lambda>":                                                           "work.<locals>.<lambda>",
		"main.(*Server).Serve":                                                             "main.(*Server).Serve",
		"java.lang.Object.<init>":                                                          "java.lang.Object.<init>",
		"(anonymous namespace)::run":                                                       "(anonymous namespace)::run",
		"unbalanced<int":                                                                   "unbalanced<int",
		"std::function<void ()>::operator()()":                                             "std::function<..>::operator()()",
		"folly::Future<folly::Unit>::then(int, a)":                                         "folly::Future<..>::then(..)",
	}
	names := slices.Sorted(maps.Keys(want))
	list, err := json.Marshal(names)
	if err != nil {
		t.Fatal(err)
	}
	got := result(t, b, chromedp.Evaluate[[]string](fmt.Sprintf(
		`%s.map(name => document.querySelector("#flame").view.shorten(name))`, list)))
	for i, name := range names {
		if got[i] != want[name] {
			t.Errorf("%s is shortened to %s, not %s", name, got[i], want[name])
		}
	}
}
