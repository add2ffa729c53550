package page

import (
	"testing"

	"github.com/chromedp/chromedp"
	"github.com/stretchr/testify/require"
)

// TestUnfold: a click on a folded frame requests its contents from the server. The view before is unchanged.
func TestUnfold(t *testing.T) {
	t.Parallel()
	server := flameServer(t)
	b := openBrowser(t)
	b.do(t, chromedp.Navigate(server.URL+"/profiler/open"))
	waitForFlame(t, b)
	require.Zero(t, flameBox(t, b, "tiny77").Width)
	before := framesOf(t, b, "main")
	unfoldTiny(t, b)
	b.do(t, chromedp.Evaluate[chromedp.Void](`document.querySelector("#flame").view.searchFor("^tiny13999$")`))
	require.Equal(t, "1 frame, <0.1 %", text(t, b, "#found"), "what was folded is searched")
	b.do(t, chromedp.Evaluate[chromedp.Void](`document.querySelector("#flame").view.showAll()`))
	painted(t, b)
	after := framesOf(t, b, "main")
	for _, name := range []string{"service", "main", "handle", "do_syscall_64", "group1"} {
		require.InDelta(t, before[name], after[name], 1e-9, name)
	}
	b.screenshot(t, "unfolded")
	b.checkComplaints(t, server.URL)
}

// unfoldTiny clicks on the folded frame of flameProfile, and checks the result.
func unfoldTiny(t *testing.T, b *browser) {
	t.Helper()
	at := flameBox(t, b, "(14,000 more)")
	require.Greater(t, at.Width, 4.)
	b.do(t, chromedp.MouseClickXY(at.X+at.Width/2, at.Y+at.Height/2))
	result(t, b, chromedp.Evaluate[any](`document.querySelector("#flame").view.unfolding`, chromedp.EvalAwaitPromise))
	painted(t, b)
	require.Empty(t, text(t, b, "#notice"))
	require.Zero(t, flameBox(t, b, "(14,000 more)").Width)
	require.Equal(t, "main", result(t, b, chromedp.Evaluate[string](
		`(view => view.tree.name(view.main.zoomed))(document.querySelector("#flame").view)`)))
	require.Equal(t, []int{14_000, 1, 2040 * 350}, result(t, b, chromedp.Evaluate[[]int](`(view => {
		const tiny = [...Array(view.tree.length).keys()].filter(i => view.tree.name(i).startsWith("tiny"));
		return [tiny.length, view.tree.totalOf(tiny[0]), view.tree.total];
	})(document.querySelector("#flame").view)`)))
}
