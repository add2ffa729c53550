package page

import (
	"context"
	"fmt"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"
	"github.com/stretchr/testify/require"

	"github.com/headwater/headwater/integration/testkit"
)

// mostActions is how many actions a task may take, from the overview on.
const mostActions = 4

// TestTasks does the tasks of a person on call with the page, only by pointer and keyboard, and compares the page's
// answers with the profiles.
func TestTasks(t *testing.T) {
	t.Parallel()
	s := newShop(t)
	b := openBrowser(t)
	for _, task := range []struct {
		name string
		do   func(t *testing.T, s *shop, h *hand)
	}{
		{"which function grew since then", taskGrew},
		{"who calls malloc most", taskCallers},
		{"show thread http-1 only", taskThread},
		{"what of this is the kernel or garbage collection", taskKinds},
		{"which process uses most", taskProcess},
		{"what did the deploy change", taskDeploy},
		{"export it for go tool pprof", taskExport},
		{"find a function and its share", taskFind},
		{"why are stacks incomplete", taskIncomplete},
		{"send this to a colleague", taskSend}, // the last one: it adds to the profiles
	} {
		t.Run(task.name, func(t *testing.T) {
			b.do(t, chromedp.Navigate("about:blank"), chromedp.Navigate(s.server.URL+"/profiler/"))
			h := &hand{t: t, b: b}
			h.waits("the overview", `document.querySelector("#choose") !== null`)
			task.do(t, s, h)
			b.screenshot(t, "task-"+strings.ReplaceAll(task.name, " ", "-"))
			t.Logf("%d actions: %s", len(h.actions), strings.Join(h.actions, ", "))
			require.LessOrEqual(t, len(h.actions), mostActions, "actions: %q", h.actions)
		})
	}
	b.checkComplaints(t, s.server.URL)
}

// hand does what people do at a page, and notes it: a click, a drag, a key, or a text that is typed, with Enter after
// it.
type hand struct {
	t       *testing.T
	b       *browser
	actions []string
}

// click clicks on the element whose text starts with text.
func (h *hand) click(selector, text string) {
	h.t.Helper()
	h.actions = append(h.actions, "click "+selector+" "+text)
	at := placeOf(h.t, h.b, selector, text)
	h.b.do(h.t, chromedp.MouseClickXY(at[0], at[1]))
}

// clickFrame clicks on a frame of the flame graph.
func (h *hand) clickFrame(name string) {
	h.t.Helper()
	h.actions = append(h.actions, "click frame "+name)
	at := flameBox(h.t, h.b, name)
	require.NotZero(h.t, at.Width, name)
	h.b.do(h.t, chromedp.MouseClickXY(at.X+at.Width/2, at.Y+at.Height/2))
	painted(h.t, h.b)
}

func (h *hand) key(key string) {
	h.t.Helper()
	h.actions = append(h.actions, "key "+key)
	press(h.t, h.b, key, "")
	painted(h.t, h.b)
}

// types types a text. If Enter leads to another page, the browser may no longer answer for the key.
func (h *hand) types(text string) {
	h.t.Helper()
	h.actions = append(h.actions, fmt.Sprintf("type %q", text))
	ctx, cancel := context.WithTimeout(h.b.ctx, browserPatience)
	defer cancel()
	_, err := chromedp.Run(ctx, chromedp.KeyEvent(text))
	if err != nil && !(strings.HasSuffix(text, kb.Enter) && strings.Contains(err.Error(), "navigated")) {
		h.t.Fatal(err)
	}
}

// drags moves the pointer over the timeline, from one part of its width to another.
func (h *hand) drags(from, to float64, held int64) {
	h.t.Helper()
	h.actions = append(h.actions, fmt.Sprintf("drag %v to %v", from, to))
	before := result(h.t, h.b, chromedp.Location())
	drag(h.t, h.b, from*rounds, to*rounds, held)
	h.waits("another range is shown", fmt.Sprintf(`location.href !== %q`, before))
	h.sees()
}

