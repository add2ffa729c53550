package page

import (
	"strconv"
	"strings"
	"testing"

	"github.com/chromedp/chromedp"
	"github.com/stretchr/testify/require"

	"github.com/headwater/headwater/integration/testkit"
	"github.com/headwater/headwater/integration/testkit/need"
	"github.com/headwater/headwater/integration/testkit/rig"
)

// TestProfilerPages visits a profiler's pages of processes and health: figures agree with tables, the search changes
// both, and links lead from each page to the other pages and to flame graphs.
func TestProfilerPages(t *testing.T) {
	t.Parallel()
	need.Root(t)
	rig.StartRestingChain(t, rig.ChainProgram(t, "hwpages"), 120)
	h := rig.StartHeadwater(t, `
		pyroscope.ebpf "host" {
			forward_to       = []
			targets_only     = false
			collect_interval = "1s"
		}`)
	b := openBrowser(t)
	page := &uiPage{t: t, b: b, url: h.URL}
	const id = "pyroscope.ebpf.host"

	testkit.Eventually(t, "the process is listed", func() bool {
		page.open("/processes")
		return strings.Contains(page.text(), "hwpages")
	})

	page.heading("Processes of " + id)
	b.screenshot(t, "ui-processes")
	page.checkNames()
	t.Run("search", func(t *testing.T) { checkProcessSearch(t, page) })
	t.Run("refresh", func(t *testing.T) { checkSearchStays(t, page) })

	page.follow("health/" + id)
	page.heading("Health of " + id)
	b.screenshot(t, "ui-health")
	page.checkNames()
	shows := look(t, b, "Outcomes of user stacks since the start")
	_, of, _ := strings.Cut(shows.Notes["Incomplete stacks"], " of ")
	require.Equal(t, sumOf(t, shows.Rows, 1), number(t, of), shows)
	require.Contains(t, page.text(), "97 Hz")

	page.follow("component/" + id)
	page.heading(id)
	page.follow("processes/" + id)
	page.heading("Processes of " + id)
	b.do(t, chromedp.Focus(chromedp.CSS("#find")), chromedp.KeyEvent("hwpages"))
	b.do(t, chromedp.Click(chromedp.CSS(`a[aria-label="Flame graph of hwpages"]`)))
	b.waits(t, "the flame graph is drawn", `document.querySelector("#flame")?.view !== undefined`)
	require.NotZero(t, flameBox(t, b, "hwpages").Width)
	b.checkComplaints(t, h.URL)
	page.open("/processes/pyroscope.write.none")
	page.heading("Not found")
	h.Stop(t)
}

// checkProcessSearch compares the figures with the sums of the table, for all processes and for a search.
func checkProcessSearch(t *testing.T, page *uiPage) {
	b := page.b
	b.do(t, chromedp.Click(chromedp.CSS("#refresh"))) // figures stand still
	require.Equal(t, "false", page.strings(`[document.querySelector("#refresh").checked]`)[0])
	all, names := checkFigures(t, b)
	b.do(t, chromedp.Focus(chromedp.CSS("#find")), chromedp.KeyEvent("WPAGES"))
	painted(t, b)
	found, one := checkFigures(t, b)
	require.Equal(t, 1, one)
	shows := look(t, b, "Processes")
	require.True(t, strings.HasPrefix(shows.Rows[0], "hwpages | "), shows)
	if names > 1 {
		require.Less(t, found, all)
		require.Equal(t, "of "+strconv.Itoa(names), shows.Notes["Names of processes"])
	}
	require.Contains(t, result(t, b, chromedp.Location()), "?find=WPAGES")
	b.do(t, chromedp.Reload())
	b.waits(t, "the page is there again", `document.querySelector("#find") !== null`)
	require.Len(t, rowsOf(t, b, `[aria-label=Processes]`), 1, "a link with a search shows what was found")
}

// checkFigures demands that the cards are the sums of the table, and returns the samples and the names.
func checkFigures(t *testing.T, b *browser) (samples, names int) {
	t.Helper()
	shows := look(t, b, "Processes")
	samples = sumOf(t, shows.Rows, 1)
	require.Equal(t, samples, number(t, shows.Cards["Samples"]))
	require.Len(t, shows.Rows, number(t, shows.Cards["Names of processes"]))
	return samples, len(shows.Rows)
}

// checkSearchStays: a refresh keeps the text that the user is typing, and the cursor.
func checkSearchStays(t *testing.T, page *uiPage) {
	b := page.b
	require.Equal(t, "true", page.strings(`[document.querySelector("#refresh").checked]`)[0])
	b.do(t, chromedp.Focus(chromedp.CSS("#find")))
	result(t, b, chromedp.Evaluate[any](`(field => {
		field.setSelectionRange(2, 4);
		field.dataset.mark = "before";
	})(document.querySelector("#find"))`))
	page.wait(`document.querySelector("#find").dataset.mark === undefined`)
	require.Equal(t, "find WPAGES 2 4", page.strings(`[(e => [e.id, e.value, e.selectionStart, e.selectionEnd].join(" "))(
		document.activeElement)]`)[0])
}

// looks is what a page shows at one moment.
type looks struct {
	Rows         []string // of one table, cells joined by |
	Cards, Notes map[string]string
}

func look(t testing.TB, b *browser, table string) looks {
	t.Helper()
	return result(t, b, chromedp.Evaluate[looks](`(label => {
		const out = {Rows: [], Cards: {}, Notes: {}};
		for (const row of document.querySelectorAll(`+"`[aria-label=\"${label}\"] tbody tr`"+`))
			out.Rows.push([...row.cells].map(cell => cell.textContent).join(" | "));
		for (const card of document.querySelectorAll(".cards > div")) {
			const name = card.querySelector("dt").textContent;
			out.Cards[name] = card.querySelector("dd").textContent;
			out.Notes[name] = card.querySelector(".note")?.textContent ?? "";
		}
		return out;
	})("`+table+`")`))
}

// number reads 1,234.
func number(t testing.TB, text string) int {
	t.Helper()
	n, err := strconv.Atoi(strings.ReplaceAll(text, ",", ""))
	require.NoError(t, err)
	return n
}

// sumOf adds up a column of rows.
func sumOf(t testing.TB, rows []string, column int) (sum int) {
	t.Helper()
	for _, row := range rows {
		sum += number(t, strings.Split(row, " | ")[column])
	}
	return sum
}
