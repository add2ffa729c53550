package server

import (
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// diskLog collects what a page logs about its disk.
type diskLog struct {
	mu    sync.Mutex
	lines []string
}

func (l *diskLog) log(message string, err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.lines = append(l.lines, strings.TrimSuffix(fmt.Sprint(message, ": ", err), ": <nil>"))
}

func (l *diskLog) all() []string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return append([]string{}, l.lines...)
}

// diskPage returns a page with a history on disk and little in memory.
func diskPage(t testing.TB, dir string, o Options) (*Page, *diskLog) {
	l := &diskLog{}
	o.Name, o.Status, o.Log = "pyroscope.ebpf.instance", testStatus, l.log
	page := New(o)
	page.SetDisk(dir, 64<<20)
	t.Cleanup(func() { page.CloseDisk(time.Minute) })
	return page, l
}

// fillDisk adds what testPage adds, and waits until it is written.
func fillDisk(t *testing.T, page *Page, end time.Time) {
	t.Helper()
	var rounds int
	for at := end.Add(-9 * time.Minute); !at.After(end); at = at.Add(15 * time.Second) {
		page.Add(at.Add(-15*time.Second), at, []Profile{fioProfile(t, at), hostProfile(t, at)})
		rounds++
		waitForRounds(t, page, rounds)
	}
}

func waitForRounds(t *testing.T, page *Page, rounds int) {
	t.Helper()
	require.Eventually(t, func() bool {
		d, _ := page.Disk()
		return d.Rounds == rounds
	}, time.Minute, time.Millisecond)
}

// asked are questions with absolute times about what testPage adds.
func asked(end time.Time) []string {
	ms := func(before time.Duration) int64 { return end.Add(-before).UnixMilli() }
	span := fmt.Sprintf("from=%d&to=%d", ms(8*time.Minute), ms(0))
	all := []string{
		"api/series", "api/series?by=target", "api/series?process=bash&target=fio", "api/series?target=fio&focus=io_submit",
		"api/processes?range=10m",
		fmt.Sprintf("api/diff?base_from=%d&base_to=%d&from=%d&to=%d", ms(8*time.Minute), ms(5*time.Minute),
			ms(5*time.Minute), ms(0)),
	}
	for _, of := range []string{
		"", "&target=fio", "&target=fio&process=bash", "&pid=4712", "&target=fio&focus=io_submit",
	} {
		all = append(all, "api/tree?"+span+of, "api/top?"+span+of, "api/processes?"+span+of, "api/series?"+span+of)
	}
	return all
}

// What a page shows is the same whether profiles are in memory or on disk, of this run or of one before.
func TestDiskAnswersAsMemoryDoes(t *testing.T) {
	end := time.Now()
	want := serve(t, testPage(t, end)).URL + prefix
	for name, o := range map[string]Options{
		"all in memory": {}, "a minute in memory": {MaxAge: time.Minute},
		"a part of a round in memory": {MaxBytes: 9000}, "nothing in memory": {MaxBytes: 1},
	} {
		t.Run(name, func(t *testing.T) {
			dir := filepath.Join(t.TempDir(), "history")
			page, log := diskPage(t, dir, o)
			fillDisk(t, page, end)
			requireSameAnswers(t, end, want, serve(t, page).URL+prefix)
			page.CloseDisk(time.Minute)

			again, more := diskPage(t, dir, o)
			requireSameAnswers(t, end, want, serve(t, again).URL+prefix)
			require.Empty(t, append(log.all(), more.all()...))
		})
	}
}

// ofPage matches values of a page that do not depend on its profiles: the time for which profiles stay in memory, and
// the pause of live views, which follows from the CPU time of answers.
var ofPage = regexp.MustCompile(`,"(kept|refresh)":\d+`)

func requireSameAnswers(t *testing.T, end time.Time, want, got string) {
	t.Helper()
	for _, question := range asked(end) {
		answer, expected := get(t, want+"/"+question)
		require.Equal(t, http.StatusOK, answer.StatusCode, "%s: %s", question, expected)
		answer, body := get(t, got+"/"+question)
		require.Equal(t, http.StatusOK, answer.StatusCode, "%s: %s", question, body)
		expected, body = ofPage.ReplaceAllString(expected, ""), ofPage.ReplaceAllString(body, "")
		require.JSONEq(t, expected, body, question)
	}
	for _, page := range []string{"", "?range=10m&target=fio"} {
		_, expected := get(t, want+"/"+page)
		_, body := get(t, got+"/"+page)
		before, _, _ := strings.Cut(visible(expected), "Outcomes of user stacks")
		require.Contains(t, strings.Replace(visible(body), "last hour ", "", 1), before)
	}
}

