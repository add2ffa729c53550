package page

import (
	"bytes"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/chromedp/cdproto/input"
	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"

	"github.com/headwater/headwater/flame/server"
	"github.com/headwater/headwater/integration/testkit"
)

// rounds is how many intervals the history of a timeline has.
const rounds = 8

// timelineServer shows intervals of 15 s up to end, the later ones with more of the process job.
func timelineServer(t *testing.T, end time.Time) (*httptest.Server, *server.Page) {
	t.Helper()
	page := server.New(server.Options{Name: "test", Status: func() server.Status {
		return server.Status{Healthy: true, Interval: 15 * time.Second, SampleRate: 100, ByName: true}
	}})
	for i := range rounds {
		addRound(t, page, end.Add(time.Duration(i-rounds+1)*15*time.Second), uint64(100*(i+1)))
	}
	server := httptest.NewServer(http.StripPrefix("/profiler", page))
	t.Cleanup(server.Close)
	return server, page
}

// addRound adds an interval in which the process service has 400 samples, and job as many as are given.
func addRound(t *testing.T, page *server.Page, end time.Time, job uint64) {
	t.Helper()
	var data bytes.Buffer
	p := flameProfile(t)
	p.Sample = p.Sample[:8] // without the many small ones
	if err := p.Compact().Write(&data); err != nil {
		t.Fatal(err)
	}
	page.Add(end.Add(-15*time.Second), end, []server.Profile{{
		Labels: map[string]string{"service_name": "service"}, Data: data.Bytes(), Samples: 400 + job,
		Processes: []server.Process{{PID: 1, Comm: "service", Samples: 400}, {PID: 2, Comm: "job", Samples: job}},
	}})
}

// TestTimeline chooses ranges as people do: by dragging, by keys, by a form, and by following the newest profiles.
func TestTimeline(t *testing.T) {
	t.Parallel()
	end := time.Now().Truncate(time.Second)
	server, page := timelineServer(t, end)
	b := openBrowser(t)
	ui := &uiPage{t: t, b: b, url: server.URL}
	b.do(t, chromedp.Navigate(server.URL+"/profiler/open?range=last"))
	waitForTimeline(t, b)
	waitForFlame(t, b)
	ui.checkNames()
	b.screenshot(t, "timeline")
	checkBars(t, b)
	t.Run("drag", func(t *testing.T) { checkDrag(t, b, end) })
	t.Run("keys", func(t *testing.T) { checkSliders(t, b, end) })
	t.Run("baseline", func(t *testing.T) { checkBaseline(t, b, end) })
	t.Run("ranges", func(t *testing.T) { checkRanges(t, b, server.URL, end) })
	t.Run("form", func(t *testing.T) { checkForm(t, b, server.URL) })
	t.Run("live", func(t *testing.T) { checkLive(t, b, server.URL, page, end) })
	b.checkComplaints(t, server.URL)
}

func waitForTimeline(t *testing.T, b *browser) {
	t.Helper()
	testkit.Eventually(t, "the timeline is drawn", func() bool {
		return result(t, b, chromedp.Evaluate[bool](`document.readyState === "complete" &&
			document.querySelectorAll("#timeline .mark.chosen").length === 1`))
	})
}

// checkBars compares the drawing with the samples: the last interval has the tallest bars.
func checkBars(t *testing.T, b *browser) {
	heights := result(t, b, chromedp.Evaluate[[]float64](
		`[...document.querySelectorAll("#timeline rect[class^=group]")].map(r => r.height.baseVal.value)`))
	if len(heights) != 2*rounds {
		t.Fatalf("%d bars, not %d", len(heights), 2*rounds)
	}
	sum := func(i int) float64 { return heights[2*i] + heights[2*i+1] }
	if got, want := sum(0)/sum(rounds-1), 500./1200; got < want-0.01 || got > want+0.01 {
		t.Errorf("the first interval is %f as high as the last one, not %f", got, want)
	}
	if legend := text(t, b, "#timeline .series"); legend != "jobservice" {
		t.Errorf("the legend is %q", legend)
	}
	if said := text(t, b, "#timeline .said"); !strings.HasSuffix(said, ", 0.80 CPUs") {
		t.Errorf("the last interval is described as %q", said)
	}
}

