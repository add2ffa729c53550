package page

import (
	"fmt"
	"net/url"
	"slices"
	"strings"
	"testing"

	"github.com/chromedp/chromedp"

	"github.com/headwater/headwater/integration/testkit"
	"github.com/headwater/headwater/integration/testkit/need"
	"github.com/headwater/headwater/integration/testkit/rig"
)

// uiConfig has components with and without work, a custom component, an import, references to receivers and to exports,
// a secret, and a value that looks like markup.
const uiConfig = `
pyroscope.write "nowhere" {
	endpoint {
		url = "http://127.0.0.1:1"

		basic_auth {
			username = "<b>user</b>"
			password = "open-sesame"
		}
	}
	external_labels = {
		"host" = constants.hostname,
	}
}

declare "profile" {
	argument "receivers" { }

	argument "targets" {
		optional = true
		default  = [{"__process_pid__" = "1", "service_name" = "one"}]
	}

	pyroscope.ebpf "inner" {
		forward_to = argument.receivers.value
		targets    = argument.targets.value

		collect_interval = "1s"
	}

	export "note" {
		value = "declared"
	}
}

profile "custom" {
	receivers = [pyroscope.write.nowhere.receiver]
}

import.string "lib" {
	content = "declare \"quiet\" { discovery.http \"away\" { url = \"http://127.0.0.1:1\" } }"
}

lib.quiet "one" { }

pyroscope.ebpf "host" {
	forward_to = [pyroscope.write.nowhere.receiver]
	targets    = [{"__process_pid__" = "1", "service_name" = profile.custom.note}]

	collect_interval = "1s"
}
`

// openUI runs uiConfig, and opens the list of its components.
func openUI(t *testing.T) (*rig.Headwater, *browser, *uiPage) {
	t.Helper()
	need.Root(t)
	h := rig.StartHeadwater(t, uiConfig)
	b := openBrowser(t)
	page := &uiPage{t: t, b: b, url: h.URL}
	page.open("/")
	page.heading("Components")
	return h, b, page
}

// TestUI visits the pages of the runtime by keyboard: list, component, module, graph.
func TestUI(t *testing.T) {
	t.Parallel()
	h, b, page := openUI(t)
	testkit.Eventually(t, "all but one are healthy", func() bool {
		page.open("/")
		return strings.Contains(page.text(), "6 components: 5 healthy, 1 unhealthy")
	})

	b.screenshot(t, "ui-list")
	page.checkNames()
	want := []string{"pyroscope.write.nowhere", "profile.custom", "profile.custom/pyroscope.ebpf.inner",
		"lib.quiet.one", "lib.quiet.one/discovery.http.away", "pyroscope.ebpf.host"}
	rows := page.strings(`[...document.querySelectorAll("tbody th a")].map(a =>
		decodeURIComponent(a.getAttribute("href").slice("component/".length)))`)
	if !slices.Equal(rows, want) {
		t.Errorf("the list has %q, not %q", rows, want)
	}
	imports := page.strings(`[...document.querySelectorAll("#imports + table tbody tr")].map(row =>
		[0, 1, 4, 5].map(i => row.cells[i].textContent).join(" | "))`)
	if want := []string{"import.string.lib | healthy | lib.quiet | lib.quiet.one"}; !slices.Equal(imports, want) {
		t.Errorf("the imports are %q, not %q", imports, want)
	}

	page.follow("component/pyroscope.write.nowhere")
	page.heading("pyroscope.write.nowhere")
	b.screenshot(t, "ui-component")
	page.checkNames()
	text := page.text()
	for _, word := range []string{"Arguments", "Exports", "Debug info", "Used by", "pyroscope.ebpf.host", `"<b>user</b>"`,
		"(secret)", `capsule("pyroscope.Appendable")`} {
		if !strings.Contains(text, word) {
			t.Errorf("the page of pyroscope.write does not say %q:\n%s", word, text)
		}
	}
	if html := page.strings(`[document.documentElement.outerHTML]`)[0]; strings.Contains(html, "open-sesame") {
		t.Error("the page shows the secret")
	}

	page.follow("component/profile.custom")
	page.heading("profile.custom")
	page.follow("graph/profile.custom")
	page.heading("Graph of profile.custom")
	page.follow("component/profile.custom/pyroscope.ebpf.inner")
	page.heading("profile.custom/pyroscope.ebpf.inner")
	links := page.strings(`[...document.querySelectorAll("a.open")].map(a => a.getAttribute("href"))`)
	const inner = "profile.custom/pyroscope.ebpf.inner"
	if !slices.Equal(links, []string{"/api/v0/component/" + inner + "/", "processes/" + inner, "health/" + inner}) {
		t.Errorf("the links of the profiler are %q", links)
	}
	b.screenshot(t, "ui-inner")
	checkDebugInfo(t, page)
	page.follow("graph")
	page.heading("Graph")
	checkGraph(t, page)

	b.do(t, chromedp.Evaluate[chromedp.Void](`history.back()`))
	page.heading("profile.custom/pyroscope.ebpf.inner")
	page.open("/component/nowhere")
	page.heading("Not found")

	b.mu.Lock()
	// That is its 404.
	b.complaints = slices.DeleteFunc(b.complaints,
		func(c string) bool { return strings.Contains(c, "/components/nowhere") })
	b.mu.Unlock()
	b.checkComplaints(t, h.URL)
	h.Stop(t)
}

