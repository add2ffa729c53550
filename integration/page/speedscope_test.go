package page

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/chromedp/chromedp"
	"github.com/google/pprof/profile"
	"github.com/stretchr/testify/require"

	"github.com/headwater/headwater/flame/export"
	"github.com/headwater/headwater/integration/testkit/rig"
)

// speedscopeFolder is the variable that has the folder of speedscope's npm package.
const speedscopeFolder = "HEADWATER_SPEEDSCOPE"

// TestSpeedscope: speedscope, which reads its own format and formats of other tools, shows the same share of each
// function as headwater report, for every format.
func TestSpeedscope(t *testing.T) {
	folder := os.Getenv(speedscopeFolder)
	if folder == "" {
		t.Skip("a program from npm; make -C integration speedscope runs it")
	}
	p, file := recordedProgram(t)
	functions, total, err := export.Functions(p)
	require.NoError(t, err)

	mux := http.NewServeMux()
	mux.Handle("/", http.FileServer(http.Dir(filepath.Join(folder, "dist", "release"))))
	mux.Handle("/files/", http.StripPrefix("/files/", http.FileServer(http.Dir(filepath.Dir(file)))))
	server := httptest.NewServer(mux)
	t.Cleanup(server.Close)
	b := openBrowser(t)
	// It rounds shares to percents from 10 on. In perf's text it weighs samples by the time to the next one.
	tolerances := map[string]float64{"pprof": 0.6, "folded": 0.6, "speedscope": 0.6, "trace": 2, "perf": 4}
	for _, name := range slices.Sorted(maps.Keys(tolerances)) {
		format, err := export.ByName(name)
		require.NoError(t, err)
		path := filepath.Join(filepath.Dir(file), "shop"+format.Suffixes[0])
		out, err := os.Create(path)
		require.NoError(t, err)
		require.NoError(t, format.Write(out, p))
		require.NoError(t, out.Close())

		shown := sandwich(t, b, server.URL, filepath.Base(path))
		b.screenshot(t, "speedscope-"+name)
		most := 0
		for _, f := range functions {
			self, whole := 100*float64(f.Self)/float64(total), 100*float64(f.Total)/float64(total)
			if self < 1 {
				continue
			}
			most++
			got, ok := shown[f.Name]
			require.True(t, ok, "%s: %s is not in %v", name, f.Name, shown)
			require.InDelta(t, self, got.self, tolerances[name], "%s: self of %s", name, f.Name)
			require.InDelta(t, whole, got.total, tolerances[name], "%s: total of %s", name, f.Name)
		}
		t.Logf("%s: %d functions, %d of 1 %% and more are equal", name, len(shown), most)
		require.Greater(t, most, 3)
	}
}

// recordedProgram records a program for a moment, and returns the profile and its file.
func recordedProgram(t *testing.T) (*profile.Profile, string) {
	dir := t.TempDir()
	program, file := filepath.Join(dir, "hwwork"), filepath.Join(dir, "shop.pb.gz")
	rig.Compile(t, "g++", "-O2", "-o", program, "../tools/testdata/work.cpp")
	out, err := exec.Command(rig.Binary(t), "record", "-q", "-F", "499", "--threads", "--timestamps", "-o", file, "--",
		program, "30000").CombinedOutput()
	require.NoError(t, err, string(out))
	data, err := os.ReadFile(file)
	require.NoError(t, err)
	p, err := profile.ParseData(data)
	require.NoError(t, err)
	return p, file
}

// shares are percents of all samples.
type shares struct{ self, total float64 }

// row is a row of speedscope's table, as text: total and self, each a value and its share, and the function.
var row = regexp.MustCompile(`^[^(]*\(([\d.]+)%\)[^(]*\(([\d.]+)%\)\s*(.*)$`)

// sandwich opens a profile in speedscope, and returns what its table of functions shows.
func sandwich(t *testing.T, b *browser, address, file string) map[string]shares {
	rows := speedscopeRows(t, b, address, file)
	shown := map[string]shares{}
	for _, text := range rows {
		m := row.FindStringSubmatch(text)
		if m == nil {
			continue
		}
		total, err := strconv.ParseFloat(m[1], 64)
		require.NoError(t, err)
		self, err := strconv.ParseFloat(m[2], 64)
		require.NoError(t, err)
		name, _, _ := strings.Cut(m[3], ` {"binary"`) // it adds what a trace says of an event
		shown[strings.TrimSpace(name)] = shares{self, total}
	}
	require.NotEmpty(t, shown, fmt.Sprint(rows))
	return shown
}

