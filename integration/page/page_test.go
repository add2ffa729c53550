package page

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/log"
	"github.com/chromedp/cdproto/network"
	"github.com/chromedp/cdproto/runtime"
	"github.com/chromedp/chromedp"

	"github.com/headwater/headwater/integration/testkit"
	"github.com/headwater/headwater/integration/testkit/need"
	"github.com/headwater/headwater/integration/testkit/rig"
)

// TestPage runs river/examples/quickstart.river, as `make run` does, and opens the page in a
// browser. The overview shows the target and the processes, and a process's flame graph has
// the functions that its program calls.
func TestPage(t *testing.T) {
	t.Parallel()
	need.Root(t)
	rig.StartChain(t, rig.ChainProgram(t, "hwpage"), 180)
	h := rig.StartHeadwater(t, rig.ReadFile(t, "../../river/examples/quickstart.river"))
	b := openBrowser(t)

	const row = `//tr[th[normalize-space()="hwpage"]]`
	const link = chromedp.Search(row + `//a[starts-with(normalize-space(), "Flame graph")]`)
	testkit.Eventually(t, "the overview has the process", func() bool {
		b.do(t, chromedp.Navigate(h.URL+rig.PagePath))
		return result(t, b, chromedp.Evaluate[bool](fmt.Sprintf(`document.evaluate(%q, document).iterateNext() !== null`,
			row)))
	})

	overview := result(t, b, chromedp.Text(chromedp.CSS("body")))
	b.screenshot(t, "overview")
	for _, word := range []string{"Healthy", "Samples", "Complete", "Targets", "hwpage", "complete"} {
		if !strings.Contains(overview, word) {
			t.Errorf("the overview does not say %q:\n%s", word, overview)
		}
	}

	b.do(t, chromedp.Click(link))
	waitForFlame(t, b)
	testkit.Eventually(t, "names are read", func() bool {
		if flameBox(t, b, "f59").Width >= 600 {
			return true
		}
		b.do(t, chromedp.Navigate(h.URL+rig.PagePath), chromedp.Click(link))
		waitForFlame(t, b)
		return false
	})

	b.screenshot(t, "flamegraph")
	for i := range 60 {
		if at := flameBox(t, b, fmt.Sprintf("f%02d", i)); at.Width < 600 {
			t.Errorf("the flame graph has f%02d at %+v", i, at)
		}
	}

	b.checkComplaints(t, h.URL)
	h.Stop(t)
}

// browser is a headless Chromium with one page, and its complaints.
type browser struct {
	ctx context.Context

	mu         sync.Mutex
	complaints []string
	requests   []string
}

// chromium is Debian's chromium without the parts that draw windows: it starts twenty times as fast. Its command in
// /usr/bin is a script, whose end would not end the browser.
const chromium = "/usr/lib/chromium/chromium-headless-shell"

// openBrowser starts chromium with a profile of its own. The browser makes no connections by itself.
func openBrowser(t testing.TB, more ...chromedp.ExecAllocatorOption) *browser {
	t.Helper()
	need.Tools(t, chromium)
	options := []chromedp.ExecAllocatorOption{
		chromedp.ExecPath(chromium), chromedp.UserDataDir(t.TempDir()), chromedp.WindowSize(1280, 900),
		chromedp.Headless, chromedp.NoSandbox, chromedp.NoFirstRun, chromedp.Flag("disable-gpu", true),
		chromedp.Flag("disable-quic", true), chromedp.Flag("disable-background-networking", true),
		chromedp.Flag("disable-component-update", true), chromedp.Flag("disable-sync", true),
	}
	allocator, stopAllocator := chromedp.NewExecAllocator(context.Background(), append(options, more...)...)
	ctx, stop := chromedp.NewContext(allocator)
	t.Cleanup(func() { stop(); stopAllocator() })
	b := &browser{ctx: ctx}
	if err := chromedp.Listen(ctx, b.listen); err != nil {
		t.Fatalf("start chromium: %v", err)
	}
	if _, err := chromedp.Call(ctx, network.Enable, network.EnableParams{}); err != nil {
		t.Fatal(err)
	}
	if _, err := chromedp.Call(ctx, log.Enable, cdp.Empty{}); err != nil {
		t.Fatal(err)
	}
	return b
}