// TestSlowAnswers: a page whose answers take longer than the interval of refreshes is shown, and a refresh is not shown
// that was under way when the user turned refreshes off. The graph makes four requests, one after another, in 8 s. The
// interval is 5 s.
func TestSlowAnswers(t *testing.T) {
	t.Parallel()
	h, b, page := openUI(t)
	b.do(t, chromedp.Evaluate[chromedp.Void](`(() => {
		const quick = window.fetch;
		window.waiting = 0;
		window.fetch = async (...request) => {
			window.waiting++;
			await new Promise(done => setTimeout(done, 2000));
			const answer = await quick(...request);
			setTimeout(() => window.waiting--, 500); // the next request has begun by then
			return answer;
		};
	})()`))
	page.follow("graph")
	page.heading("Graph")
	page.wait(`waiting === 0`)
	page.wait(`waiting > 0`) // a refresh
	b.do(t, chromedp.Evaluate[chromedp.Void](`(() => { document.title = "stands still"; })()`),
		chromedp.Click(chromedp.CSS("#refresh")))
	page.wait(`waiting === 0`)
	painted(t, b)
	if title := page.strings(`[document.title]`)[0]; title != "stands still" {
		t.Errorf("a refresh was shown after refreshes were turned off: %q", title)
	}

	b.checkComplaints(t, h.URL)
	h.Stop(t)
}

// checkDebugInfo opens the debug info, which is initially closed, by keyboard. A refresh leaves it open, and keeps the
// focus.
func checkDebugInfo(t *testing.T, page *uiPage) {
	const section = `document.querySelector("details[data-key='Debug info']")`
	if open := page.strings(`[` + section + `.open]`); open[0] != "false" {
		t.Error("debug info is not folded")
	}
	result(t, page.b, chromedp.Evaluate[any](section+`.querySelector("summary").focus()`))
	page.b.do(t, chromedp.KeyEvent("\r"))
	page.wait(section + `.open`)
	page.b.screenshot(t, "ui-debug")
	page.checkNames()
	// A refresh loads a new page, without the mark of this one.
	result(t, page.b, chromedp.Evaluate[any](section+`.dataset.mark = "before"`))
	page.wait(section + `.dataset.mark === undefined`)
	kept := page.strings(`[` + section + `.open && document.activeElement.parentElement === ` + section + `]`)
	if kept[0] != "true" {
		t.Error("a refresh closes what was open, or takes the focus")
	}
}

// checkGraph compares the drawing with the configuration: arrows lead the way that data goes.
func checkGraph(t *testing.T, page *uiPage) {
	page.b.screenshot(t, "ui-graph")
	page.checkNames()
	nodes := page.strings(`[...document.querySelectorAll("svg a")].map(a => a.getAttribute("aria-label"))`)
	slices.Sort(nodes)
	if want := []string{"import.string lib, import, healthy", "lib.quiet one, holds 1 component, 1 not healthy, healthy",
		"profile custom, holds 1 component, healthy", "pyroscope.ebpf host, healthy",
		"pyroscope.write nowhere, healthy"}; !slices.Equal(nodes, want) {
		t.Errorf("the graph has %q, not %q", nodes, want)
	}
	arrows := page.strings(`[...document.querySelectorAll("svg > path")].filter(p => p.getTotalLength() > 0).map(p => {
		const ends = [p.getPointAtLength(0).x, p.getPointAtLength(p.getTotalLength()).x];
		const right = p.getAttribute("marker-end") !== null && ends[0] < ends[1];
		return [p.dataset.from, right ? "->" : "?", p.dataset.to, p.getAttribute("class")].join(" ");
	})`)
	slices.Sort(arrows)
	if want := []string{"import.string.lib -> lib.quiet.one declares", "profile.custom -> pyroscope.ebpf.host data",
		"profile.custom -> pyroscope.write.nowhere data",
		"pyroscope.ebpf.host -> pyroscope.write.nowhere data"}; !slices.Equal(arrows, want) {
		t.Errorf("the graph has the arrows %q, not %q", arrows, want)
	}
	if marks := page.strings(`[...document.querySelectorAll("svg a circle + circle")].map(c =>
		c.closest("a").getAttribute("href") + " " + c.getAttribute("class"))`); !slices.Equal(marks,
		[]string{"component/lib.quiet.one unhealthy"}) {
		t.Errorf("inside of components, the graph has %q", marks)
	}
	const layout = `import(new URL("assets/layout.js", document.baseURI).href).then(({arrange}) => {
		const infos = ["a", "b", "c", "alone"].map(localID => ({localID}));
		const edges = [["a", "b"], ["b", "c"], ["c", "a"], ["a", "a"], ["a", "gone"]].map(([from, to]) => ({from, to}));
		const {layers, lines} = arrange(infos, edges);
		return [...layers.map(layer => layer.filter(place => place.info).map(place => place.info.localID).join(" ")),
			...lines.map(({path, back}) => path[0].info.localID + (back ? " <- " : " -> ") + path.at(-1).info.localID)];
	})`
	layers := result(t, page.b, chromedp.Evaluate[[]string](layout, chromedp.EvalAwaitPromise))
	if want := []string{"a alone", "b", "c", "a -> b", "b -> c", "a <- c"}; !slices.Equal(layers, want) {
		t.Errorf("a circle is drawn as %q, not %q", layers, want)
	}
	if overlaps := page.strings(overlappingBoxes); len(overlaps) > 0 {
		t.Errorf("boxes of the graph overlap: %q", overlaps)
	}
}