// shown returns a time that the address has, in ms since 1970.
func shown(t *testing.T, b *browser, name string) int64 {
	t.Helper()
	here, err := url.Parse(result(t, b, chromedp.Location()))
	if err != nil {
		t.Fatal(err)
	}
	n, _ := strconv.ParseInt(here.Query().Get(name), 10, 64)
	return n
}

// drag moves the pointer from one edge of intervals to another. The first edge is 0.
func drag(t *testing.T, b *browser, from, to float64, held int64) {
	t.Helper()
	at := result(t, b, chromedp.Evaluate[box](`(() => {
		const box = document.querySelector("#timeline .plot").getBoundingClientRect();
		return {X: box.x, Y: box.y, Width: box.width, Height: box.height};
	})()`))
	for _, step := range []struct {
		kind input.DispatchMouseEventType
		edge float64
	}{
		{input.DispatchMouseEventTypeMousePressed, from}, {input.DispatchMouseEventTypeMouseMoved, (from + to) / 2},
		{input.DispatchMouseEventTypeMouseReleased, to},
	} {
		event := input.DispatchMouseEventParams{
			Type: step.kind, X: at.X + at.Width*step.edge/rounds, Y: at.Y + at.Height/2, Button: input.MouseButtonLeft,
			Buttons: 1, ClickCount: 1, Modifiers: held,
		}
		if _, err := chromedp.Call(b.ctx, input.DispatchMouseEvent, event); err != nil {
			t.Fatal(err)
		}
	}
}

// waitForRange waits until the address has a range, in intervals before end.
func waitForRange(t *testing.T, b *browser, end time.Time, names string, from, to int) {
	t.Helper()
	first, last, _ := strings.Cut(names, ",")
	at := func(edge int) int64 { return end.Add(time.Duration(edge-rounds) * 15 * time.Second).UnixMilli() }
	testkit.Eventually(t, fmt.Sprintf("%s are the edges %d and %d", names, from, to), func() bool {
		return shown(t, b, first) == at(from) && shown(t, b, last) == at(to)
	})

	waitForTimeline(t, b)
}

func checkDrag(t *testing.T, b *browser, end time.Time) {
	b.waits(t, "the view has a mode", // it may write its state into the address once more
		`(location.hash = "mode=both", document.querySelector("#flame").view.state.mode === "both")`)
	drag(t, b, 2.1, 5.9, 0)
	waitForRange(t, b, end, "from,to", 2, 6)
	waitForFlame(t, b)
	if here := result(t, b, chromedp.Location()); !strings.HasSuffix(here, "#mode=both") {
		t.Errorf("the view's state is lost: %s", here)
	}
	if selection := text(t, b, ".selection"); !strings.Contains(selection, "3,400 samples") { // 4*400 + 300+400+500+600
		t.Errorf("the page shows %q", selection)
	}
}

func checkSliders(t *testing.T, b *browser, end time.Time) {
	b.do(t, chromedp.Focus(chromedp.CSS(`#timeline [data-side="to"]`)), chromedp.KeyEvent(kb.ArrowLeft))
	value := result(t, b, chromedp.Evaluate[string](`document.activeElement.getAttribute("aria-valuenow")`))
	if want := strconv.FormatInt(end.Add(-45*time.Second).UnixMilli(), 10); value != want {
		t.Errorf("the end is at %s, not %s", value, want)
	}
	b.do(t, chromedp.Focus(chromedp.CSS(`#timeline [data-side="from"]`)), chromedp.KeyEvent(kb.Home),
		chromedp.KeyEvent("\r"))
	waitForRange(t, b, end, "from,to", 0, 5)
}

func checkBaseline(t *testing.T, b *browser, end time.Time) {
	drag(t, b, 4, 8, 0)
	waitForRange(t, b, end, "from,to", 4, 8)
	drag(t, b, 4, 0, 8)
	waitForRange(t, b, end, "base_from,base_to", 0, 4)
	waitForRange(t, b, end, "from,to", 4, 8)
	waitForFlame(t, b)
	b.screenshot(t, "timeline-compare")
	if verdict := text(t, b, ".verdict"); !strings.Contains(verdict, "No function certainly changed") {
		t.Errorf("equal profiles are compared as %q", verdict)
	}
}

