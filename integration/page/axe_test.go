package page

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/chromedp"
	"github.com/stretchr/testify/require"

	"github.com/headwater/headwater/integration/testkit/need"
	"github.com/headwater/headwater/integration/testkit/rig"
)

// axeFolder is the variable that has the folder of axe-core's npm package.
const axeFolder = "HEADWATER_AXE"

// TestAxe: axe, which looks for barriers for people with disabilities, finds no problem in any view of a flame graph:
// light, dark, on a phone, with a menu or the list of keys open.
func TestAxe(t *testing.T) {
	axe := axeScript(t)
	b := openBrowser(t)
	server := flameServer(t)
	for _, theme := range []string{"light", "dark"} {
		b.prefers(t, theme)
		for _, width := range []int64{1280, 390} {
			b.do(t, chromedp.EmulateViewport(width, 800), chromedp.Navigate(server.URL+"/profiler/open"))
			waitForFlame(t, b)
			b.do(t, chromedp.Evaluate[chromedp.Void](axe))
			for _, mode := range []string{"table", "both", "flame", "sandwich", "tree"} {
				where := fmt.Sprintf("%s, %d wide, %s", theme, width, mode)
				b.do(t, chromedp.Click(chromedp.CSS("[data-mode="+mode+"]")))
				painted(t, b)
				checkAxe(t, b, where)
			}
			b.do(t, chromedp.Click(chromedp.CSS("[data-mode=flame]")))
			b.do(t, chromedp.Click(chromedp.CSS(".legend button")))
			checkAxe(t, b, theme+", one kind alone")
			b.do(t, chromedp.Click(chromedp.CSS(".legend button")))
			pick(t, b, "main", "Focus")
			pick(t, b, "handle", "Zoom")
			b.do(t, chromedp.Focus(chromedp.CSS("#chart")))
			press(t, b, "Enter", "\r")
			checkAxe(t, b, theme+", with a menu")
			press(t, b, "Escape", "")
			b.do(t, chromedp.Click(chromedp.CSS("#keys-button")))
			checkAxe(t, b, theme+", with the keys")
			b.do(t, chromedp.Click(chromedp.CSS("#help button")))
			pick(t, b, "handle", "Lines by heat")
			b.waits(t, "the lines are there", `document.querySelectorAll("#lines tbody tr").length > 0`)
			checkAxe(t, b, theme+", with lines")
			b.do(t, chromedp.Click(chromedp.CSS("#lines button")), chromedp.Click(chromedp.CSS(".choose summary")))
			checkAxe(t, b, theme+", with the forms")
			b.screenshot(t, fmt.Sprintf("axe-forms-%s-%d", theme, width))
		}
	}
}

// TestAxePages: nor does it in the pages of components, and of files.
func TestAxePages(t *testing.T) {
	axe := axeScript(t)
	need.Root(t)
	h := rig.StartHeadwater(t, uiConfig)
	file := filepath.Join(t.TempDir(), "other.folded")
	require.NoError(t, os.WriteFile(file, []byte("main;hot 90\nmain;cold 10\n"), 0o600))
	files, _ := startServe(t, file)
	b := openBrowser(t)
	for _, theme := range []string{"light", "dark"} {
		b.prefers(t, theme)
		for _, width := range []int64{1280, 390} {
			for _, address := range []string{
				h.URL + "/", h.URL + "/graph", h.URL + "/component/pyroscope.ebpf.host", h.URL + "/processes",
				h.URL + "/health", h.URL + rig.PagePath, files, files + "1/",
			} {
				b.do(t, chromedp.EmulateViewport(width, 800), chromedp.Navigate(address))
				b.waits(t, "the page is there", `document.querySelector("main h1, header h1") !== null &&
					(document.querySelector("#flame") === null || document.querySelector("#flame").view !== undefined)`)
				b.do(t, chromedp.Evaluate[chromedp.Void](`document.querySelectorAll("details").forEach(e => { e.open = true; })`),
					chromedp.Evaluate[chromedp.Void](axe))
				checkAxe(t, b, fmt.Sprintf("%s, %s, %d wide", address, theme, width))
			}
		}
	}
	h.Stop(t)
}

// axeScript returns axe's script.
func axeScript(t *testing.T) string {
	t.Helper()
	folder := os.Getenv(axeFolder)
	if folder == "" {
		t.Skip("a program from npm; make -C integration axe runs it")
	}
	axe, err := os.ReadFile(filepath.Join(folder, "axe.min.js"))
	require.NoError(t, err)
	return string(axe)
}

// prefers sets the browser's preference for light or dark pages.
func (b *browser) prefers(t testing.TB, theme string) {
	t.Helper()
	_, err := chromedp.Call(b.ctx, emulation.SetEmulatedMedia, emulation.SetEmulatedMediaParams{
		Features: []*emulation.MediaFeature{{Name: "prefers-color-scheme", Value: theme}},
	})
	require.NoError(t, err)
}

// checkAxe runs axe, which the page has.
func checkAxe(t testing.TB, b *browser, where string) {
	t.Helper()
	findings := result(t, b, chromedp.Evaluate[[]string](`axe.run(document).then(found => {
		if (found.passes.length === 0) return ["axe has looked at nothing"];
		return found.violations.flatMap(rule => rule.nodes.map(node =>
			rule.id + ": " + node.html.slice(0, 200) + " " + node.failureSummary));
	})`, chromedp.EvalAwaitPromise))
	for _, finding := range findings {
		t.Errorf("%s: %s", where, finding)
	}
}