// overlappingBoxes lists pairs of boxes of the graph that share some area.
const overlappingBoxes = `(() => {
	const boxes = [...document.querySelectorAll("svg rect.box")].map(r => r.getBBox());
	const found = [];
	boxes.forEach((a, i) => boxes.slice(i + 1).forEach((b, j) => {
		if (a.x < b.x + b.width && b.x < a.x + a.width && a.y < b.y + b.height && b.y < a.y + a.height)
			found.push(i + " " + (i + 1 + j));
	}));
	return found;
})()`

// uiPage is the browser's page as a user of the keyboard sees it.
type uiPage struct {
	t   *testing.T
	b   *browser
	url string
}

func (p *uiPage) open(path string) {
	p.t.Helper()
	p.b.do(p.t, chromedp.Navigate(p.url+path))
	p.wait(`document.querySelector("main h1") !== null`)
}

// follow gives the focus to a link with that address and presses Enter, which a
// browser turns into a click.
func (p *uiPage) follow(href string) {
	p.t.Helper()
	link := fmt.Sprintf(`[...document.querySelectorAll("a[href]")].find(a =>
		decodeURIComponent(new URL(a.getAttribute("href"), document.baseURI).pathname) === %q)`, "/"+href)
	p.wait(link + ` !== undefined`)
	focused := result(p.t, p.b,
		chromedp.Evaluate[bool](`(() => { const a = `+link+`; a.focus(); return document.activeElement === a; })()`))
	if !focused {
		p.t.Errorf("the link to %s does not take the focus", href)
	}
	p.b.do(p.t, chromedp.KeyEvent("\r"))
	p.wait(fmt.Sprintf(`decodeURIComponent(location.pathname) === %q`, "/"+href))
}

// heading waits for a page's heading. The page must have it as its title, and must have
// announced it to screen readers.
func (p *uiPage) heading(want string) {
	p.t.Helper()
	p.wait(fmt.Sprintf(`document.querySelector("main h1")?.textContent === %q`, want))
	p.wait(fmt.Sprintf(`document.title === %q && document.getElementById("announce").textContent === %q`,
		want+" · Headwater", want))
}

func (p *uiPage) wait(condition string) {
	p.t.Helper()
	testkit.Eventually(p.t, condition, func() bool {
		return result(p.t, p.b, chromedp.Evaluate[bool](condition))
	})
}

func (p *uiPage) text() string {
	p.t.Helper()
	return result(p.t, p.b, chromedp.Text(chromedp.CSS("body")))
}

func (p *uiPage) strings(expression string) []string {
	p.t.Helper()
	return result(p.t, p.b, chromedp.Evaluate[[]string]("("+expression+").map(String)"))
}

// checkNames demands what a screen reader needs: a language, one main part, one
// heading of the first level, names for links and fields, headers for columns.
func (p *uiPage) checkNames() {
	p.t.Helper()
	where, _ := url.PathUnescape(result(p.t, p.b, chromedp.Location()))
	for _, complaint := range p.strings(`(() => {
		const bad = [];
		if (!document.documentElement.lang) bad.push("no language");
		if (document.querySelectorAll("main").length !== 1) bad.push("not one main part");
		if (document.querySelectorAll("h1").length !== 1) bad.push("not one h1");
		for (const a of document.querySelectorAll("a")) {
			if (!(a.getAttribute("aria-label") || a.textContent).trim()) bad.push("nameless link " + a.getAttribute("href"));
		}
		for (const i of document.querySelectorAll("input:not([type=hidden])")) {
			if (i.labels.length === 0) bad.push("nameless field " + i.id);
		}
		for (const table of document.querySelectorAll("table")) {
			if (!table.checkVisibility()) continue;
			const headers = ["thead th[scope=col]", "tbody th[scope=row]"];
			if (headers.some(cells => table.querySelector(cells) === null)) bad.push("table without headers");
		}
		for (const i of document.querySelectorAll("img")) if (!i.hasAttribute("alt")) bad.push("image without text");
		const page = document.documentElement;
		if (page.scrollWidth > page.clientWidth) bad.push("the page is wider than the window");
		return bad;
	})()`) {
		p.t.Errorf("%s: %s", where, complaint)
	}
}