func TestPagesOfProfilesOnDisk(t *testing.T) {
	end := time.Now()
	dir := t.TempDir()
	page, _ := diskPage(t, dir, Options{})
	fillDisk(t, page, end)
	page.CloseDisk(time.Minute)
	again, _ := diskPage(t, dir, Options{})
	base := serve(t, again).URL + prefix

	_, body := get(t, base+"/")
	require.Contains(t, body, `<option value="1h">last hour</option>`)
	require.Contains(t, visible(body), "On disk are 37 intervals since "+
		end.Add(-9*time.Minute-15*time.Second).Format(time.DateTime))
	span := fmt.Sprintf("from=%d&to=%d", end.Add(-8*time.Minute).UnixMilli(), end.UnixMilli())
	for _, path := range []string{"/flame?" + span, "/open?range=last", "/pprof?range=last", "/profile?" + span,
		"/profile?seconds=60"} {
		answer, body := get(t, base+path)
		require.Equal(t, http.StatusOK, answer.StatusCode, "%s: %s", path, body)
	}
	_, body = get(t, base+"/flame?"+span)
	require.Contains(t, body, `<option value="worker-3">`, "processes to choose from")
	health := getJSON[healthAnswer](t, base, "health")
	require.Equal(t, 37, health.History.Disk.Rounds)
	require.Zero(t, health.History.Profiles)

	again.Add(end, end.Add(15*time.Second), []Profile{fioProfile(t, end)})
	answer, body := get(t, base+"/flame?from=1&to=2")
	require.Equal(t, http.StatusGone, answer.StatusCode)
	require.Contains(t, visible(body), "for 10 minutes, and on disk in 64.0 MiB, which has profiles since ")
}

func TestRangesThatAreOffered(t *testing.T) {
	base := serve(t, testPage(t, time.Now())).URL + prefix
	_, body := get(t, base+"/")
	require.NotContains(t, body, "last hour", "it is not kept")
	_, body = get(t, base+"/?range=1h")
	require.Contains(t, body, `<option value="1h" selected>last hour</option>`)
}

func TestClockHasTheDateOfOtherDays(t *testing.T) {
	now := time.Date(2026, 11, 24, 0, 5, 0, 0, time.UTC)
	require.Equal(t, "00:04:00", formatClock(now.Add(-time.Minute), now))
	require.Equal(t, "2026-11-23 23:59:00", formatClock(now.Add(-6*time.Minute), now))
}

// A damaged file only affects its own round, independent of the place of the damage.
func TestDamagedRounds(t *testing.T) {
	end := time.Now()
	dir := t.TempDir()
	page, _ := diskPage(t, dir, Options{})
	fillDisk(t, page, end)
	page.CloseDisk(time.Minute)
	files, err := filepath.Glob(filepath.Join(dir, "*.round"))
	require.NoError(t, err)
	require.Len(t, files, 37)
	for i, change := range map[int]func([]byte){
		3: func(b []byte) { clear(b[len(b)-1000:]) }, 30: func(b []byte) { clear(b[:100]) },
	} {
		content, err := os.ReadFile(files[i])
		require.NoError(t, err)
		change(content)
		require.NoError(t, os.WriteFile(files[i], content, 0o600))
	}
	span := fmt.Sprintf("from=0&to=%d", end.UnixMilli())
	want := getTree(t, serve(t, testPage(t, end)).URL+prefix+"/api/tree?"+span)
	for _, path := range []string{"/api/tree?" + span, "/api/diff?base_from=0&base_to=" +
		fmt.Sprint(end.Add(-time.Minute).UnixMilli()) + "&from=1&to=" + fmt.Sprint(end.UnixMilli())} {
		again, log := diskPage(t, dir, Options{})
		base := serve(t, again).URL + prefix
		answer, body := get(t, base+path)
		require.Equal(t, http.StatusOK, answer.StatusCode, body)
		got := getTree(t, base+"/api/tree?"+span)
		require.Equal(t, 2*35, got.Of)
		require.Equal(t, want.Samples/37*35, got.Samples)
		require.Equal(t, want.Total*want.Scale/37*35, got.Total*got.Scale)
		lines := log.all()
		require.Len(t, lines, 2)
		for _, i := range []int{3, 30} {
			require.Contains(t, strings.Join(lines, "\n"), "a file of the history on disk is left out: "+files[i]+": it is ")
		}
	}
}