// speedscopeRows opens a profile in speedscope, and returns the rows of its table of functions.
func speedscopeRows(t testing.TB, b *browser, address, file string) []string {
	t.Helper()
	hash := "#view=sandwich&profileURL=" + url.QueryEscape("/files/"+file)
	b.do(t, chromedp.Navigate("about:blank"), chromedp.Navigate(address+"/?"+file+hash),
		chromedp.WaitReady("table tr:nth-child(2)"))
	return result(t, b, chromedp.Evaluate[[]string](
		`[...document.querySelectorAll("table tr")].map(r => [...r.children].map(c => c.textContent).join(" "))`))
}

// amounts is a row of speedscope's table with values: total and self, and the function.
var amounts = regexp.MustCompile(`^([\d.]+)(ms|s) \(\S+\)\s*([\d.]+)(ms|s|ns) \(\S+\)\s*(.*)$`)

// TestSpeedscopeShowsTheSame: speedscope and our view show equal self and total time of each of 60 functions, which
// call each other and themselves.
func TestSpeedscopeShowsTheSame(t *testing.T) {
	folder := os.Getenv(speedscopeFolder)
	if folder == "" {
		t.Skip("a program from npm; make -C integration speedscope runs it")
	}
	random := rand.New(rand.NewPCG(3, 4))
	p := stackProfile(2900, 60, func(i int) (stack []int) {
		for range 1 + random.IntN(12) {
			stack = append(stack, random.IntN(60))
		}
		return append(stack, i%60)
	})
	for _, s := range p.Sample {
		s.Value[0] = 10e6 // both round seconds to hundredths
	}
	dir := t.TempDir()
	file, err := os.Create(filepath.Join(dir, "same.speedscope.json"))
	require.NoError(t, err)
	format, err := export.ByName("speedscope")
	require.NoError(t, err)
	require.NoError(t, format.Write(file, p))
	require.NoError(t, file.Close())
	mux := http.NewServeMux()
	mux.Handle("/", http.FileServer(http.Dir(filepath.Join(folder, "dist", "release"))))
	mux.Handle("/files/", http.StripPrefix("/files/", http.FileServer(http.Dir(dir))))
	server := httptest.NewServer(mux)
	t.Cleanup(server.Close)

	b := openBrowser(t)
	b.do(t, chromedp.EmulateViewport(1280, 3000)) // both make the rows that are in sight
	theirs := map[string][2]time.Duration{}
	for _, text := range speedscopeRows(t, b, server.URL, "same.speedscope.json") {
		if m := amounts.FindStringSubmatch(text); m != nil {
			theirs[strings.TrimSpace(m[5])] = [2]time.Duration{parseTime(t, m[3]+m[4]), parseTime(t, m[1]+m[2])}
		}
	}
	openFile(t, b, p)
	b.do(t, chromedp.Click(chromedp.CSS("[data-mode=table]")))
	painted(t, b)
	ours := map[string][2]time.Duration{}
	for _, text := range rowsOf(t, b, ".top") {
		cells := strings.Split(text, " | ")
		ours[cells[0]] = [2]time.Duration{parseTime(t, cells[2]), parseTime(t, cells[4])}
	}
	for _, f := range p.Function {
		require.Contains(t, ours, f.Name)
		require.Equal(t, theirs[f.Name], ours[f.Name], f.Name)
	}
	t.Logf("%d functions have equal self and total, such as %v of %s", len(p.Function), ours[p.Function[7].Name],
		p.Function[7].Name)
}

// parseTime reads what both write, such as 1.20s and 350 ms.
func parseTime(t testing.TB, text string) time.Duration {
	t.Helper()
	d, err := time.ParseDuration(strings.ReplaceAll(text, " ", ""))
	require.NoError(t, err)
	return d
}
