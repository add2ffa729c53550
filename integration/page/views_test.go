package page

import (
	"fmt"
	"math"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"
	"github.com/google/pprof/profile"
	"github.com/stretchr/testify/require"

	"github.com/headwater/headwater/flame/export"
)

// openFile writes a profile as a flame graph in a file, opens it, and returns its address.
func openFile(t testing.TB, b *browser, p *profile.Profile) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "flame.html")
	file, err := os.Create(path)
	require.NoError(t, err)
	require.NoError(t, export.HTML(file, p))
	require.NoError(t, file.Close())
	address := (&url.URL{Scheme: "file", Path: path}).String()
	b.do(t, chromedp.Navigate(address))
	waitForFlame(t, b)
	return address
}

// framesOf returns the width of each frame that a chart draws, as its part of all, by name.
func framesOf(t testing.TB, b *browser, chart string) map[string]float64 {
	t.Helper()
	return result(t, b, chromedp.Evaluate[map[string]float64](fmt.Sprintf(`(() => {
		const chart = document.querySelector("#flame").view[%q], out = {};
		for (let i = 0; i < chart.tree.length; i++) {
			const box = chart.box(i);
			if (box) out[chart.tree.name(i)] = (out[chart.tree.name(i)] || 0) + box.width / chart.element.clientWidth;
		}
		return out;
	})()`, chart)))
}

// pick opens the menu of a frame by a right click, and clicks on an entry.
func pick(t testing.TB, b *browser, frame, entry string) {
	t.Helper()
	at := flameBox(t, b, frame)
	require.NotZero(t, at.Width, frame)
	b.do(t, chromedp.MouseClickXY(at.X+at.Width/2, at.Y+at.Height/2, chromedp.ButtonRight))
	clickText(t, b, "#menu button", entry)
}

// clickText clicks on the element whose text starts with text.
func clickText(t testing.TB, b *browser, selector, text string) {
	t.Helper()
	at := placeOf(t, b, selector, text)
	b.do(t, chromedp.MouseClickXY(at[0], at[1]))
	painted(t, b)
}

// placeOf scrolls the element whose text starts with text into view, and returns its centre in the window.
func placeOf(t testing.TB, b *browser, selector, text string) []float64 {
	t.Helper()
	at := result(t, b, chromedp.Evaluate[[]float64](fmt.Sprintf(`(() => {
		const e = [...document.querySelectorAll(%q)].find(e => e.textContent.trim().startsWith(%q));
		if (!e || !e.checkVisibility()) return [];
		e.scrollIntoView({block: "nearest"});
		const box = e.getBoundingClientRect();
		return [box.x + box.width / 2, box.y + box.height / 2];
	})()`, selector, text)))
	require.Len(t, at, 2, "nothing to click on of %s says %s", selector, text)
	return at
}

// rowsOf returns the texts of the rows of a table that are in sight.
func rowsOf(t testing.TB, b *browser, table string) []string {
	t.Helper()
	return result(t, b, chromedp.Evaluate[[]string](fmt.Sprintf(`[...document.querySelectorAll(%q + " tbody tr")].
		filter(row => row.cells.length > 1).map(row => [...row.cells].map(cell => cell.textContent).join(" | "))`, table)))
}

// near demands parts of all, of samples of flameProfile, which has 2040.
func near(t testing.TB, got map[string]float64, want map[string]float64) {
	t.Helper()
	for name, part := range want {
		require.InDelta(t, part, got[name], 0.002, "%s of %v", name, got)
	}
}

// TestViews: the ways to look at a profile, used by pointer and keys.
func TestViews(t *testing.T) {
	t.Parallel()
	b := openBrowser(t)
	address := openFile(t, b, flameProfile(t))
	t.Run("sandwich", func(t *testing.T) { checkSandwich(t, b) })
	t.Run("filters", func(t *testing.T) { checkFilters(t, b) })
	t.Run("table", func(t *testing.T) { checkTable(t, b) })
	t.Run("tree", func(t *testing.T) { checkTree(t, b) })
	t.Run("colours", func(t *testing.T) { checkColoursBy(t, b) })
	t.Run("keys", func(t *testing.T) { checkLetters(t, b) })
	t.Run("link", func(t *testing.T) { checkLink(t, b, address) })
	b.checkComplaints(t, strings.TrimSuffix(address, "/flame.html"))
}