func checkForm(t *testing.T, b *browser, origin string) {
	b.do(t, chromedp.Navigate(origin+"/profiler/open?range=1m"))
	waitForTimeline(t, b)
	b.do(t, chromedp.Click(chromedp.CSS(".choose summary")))
	options := result(t, b, chromedp.Evaluate[[]string](
		`[...document.querySelector("#choose-process").list.options].map(o => o.value)`))
	if strings.Join(options, " ") != "job service" {
		t.Errorf("the processes to choose from are %q", options)
	}
	b.screenshot(t, "timeline-form")
	b.do(t, chromedp.Focus(chromedp.CSS("#choose-process")), chromedp.KeyEvent("service"), chromedp.KeyEvent("\r"))
	testkit.Eventually(t, "the process is chosen", func() bool {
		return strings.Contains(result(t, b, chromedp.Location()), "process=service")
	})

	waitForTimeline(t, b)
	if legend := text(t, b, "#timeline .series"); legend != "service" {
		t.Errorf("the legend of one process is %q", legend)
	}
}

// checkRanges goes from a range to the newest minute by a link. The view shows the same there.
func checkRanges(t *testing.T, b *browser, origin string, end time.Time) {
	b.do(t, chromedp.Navigate(origin+"/profiler/open?range=last"))
	waitForTimeline(t, b)
	waitForFlame(t, b)
	b.do(t, chromedp.Click(chromedp.CSS("[data-mode=tree]")))
	testkit.Eventually(t, "the address has the view", func() bool {
		return strings.Contains(result(t, b, chromedp.Location()), "mode=tree")
	})

	b.do(t, chromedp.Click(chromedp.CSS(`.ranges a[href*="range=1m"]`)))
	testkit.Eventually(t, "the newest minute is shown", func() bool {
		return shown(t, b, "to") == end.UnixMilli() && shown(t, b, "from") == end.Add(-time.Minute).UnixMilli()
	})

	waitForTimeline(t, b)
	if address := result(t, b, chromedp.Location()); !strings.Contains(address, "mode=tree") {
		t.Errorf("the view is another one at %s", address)
	}
}

// checkLive follows the newest profile, and comes to it from a link that has expired.
func checkLive(t *testing.T, b *browser, origin string, page *server.Page, end time.Time) {
	b.do(t, chromedp.Navigate(origin+"/profiler/open?range=last"))
	waitForTimeline(t, b)
	b.do(t, chromedp.Click(chromedp.CSS("#live")))
	newest := end.Add(15 * time.Second)
	addRound(t, page, newest, 100)
	b.do(t, chromedp.Evaluate[chromedp.Void](`void document.querySelector("#timeline").timeline.follow()`))
	testkit.Eventually(t, "the newest profile is shown", func() bool {
		return shown(t, b, "to") == newest.UnixMilli()
	})

	waitForTimeline(t, b)
	if label := text(t, b, "#live"); label != "Pause" {
		t.Errorf("the page is live, and its button says %q", label)
	}
	b.do(t, chromedp.Click(chromedp.CSS("#live")))
	if here := result(t, b, chromedp.Location()); strings.Contains(here, "live=") {
		t.Errorf("a paused page is at %s", here)
	}
	b.do(t, chromedp.Navigate(origin+"/profiler/flame?from=1000&to=61000"))
	if message := text(t, b, "main"); !strings.Contains(message, "no longer kept") {
		t.Errorf("an expired link says %q", message)
	}
	b.do(t, chromedp.Click(chromedp.CSS("#newest")))
	waitForTimeline(t, b)
	if got := shown(t, b, "to") - shown(t, b, "from"); got != 60_000 {
		t.Errorf("an expired link of a minute leads to %d ms", got)
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	kept := b.complaints[:0]
	for _, complaint := range b.complaints { // the answer of the expired link is 410
		if !strings.Contains(complaint, "/flame?from=1000") {
			kept = append(kept, complaint)
		}
	}
	b.complaints = kept
}
