package page

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/chromedp"
	"github.com/stretchr/testify/require"
)

// axeFolder is the variable that has the folder of axe-core's npm package.
const axeFolder = "HEADWATER_AXE"

// TestAxe: axe, which looks for what keeps people with disabilities out, finds nothing in any view of a flame graph:
// light, dark, on a phone, with a menu or the list of keys open.
func TestAxe(t *testing.T) {
	folder := os.Getenv(axeFolder)
	if folder == "" {
		t.Skip("a program from npm; make -C integration axe runs it")
	}
	axe, err := os.ReadFile(filepath.Join(folder, "axe.min.js"))
	require.NoError(t, err)
	b := openBrowser(t)
	server := flameServer(t)
	for _, theme := range []string{"light", "dark"} {
		_, err := chromedp.Call(b.ctx, emulation.SetEmulatedMedia, emulation.SetEmulatedMediaParams{
			Features: []*emulation.MediaFeature{{Name: "prefers-color-scheme", Value: theme}},
		})
		require.NoError(t, err)
		for _, width := range []int64{1280, 390} {
			b.do(t, chromedp.EmulateViewport(width, 800), chromedp.Navigate(server.URL+"/profiler/open"))
			waitForFlame(t, b)
			b.do(t, chromedp.Evaluate[chromedp.Void](string(axe)))
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
		}
	}
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