func checkSandwich(t *testing.T, b *browser) {
	pick(t, b, "write", "Callers and callees")
	require.Equal(t, "write total 9.8 %, self 0.0 %", text(t, b, "#sandwich-heading"))
	near(t, framesOf(t, b, "above"), map[string]float64{"handle": 1, "_PyEval_EvalFrameDefault": 1, "main": 1,
		"service": 1})
	require.Equal(t, map[string]float64{"write": 1, "do_syscall_64": 1}, framesOf(t, b, "below"))
	b.screenshot(t, "sandwich")
	clickText(t, b, ".top button.function", "main") // another function, of the table below
	near(t, framesOf(t, b, "below"), map[string]float64{"main": 1, "handle": 500. / 1040, "Svc.sortOrders": 150. / 1040})
	require.Equal(t, map[string]float64{"main": 1, "service": 1}, framesOf(t, b, "above"))
	b.do(t, chromedp.KeyEvent(kb.Escape))
	require.Contains(t, text(t, b, "#sandwich-heading"), "write")
	b.do(t, chromedp.KeyEvent(kb.Escape))
	painted(t, b)
	require.NotZero(t, flameBox(t, b, "group0").Width, "Esc leads back to the flame graph")
}

func checkFilters(t *testing.T, b *browser) {
	pick(t, b, "handle", "Focus")
	near(t, framesOf(t, b, "main"), map[string]float64{"main": 1, "handle": 1, "do_syscall_64": 0.4, "group0": 0})
	require.Contains(t, text(t, b, ".filters"), "only stacks through handle")
	require.Contains(t, text(t, b, ".filters"), "24.5 % of all")
	require.Contains(t, rowsOf(t, b, ".top"),
		"handle | 60.0 % | 10.50 s | 100.0 % | 17.50 s | language runtime | [python 3.11]")
	pick(t, b, "write", "Hide")
	require.Zero(t, flameBox(t, b, "write").Width)
	require.Greater(t, flameBox(t, b, "do_syscall_64").Y, flameBox(t, b, "handle").Y)
	require.Equal(t, flameBox(t, b, "handle").Y+19, flameBox(t, b, "do_syscall_64").Y)
	b.screenshot(t, "filters")
	clickText(t, b, ".filters button", "×") // the first one belongs to focus
	near(t, framesOf(t, b, "main"), map[string]float64{"main": 1040. / 2040, "group0": 500. / 2040, "write": 0})
	b.do(t, chromedp.Click(chromedp.CSS("#reset")))
	painted(t, b)
	require.NotZero(t, flameBox(t, b, "write").Width)
}

func checkTable(t *testing.T, b *browser) {
	b.do(t, chromedp.Click(chromedp.CSS("[data-mode=table]")))
	painted(t, b)
	first := func() string { return strings.SplitN(rowsOf(t, b, ".top")[0], " | ", 2)[0] }
	for _, step := range []struct{ column, order, first string }{
		{"total", "descending", "service"}, {"total", "ascending", "tiny0"}, {"name", "ascending", "Svc.sortOrders"},
		{"name", "descending", "write"}, {"binary", "ascending", "group0"}, {"self", "descending", "group0"},
	} {
		b.do(t, chromedp.Click(chromedp.CSS(".top [data-column="+step.column+"] button")))
		require.Equal(t, step.first, first(), "by %s", step.column)
		sorted := result(t, b, chromedp.Evaluate[string](
			`document.querySelector(".top [data-column=`+step.column+`]").getAttribute("aria-sort")`))
		require.Equal(t, step.order, sorted)
	}
	// The rows are moved by keys, far beyond those in sight, and one has a menu.
	b.do(t, chromedp.Evaluate[chromedp.Void](`document.querySelector(".top tbody tr").focus()`))
	b.do(t, chromedp.KeyEvent(kb.ArrowDown), chromedp.KeyEvent(kb.End))
	focused := `document.activeElement.getAttribute("aria-rowindex") + " of " +
		document.querySelector(".top").getAttribute("aria-rowcount")`
	at := result(t, b, chromedp.Evaluate[string](focused))
	from, of, _ := strings.Cut(at, " of ")
	require.Equal(t, of, from, "End goes to the last row")
	b.do(t, chromedp.KeyEvent(kb.Home), chromedp.KeyEvent(kb.ArrowDown), chromedp.KeyEvent(kb.ArrowDown))
	press(t, b, "Enter", "\r")
	require.Equal(t, "handle", text(t, b, "#menu .title"))
	b.do(t, chromedp.KeyEvent(kb.Escape))
	require.Contains(t, result(t, b, chromedp.Evaluate[string](`document.activeElement.textContent`)), "handle",
		"the menu gives the focus back")
}

