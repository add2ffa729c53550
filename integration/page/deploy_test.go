package page

import (
	"encoding/json"
	"fmt"
	"net/url"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/chromedp/chromedp"

	"github.com/headwater/headwater/flame/compare"
	"github.com/headwater/headwater/integration/testkit"
	"github.com/headwater/headwater/integration/testkit/need"
	"github.com/headwater/headwater/integration/testkit/retry"
	"github.com/headwater/headwater/integration/testkit/rig"
)

// deployConfig has a target for each of three containers of one service.
const deployConfig = `
pyroscope.ebpf "host" {
	forward_to       = []
	targets          = [
		{"__container_id__" = %q, "service_name" = "shop", "image" = "1"},
		{"__container_id__" = %q, "service_name" = "shop", "image" = "2"},
		{"__container_id__" = %q, "service_name" = "shop", "image" = "3"},
	]
	collect_interval = "500ms"
	sample_rate      = 4999
}
`

// TestDeploy: when a container of a service ends and one of a new image comes, whose program has a function that takes
// half as much again, page, JSON, metric, debug info and log name the function. When one of another build of the same
// code comes, they name none.
func TestDeploy(t *testing.T) {
	testkit.Nightly(t, "it judges changes by many rounds of real samples; TestBuilds judges them by made ones")
	t.Parallel()
	need.Root(t)
	retry.Run(t, func(t *retry.T) {
		program := filepath.Join(t.TempDir(), "shopd")
		containers := []any{}
		for i := range 3 {
			containers = append(containers, strings.Repeat(fmt.Sprintf("%d123456789abcdef", i), 4))
		}
		h := rig.StartHeadwater(t, fmt.Sprintf(deployConfig, containers...))
		var running *rig.Process
		deploy := func(image int, build string, work int) {
			if running != nil {
				running.Kill(t)
			}
			rig.Compile(t, "gcc", "-O1", "-g", fmt.Sprint("-DWORK=", work), "-Wl,--build-id=0x"+build, "-o", program,
				"testdata/paced.c")
			running = rig.StartInCgroup(t, fmt.Sprintf("docker-%s.scope", containers[image]), exec.Command(program))
		}
		deploy(0, "aaaaaaaa", 100)
		testkit.Eventually(t, "the first build has run for a while", func() bool {
			return h.Metric(t, "pyroscope_ebpf_pprofs_total", `service_name="shop"`) >= 12
		})

		deploy(1, "bbbbbbbb", 150)
		checkSlower(t, h, program)
		deploy(2, "cccccccc", 150)
		checkEqual(t, h, program)
		h.Stop(t)
	})
}

// page returns where the page of a change is, as the overview links it.
func changePage(t testing.TB, h *rig.Headwater, build string) string {
	t.Helper()
	_, overview := h.Get(t, rig.PagePath)
	_, link, found := strings.Cut(overview, `href="./diff?build=`+url.QueryEscape(build)+"&amp;")
	if !found {
		return ""
	}
	link, _, _ = strings.Cut(link, `"`)
	return "diff?build=" + url.QueryEscape(build) + "&" + strings.ReplaceAll(link, "&amp;", "&")
}

// waitForReport waits until the report of a change is sufficient, and returns it.
func waitForReport(t testing.TB, h *rig.Headwater, build string, enough func(*compare.Report) bool) (link string,
	r compare.Report) {
	t.Helper()
	testkit.Eventually(t, "the builds "+build+" are compared", func() bool {
		if link = changePage(t, h, build); link == "" {
			return false
		}
		status, body := h.Get(t, rig.PagePath+"api/"+link)
		var answer struct{ Report compare.Report }
		if status == 200 {
			if err := json.Unmarshal([]byte(body), &answer); err != nil {
				t.Fatal(err)
			}
		}
		r = answer.Report
		return enough(&r)
	})

	return link, r
}

func checkSlower(t testing.TB, h *rig.Headwater, program string) {
	t.Helper()
	link, r := waitForReport(t, h, "aaaaaaaa,bbbbbbbb", func(r *compare.Report) bool {
		return len(r.Changed) > 0 && r.New.Runs >= 8 || r.New.Runs >= 35
	})
	if len(r.Changed) != 1 || r.Changed[0].Name != "price" || r.Changed[0].Low > 1.5 || *r.Changed[0].High < 1.5 {
		t.Fatalf("price takes half as much again, but %+v changed, of %+v", r.Changed, r.Others)
	}
	series := []string{`service_name="shop"`, `executable="` + program + `"`}
	if n := h.Metric(t, "pyroscope_ebpf_build_change_functions", append(series, `direction="more"`)...); n != 1 {
		t.Errorf("the metric has %v functions that became more expensive", n)
	}
	if n := h.Metric(t, "pyroscope_ebpf_build_change_cpu_ratio", series...); n < 1.05 || n > 1.6 {
		t.Errorf("the metric has %v times as much CPU", n)
	}
	if n := h.Metric(t, "pyroscope_ebpf_build_changes_total"); n != 1 {
		t.Errorf("the metric has %v changes", n)
	}
	testkit.Eventually(t, "a line of the log names the function", func() bool {
		return len(h.Output.Lines("a new build changed the CPU time of functions", program, "bbbbbbbb", "price: ")) == 1
	})

	_, info := h.Get(t, "/api/v0/web/components/pyroscope.ebpf.host")
	if !strings.Contains(info, "more_expensive") || !strings.Contains(info, `"price"`) {
		t.Errorf("debug info does not name the function:\n%s", info)
	}
	checkChangePage(t, h, link)
}

// checkChangePage opens the page of a change in a browser.
func checkChangePage(t testing.TB, h *rig.Headwater, link string) {
	t.Helper()
	b := openBrowser(t)
	b.do(t, chromedp.Navigate(h.URL+rig.PagePath+link))
	waitForFlame(t, b)
	b.screenshot(t, "deploy")
	if row := text(t, b, "#changed tbody"); !strings.Contains(row, "price") || strings.Contains(row, "render") {
		t.Errorf("the table of changes has %s", row)
	}
	if row := text(t, b, ".top tbody tr"); !strings.Contains(row, "price") {
		t.Errorf("the first function is %s", row)
	}
	shade := result(t, b, chromedp.Evaluate[string](`document.querySelector(".top tbody tr").dataset.shade`))
	if !strings.HasPrefix(shade, "more") {
		t.Errorf("price has the colour %s", shade)
	}
	for _, side := range []string{"#old", "#new"} { // each build's own flame graph
		b.do(t, chromedp.Navigate(h.URL+rig.PagePath+link))
		b.do(t, chromedp.Click(chromedp.CSS(side)))
		testkit.Eventually(t, "the browser has followed the link", func() bool {
			return result(t, b, chromedp.Evaluate[bool](`location.pathname.endsWith("/flame")`))
		})

		waitForFlame(t, b)
		if flameBox(t, b, "price").Width < 100 {
			t.Errorf("the flame graph of %s has no price", side)
		}
	}
	b.checkComplaints(t, h.URL)
}

func checkEqual(t testing.TB, h *rig.Headwater, program string) {
	t.Helper()
	_, r := waitForReport(t, h, "bbbbbbbb,cccccccc", func(r *compare.Report) bool { return r.New.Runs >= 8 })
	if len(r.Changed) != 0 {
		t.Fatalf("the builds are equal, but %+v changed", r.Changed)
	}
	n := h.Metric(t, "pyroscope_ebpf_build_change_functions", `executable="`+program+`"`)
	if n != 0 {
		t.Errorf("the metric has %v functions", n)
	}
}