func TestDiskThatCannotBeWritten(t *testing.T) {
	end := time.Now()
	dir := filepath.Join(t.TempDir(), "history")
	require.NoError(t, os.WriteFile(dir, nil, 0o600)) // no directory can be made
	page, log := diskPage(t, dir, Options{})
	add := func() {
		end = end.Add(15 * time.Second)
		page.Add(end.Add(-15*time.Second), end, []Profile{fioProfile(t, end)})
	}
	add()
	add()
	require.Eventually(t, func() bool {
		d, _ := page.Disk()
		return d.Missing == 2
	}, time.Minute, time.Millisecond)
	d, _ := page.Disk()
	require.Contains(t, d.Problem, dir)
	require.Len(t, log.all(), 1, "once, not for each round")
	require.Contains(t, log.all()[0], "the history on disk cannot be written; profiling goes on without it: mkdir "+dir)
	base := serve(t, page).URL + prefix
	require.Len(t, getJSON[seriesAnswer](t, base, "series").From, 2, "what is in memory is shown")
	_, body := get(t, base+"/")
	require.Contains(t, visible(body), "The history on disk cannot be written: mkdir "+dir)

	require.NoError(t, os.Remove(dir))
	add()
	waitForRounds(t, page, 1)
	require.Eventually(t, func() bool { return len(log.all()) == 2 }, time.Minute, time.Millisecond)
	require.Contains(t, log.all()[1], "the history on disk works again; missing rounds so far: 2")
	d, _ = page.Disk()
	require.Empty(t, d.Problem)
}

func TestDiskLimitChanges(t *testing.T) {
	end := time.Now()
	dir := t.TempDir()
	page, _ := diskPage(t, dir, Options{MaxBytes: 1})
	fillDisk(t, page, end)
	d, ok := page.Disk()
	require.True(t, ok)
	page.SetDisk(dir, d.Bytes/2)
	page.Add(end, end.Add(15*time.Second), []Profile{fioProfile(t, end)})
	require.Eventually(t, func() bool {
		now, _ := page.Disk()
		return now.Rounds < 30 && now.Bytes <= d.Bytes/2
	}, time.Minute, time.Millisecond)

	page.SetDisk(dir, 0)
	_, ok = page.Disk()
	require.False(t, ok)
	answer, _ := get(t, serve(t, page).URL+prefix+"/api/tree?from=0&to="+fmt.Sprint(end.UnixMilli()))
	require.Equal(t, http.StatusGone, answer.StatusCode)
	page.SetDisk(dir, 64<<20)
	answer, _ = get(t, serve(t, page).URL+prefix+"/api/tree?from=0&to="+fmt.Sprint(end.UnixMilli()))
	require.Equal(t, http.StatusOK, answer.StatusCode, "files stay while nothing is to be kept")
}

// Neighbours are joined while a long timeline is read, so that it takes the memory of a short one.
func TestLongTimeline(t *testing.T) {
	line := timeline{per: 1}
	one := func(*kept) (counts, error) { return counts{"a": 3, "b": 4}, nil }
	for i := range int64(10_000) {
		require.NoError(t, line.addRound([]*kept{{start: i, end: i + 1}}, one))
		require.Less(t, len(line.bins), 2*maxBins)
	}
	var all int64
	for i, b := range line.bins {
		all += b.all
		require.EqualValues(t, b.to-b.from, b.all/7)
		require.True(t, i == 0 || b.from == line.bins[i-1].to)
	}
	require.EqualValues(t, 70_000, all)
	require.LessOrEqual(t, len(newSeries(line.bins, unitTime).From), maxBins)
}

// A disk that hangs does not block callers that hand over rounds, or read the state.
func TestDiskThatHangs(t *testing.T) {
	l := &diskLog{}
	d := &disk{log: l.log, queue: make(chan []*kept, maxDiskQueue), done: make(chan struct{})} // there is no writer
	for range maxDiskQueue + 3 {
		d.addRound([]*kept{{}})
	}
	state, ok := d.state()
	require.True(t, ok)
	require.EqualValues(t, 3, state.Missing)
	require.Equal(t, errSlowDisk.Error(), state.Problem)
	require.Len(t, l.all(), 1)
	d.close(time.Millisecond)
	d.addRound([]*kept{{}}) // after the end
}