// sees waits until a flame graph is drawn, and the timeline if there is one.
func (h *hand) sees() {
	h.t.Helper()
	h.waits("the flame graph is drawn", `document.querySelector("#flame")?.view !== undefined &&
		(document.querySelector("#timeline") === null || document.querySelector("#timeline .mark.chosen") !== null)`)
	painted(h.t, h.b)
}

// opens opens the flame graph of all that the overview shows.
func (h *hand) opens() {
	h.t.Helper()
	h.click("#choose button", "Open flame graph")
	h.sees()
}

// searches types what to search for.
func (h *hand) searches(text string) {
	h.t.Helper()
	h.key("/")
	h.types(text)
	painted(h.t, h.b)
}

func (h *hand) waits(what, condition string) {
	h.t.Helper()
	h.b.waits(h.t, what, condition)
}

// share is a part of all samples as the page writes it.
func (s *shop) share(n float64) string { return fmt.Sprintf("%.1f %%", 100*n/s.samples[""]) }

func taskGrew(t *testing.T, s *shop, h *hand) {
	h.opens()
	h.drags(0.5, 1, 0)
	h.drags(0.5, 0, 8) // with Shift
	middle := s.end.Add(-shopRounds / 2 * 15 * time.Second).UnixMilli()
	require.Equal(t, middle, shown(t, h.b, "from"))
	require.Equal(t, middle, shown(t, h.b, "base_to"))
	rows := rowsOf(t, h.b, ".top")
	require.True(t, strings.HasPrefix(rows[0], "price | "), rows[0])
	require.Regexp(t, `\+(4[5-9]|5[0-5]) %`, strings.Split(rows[0], " | ")[3])
	require.Contains(t, text(t, h.b, ".verdict"), "1 function became more expensive")
}

func taskCallers(t *testing.T, s *shop, h *hand) {
	h.opens()
	h.searches("malloc")
	h.click("[data-mode=sandwich]", "")
	painted(t, h.b)
	require.Equal(t, "malloc total "+s.share(s.samples["malloc"])+", self "+s.share(s.self["malloc"]),
		text(t, h.b, "#sandwich-heading"))
	callers := framesOf(t, h.b, "above")
	require.Greater(t, callers["parse"], callers["price"])
	require.Greater(t, callers["price"], callers["render"])
	require.InDelta(t, 90./140, callers["parse"], 0.03)
}

func taskThread(t *testing.T, s *shop, h *hand) {
	h.opens()
	h.click(".choose summary", "")
	h.click("label[for=choose-thread]", "Thread")
	h.types("http-1" + kb.Enter)
	h.waits("the thread is chosen", `location.search.includes("thread=http-1")`)
	h.sees()
	require.Equal(t, s.samples["thread http-1"]*shopPeriod, result(t, h.b, chromedp.Evaluate[float64](
		`(view => view.profile.total * view.profile.data.scale)(document.querySelector("#flame").view)`)))
	h.waits("the timeline", `document.querySelector("#timeline").timeline?.data !== undefined`)
	timeline := result(t, h.b, chromedp.Evaluate[[]float64](`document.querySelector("#timeline").timeline.data.all`))
	sum := float64(len(timeline)) / 2 // less than a ms of each interval is left out
	for _, ms := range timeline {
		sum += ms
	}
	require.InDelta(t, s.samples["thread http-1"]*shopPeriod/1e6, sum, float64(len(timeline)))
	frames := framesOf(t, h.b, "main")
	require.Zero(t, frames["render"])
	require.InDelta(t, s.samples["price"]/s.samples["thread http-1"], frames["price"], 0.002)
}

// taskSend: who gets the link sees the same, also when there are newer profiles.
func taskSend(t *testing.T, s *shop, h *hand) {
	h.opens()
	h.clickFrame("parse")
	h.click("#link", "Copy link")
	h.waits("the link is copied", `document.querySelector("#notice").textContent === "The link is copied."`)
	link := h.b.clipboard(t)
	require.Equal(t, link, result(t, h.b, chromedp.Location()))
	times, frames := text(t, h.b, ".selection"), framesOf(t, h.b, "main")
	require.InDelta(t, 1, frames["parse"], 1e-6)

	s.addRound(t, s.end.Add(15*time.Second), 2, "bbbb2222", 1.5)
	colleague := openBrowser(t)
	colleague.do(t, chromedp.Navigate(link))
	waitForFlame(t, colleague)
	require.Equal(t, times, text(t, colleague, ".selection"))
	require.Equal(t, frames, framesOf(t, colleague, "main"))
}