func checkTree(t *testing.T, b *browser) {
	b.do(t, chromedp.Click(chromedp.CSS("[data-mode=tree]")))
	painted(t, b)
	b.screenshot(t, "tree")
	b.do(t, chromedp.Evaluate[chromedp.Void](`document.querySelector(".calls tbody tr").focus()`))
	where := func() string {
		return result(t, b, chromedp.Evaluate[string](`(row => row.getAttribute("aria-level") + " " +
			row.querySelector("th").textContent.replace(/[▾▸]/, "") + " " +
			row.getAttribute("aria-expanded"))(document.activeElement)`))
	}
	require.Equal(t, "1 all true", where())
	for _, step := range []struct{ key, where string }{
		{kb.ArrowRight, "2 service true"}, {kb.ArrowRight, "3 main true"}, {kb.ArrowLeft, "3 main false"},
		{kb.ArrowRight, "3 main true"}, {kb.ArrowRight, "4 _PyEval_EvalFrameDefault false"},
		{kb.ArrowRight, "4 _PyEval_EvalFrameDefault true"}, {kb.ArrowDown, "5 handle false"},
		{kb.ArrowLeft, "4 _PyEval_EvalFrameDefault true"},
		{kb.Home, "1 all true"}, {kb.ArrowLeft, "1 all false"}, {kb.ArrowRight, "1 all true"},
	} {
		b.do(t, chromedp.KeyEvent(step.key))
		require.Equal(t, step.where, where(), "after %q", step.key)
	}
	rows := rowsOf(t, b, ".calls")
	require.Contains(t, strings.Join(rows, "\n"), "main | 51.0 % | 3.9 % | service")
	b.do(t, chromedp.Evaluate[chromedp.Void](`document.querySelector("#flame").view.searchFor("do_syscall")`))
	b.do(t, chromedp.KeyEvent("n"))
	require.Equal(t, "7 do_syscall_64 null", where(), "n opens what is above the next match")
	b.do(t, chromedp.Evaluate[chromedp.Void](`document.querySelector("#flame").view.searchFor("")`))
}

func checkColoursBy(t *testing.T, b *browser) {
	b.do(t, chromedp.Click(chromedp.CSS("[data-mode=both]")))
	for by, want := range map[string]map[string]string{
		"binary":  {"do_syscall_64": "[kernel.kallsyms]", "main": "service", "write": "libc.so.6"},
		"package": {"do_syscall_64": "kernel", "Svc.sortOrders": "Svc", "write": "libc.so.6"},
	} {
		b.do(t, chromedp.Evaluate[chromedp.Void](fmt.Sprintf(`(field => {
			field.value = %q; field.dispatchEvent(new Event("change"));
		})(document.querySelector("#color"))`, by)))
		painted(t, b)
		require.Zero(t, result(t, b, chromedp.Evaluate[int](
			`document.querySelectorAll(".legend [aria-pressed=true]").length`)))
		require.Contains(t, text(t, b, ".legend"), want["do_syscall_64"]+" 9.8 %")
		seen := map[string]string{}
		for frame, group := range want {
			swatch := result(t, b, chromedp.Evaluate[string](fmt.Sprintf(
				`getComputedStyle(document.querySelector('.legend [data-group="%s"] .swatch')).backgroundColor`, group)))
			require.Equal(t, swatch, pixel(t, b, frame), "%s by %s", frame, by)
			require.Empty(t, seen[swatch])
			seen[swatch] = frame
		}
	}
}

