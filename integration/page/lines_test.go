package page

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/chromedp/chromedp"
	"github.com/google/pprof/profile"
	"github.com/stretchr/testify/require"
)

// TestLinesByHeat shows the lines of a function, with their text, from the menu of its frame. The hottest has the
// strongest colour, and lines without samples have none.
func TestLinesByHeat(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	source := filepath.Join(dir, "sort.c")
	require.NoError(t, os.WriteFile(source, []byte("// sort\nvoid sort(int *a, int n) {\n\tfor (int i = 0; i < n; i++)\n"+
		"\t\tswap(a, i);\n\tcheck(a, n);\n}\n"), 0o600))
	cpu := &profile.ValueType{Type: "cpu", Unit: "nanoseconds"}
	f := &profile.Function{ID: 1, Name: "sort", Filename: source, StartLine: 2}
	m := &profile.Mapping{ID: 1, File: "/usr/bin/sorter"}
	p := &profile.Profile{
		SampleType: []*profile.ValueType{cpu}, Mapping: []*profile.Mapping{m}, Function: []*profile.Function{f},
	}
	for i, value := range []int64{30, 60, 10} {
		l := &profile.Location{ID: uint64(i + 1), Mapping: m, Line: []profile.Line{{Function: f, Line: int64(i + 3)}}}
		p.Location = append(p.Location, l)
		p.Sample = append(p.Sample, &profile.Sample{Location: []*profile.Location{l}, Value: []int64{value}})
	}
	file, err := os.Create(filepath.Join(dir, "sort.pb.gz"))
	require.NoError(t, err)
	require.NoError(t, p.Write(file))
	require.NoError(t, file.Close())
	address, _ := startServe(t, file.Name())

	b := openBrowser(t)
	ui := &uiPage{t: t, b: b, url: address}
	b.do(t, chromedp.Navigate(address+"1/"))
	waitForFlame(t, b)
	pick(t, b, "sort", "Lines by heat")
	b.waits(t, "the lines are there", `document.querySelectorAll("#lines tbody tr").length > 0`)
	ui.checkNames()
	b.screenshot(t, "lines")
	rows := result(t, b, chromedp.Evaluate[[][]string](`Array.from(document.querySelectorAll("#lines tbody tr"),
		(row) => Array.from(row.cells, (cell) => cell.textContent.trim()))`))
	require.Equal(t, [][]string{
		{"1", "", "", "// sort"}, {"2", "", "", "void sort(int *a, int n) {"},
		{"3", "30.0 %", "30.0 %", "for (int i = 0; i < n; i++)"}, {"4", "60.0 %", "60.0 %", "swap(a, i);"},
		{"5", "10.0 %", "10.0 %", "check(a, n);"}, {"6", "", "", "}"},
	}, rows)
	colors := result(t, b, chromedp.Evaluate[[]string](`Array.from(document.querySelectorAll("#lines tbody tr"),
		(row) => getComputedStyle(row).backgroundColor)`))
	seen := map[string]bool{}
	for _, color := range colors[2:5] {
		seen[color] = true
	}
	require.Len(t, seen, 3, "lines with other heat have other colours: %q", colors)
	require.Equal(t, colors[0], colors[5], "lines without samples")
	b.do(t, chromedp.Click(chromedp.CSS("#lines button")))
	require.False(t, result(t, b, chromedp.Evaluate[bool](`document.querySelector("#lines").open`)))
	b.checkComplaints(t, strings.TrimSuffix(address, "/"))
}