// listen notes errors, such as a violated content security policy, and the
// address of each request.
func (b *browser) listen(event any) {
	b.mu.Lock()
	defer b.mu.Unlock()
	switch e := event.(type) {
	case *runtime.EventExceptionThrown:
		b.complaints = append(b.complaints, fmt.Sprint(e.ExceptionDetails.Text, " ", e.ExceptionDetails.URL, ":",
			e.ExceptionDetails.LineNumber))
	case *log.EventEntryAdded:
		if e.Entry.Level == log.EntryLevelError || e.Entry.Level == log.EntryLevelWarning {
			b.complaints = append(b.complaints, e.Entry.Text+" "+e.Entry.URL)
		}
	case *network.EventRequestWillBeSent:
		b.requests = append(b.requests, e.Request.URL)
	}
}

// do does something in the page. A step whose element the page replaced before the browser could use it, as a page that
// refreshes itself does, is done with the new element.
func (b *browser) do(t testing.TB, steps ...chromedp.Action[chromedp.Void]) {
	t.Helper()
	ctx, cancel := context.WithTimeout(b.ctx, browserPatience)
	defer cancel()
	for _, step := range steps {
		_, err := chromedp.Run(ctx, step)
		for err != nil && strings.Contains(err.Error(), "Could not find node with given id") {
			_, err = chromedp.Run(ctx, step)
		}
		if err != nil {
			t.Fatalf("browser: %v", err)
		}
	}
}

// browserPatience is how long the browser may take for a step.
const browserPatience = 2 * time.Minute

// result asks the page for something, and returns its answer. A question that comes while the browser changes from one
// page to the next is asked again.
func result[T any](t testing.TB, b *browser, action chromedp.Action[T]) T {
	t.Helper()
	ctx, cancel := context.WithTimeout(b.ctx, browserPatience)
	defer cancel()
	answer, err := chromedp.Run(ctx, action)
	for err != nil && strings.Contains(err.Error(), "Inspected target navigated or closed") {
		answer, err = chromedp.Run(ctx, action)
	}
	if err != nil {
		t.Fatalf("browser: %v", err)
	}
	return answer
}

// waits waits until a condition of the page is true. While another page loads, it is false.
func (b *browser) waits(t testing.TB, what, condition string) {
	t.Helper()
	testkit.Eventually(t, what, func() bool {
		ctx, cancel := context.WithTimeout(b.ctx, browserPatience)
		defer cancel()
		is, err := chromedp.Run(ctx, chromedp.Evaluate[bool](condition))
		return err == nil && is
	})
}

// checkComplaints requires a quiet console and no request to another origin.
func (b *browser) checkComplaints(t testing.TB, origin string) {
	t.Helper()
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, complaint := range b.complaints {
		t.Errorf("the browser complains: %s", complaint)
	}
	for _, request := range b.requests {
		if !strings.HasPrefix(request, origin+"/") && !strings.HasPrefix(request, "data:") {
			t.Errorf("the page loads %s", request)
		}
	}
	if len(b.requests) == 0 {
		t.Error("no request was seen: this test does not look")
	}
}

// screenshot keeps a picture of the page, if HEADWATER_SCREENSHOTS says where.
func (b *browser) screenshot(t testing.TB, name string) {
	t.Helper()
	dir := os.Getenv("HEADWATER_SCREENSHOTS")
	if dir == "" {
		return
	}
	picture := result(t, b, chromedp.CaptureScreenshot())
	if err := os.WriteFile(filepath.Join(dir, name+".png"), picture, 0o644); err != nil {
		t.Fatal(err)
	}
}