// checkLetters: one key each for search, its matches, the side of the root, the table, dark and help.
func checkLetters(t *testing.T, b *browser) {
	view := `document.querySelector("#flame").view`
	b.do(t, chromedp.Evaluate[chromedp.Void](`document.activeElement.blur(); `+view+`.apply({color: "",
		search: "^(service|handle|write)$"})`))
	said := func() string { return strings.SplitN(text(t, b, "#said"), ";", 2)[0] }
	for _, step := range []struct{ key, name string }{
		{"n", "service"}, {"n", "handle"}, {"n", "write"}, {"N", "handle"}, {"N", "service"},
	} {
		b.do(t, chromedp.KeyEvent(step.key))
		require.Equal(t, step.name, said(), step.key)
	}
	b.do(t, chromedp.Evaluate[chromedp.Void](view+`.apply({search: ""})`))
	top := flameBox(t, b, "all").Y
	b.do(t, chromedp.KeyEvent("i"))
	painted(t, b)
	require.Greater(t, flameBox(t, b, "all").Y, top, "the root is below")
	require.Less(t, flameBox(t, b, "main").Y, flameBox(t, b, "all").Y)
	b.screenshot(t, "up")
	b.do(t, chromedp.KeyEvent("i"))
	painted(t, b)
	require.Equal(t, top, flameBox(t, b, "all").Y)
	light := pixel(t, b, "main")
	b.do(t, chromedp.KeyEvent("d"))
	painted(t, b)
	require.NotEqual(t, light, pixel(t, b, "main"), "d is for dark")
	b.do(t, chromedp.KeyEvent("d"), chromedp.KeyEvent("t"))
	painted(t, b)
	require.False(t, result(t, b, chromedp.Evaluate[bool](`document.querySelector("#chart").checkVisibility()`)))
	b.do(t, chromedp.KeyEvent("t"))
	press(t, b, "?", "?")
	require.True(t, result(t, b, chromedp.Evaluate[bool](`document.querySelector("#help").open`)))
	b.do(t, chromedp.KeyEvent(kb.Escape))
	require.False(t, result(t, b, chromedp.Evaluate[bool](`document.querySelector("#help").open`)))
}

// checkLink: the address of a view opens the same view, and a message names the parts that the profile no longer has.
func checkLink(t *testing.T, b *browser, address string) {
	pick(t, b, "main", "Focus")
	pick(t, b, "write", "Hide")
	at := flameBox(t, b, "handle")
	b.do(t, chromedp.MouseClickXY(at.X+at.Width/2, at.Y+at.Height/2))
	b.do(t, chromedp.Evaluate[chromedp.Void](`document.querySelector("#flame").view.apply({search: "syscall",
		color: "binary", order: "name", mode: "flame", up: "1"})`))
	painted(t, b)
	before := framesOf(t, b, "main")
	b.do(t, chromedp.Click(chromedp.CSS("#link")))
	link := result(t, b, chromedp.Location())
	require.NotEqual(t, address, link)
	b.do(t, chromedp.Navigate("about:blank"), chromedp.Navigate(link))
	waitForFlame(t, b)
	require.Equal(t, before, framesOf(t, b, "main"))
	require.InDelta(t, 1, before["handle"], 1e-6)
	require.Equal(t, "1 frame, 19.2 %", text(t, b, "#found")) // of main's 1040 samples
	require.Equal(t, "binary", result(t, b, chromedp.Evaluate[string](`document.querySelector("#color").value`)))
	require.Empty(t, text(t, b, "#notice"))

	b.do(t, chromedp.Navigate("about:blank"), chromedp.Navigate(address+"#zoom=0123456789abcdef&focus=gone"))
	waitForFlame(t, b)
	require.Equal(t, "Not in this profile: gone, the zoomed frame", text(t, b, "#notice"))
	require.False(t, math.IsNaN(flameBox(t, b, "main").Width))
}