func taskKinds(t *testing.T, s *shop, h *hand) {
	h.opens()
	require.Contains(t, text(t, h.b, ".legend"), "kernel "+s.share(s.self["do_syscall_64"]))
	h.searches("runtime.gc") // one frame of each build
	require.Equal(t, "2 frames, "+s.share(s.samples["runtime.gcBgMarkWorker"]), text(t, h.b, "#found"))
}

func taskProcess(t *testing.T, s *shop, h *hand) {
	const row = `[aria-labelledby=process-heading] tbody tr`
	require.Equal(t, "shopd", text(t, h.b, row+" th"))
	require.Contains(t, text(t, h.b, row+" .bar"), s.share(s.samples[""]-s.samples["crunch"]))
	h.click(row+" .links a", "Flame graph of shopd")
	h.sees()
	frames := framesOf(t, h.b, "main")
	require.InDelta(t, 1, frames["shopd"], 1e-6)
	require.Zero(t, frames["crunch"])
}

func taskDeploy(t *testing.T, s *shop, h *hand) {
	const row = `[aria-labelledby=builds-heading] tbody tr`
	testkit.Eventually(t, "the builds are compared", func() bool {
		h.b.do(t, chromedp.Navigate(s.server.URL+"/profiler/"))
		return strings.Contains(text(t, h.b, row), "1 more expensive, 0 less")
	})

	h.click(row+" .links a", "What changed")
	h.sees()
	changed := rowsOf(t, h.b, "#changed")
	require.Len(t, changed, 1)
	require.True(t, strings.HasPrefix(changed[0], "price | "), changed[0])
	require.Regexp(t, `\+(4[5-9]|5[0-5]) %`, strings.Split(changed[0], " | ")[3])
	require.Contains(t, text(t, h.b, ".selection"), "bbbb2222")
}

func taskExport(t *testing.T, s *shop, h *hand) {
	dir := t.TempDir()
	h.b.allowDownloads(t, dir)
	h.click("#choose button", "Download pprof")
	var file string
	testkit.Eventually(t, "the file is there", func() bool {
		found, _ := filepath.Glob(filepath.Join(dir, "*.pb.gz"))
		if len(found) == 1 {
			file = found[0]
		}
		return len(found) == 1
	})

	out, err := exec.Command("go", "tool", "pprof", "-top", "-unit=ms", file).CombinedOutput()
	require.NoError(t, err, string(out))
	got := map[string]string{} // flat, by function
	for line := range strings.Lines(string(out)) {
		if fields := strings.Fields(line); len(fields) == 6 {
			got[fields[5]] = fields[0]
		}
	}
	for name, n := range s.self {
		require.Equal(t, fmt.Sprintf("%.0fms", n*shopPeriod/1e6), got[name], "%s in %s", name, out)
	}
}

func taskFind(t *testing.T, s *shop, h *hand) {
	h.opens()
	h.searches("SCANOBJECT")
	require.Equal(t, "2 frames, "+s.share(s.samples["runtime.scanobject"]), text(t, h.b, "#found"))
	rows := rowsOf(t, h.b, ".top")
	require.Len(t, rows, 1)
	require.True(t, strings.HasPrefix(rows[0], "runtime.scanobject | "+s.share(s.self["runtime.scanobject"])), rows[0])
}

func taskIncomplete(t *testing.T, s *shop, h *hand) {
	h.key("End")
	require.Equal(t, []string{"/opt/vendor/libold.so | no_row | 255", shopProgram + " | depth_limit | 40",
		"/usr/lib/libother.so | no_row | 5"}, rowsOf(t, h.b, "[aria-labelledby=binaries-heading]"))
}
