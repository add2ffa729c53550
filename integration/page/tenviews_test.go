package page

import (
	"compress/gzip"
	"encoding/json"
	"fmt"
	"html"
	"io"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/headwater/headwater/integration/testkit"
	"github.com/headwater/headwater/integration/testkit/need"
	records "github.com/headwater/headwater/integration/testkit/record"
	"github.com/headwater/headwater/integration/testkit/rig"
)

// visitor asks for what a browser asks for that shows a live flame graph: each interval the timeline, then the page of
// the newest range, and what that page says that it needs.
type visitor struct {
	base     string // of the profiler's page
	query    string // the selection
	minutes  int    // of the range
	mode     string // both, table, search or sandwich
	requests *atomic.Int64
	bytes    *atomic.Int64
}

// visitors returns ten views with different contents.
func visitors(base string, names []string) (all []*visitor) {
	requests, bytes := new(atomic.Int64), new(atomic.Int64)
	add := func(query string, minutes int, mode string) {
		all = append(all, &visitor{base, query, minutes, mode, requests, bytes})
	}
	process := func(i int) string { return "process=" + url.QueryEscape(names[i%len(names)]) }
	add("", 5, "both")
	add("", 1, "both")
	add("", 10, "table")
	add("", 5, "search")
	add("", 5, "sandwich")
	add(process(0), 5, "both")
	add(process(1), 5, "table")
	add(process(2), 10, "both")
	add("focus=sys", 5, "both")
	add("ignore=_start", 5, "both")
	return all
}

// get returns the contents of an address, decompressed.
func (v *visitor) get(address string) ([]byte, error) {
	r, err := http.NewRequest(http.MethodGet, v.base+strings.TrimPrefix(address, "./"), nil)
	if err != nil {
		return nil, err
	}
	r.Header.Set("Accept-Encoding", "gzip") // explicit: then the response stays compressed, and its size can be counted
	answer, err := http.DefaultClient.Do(r)
	if err != nil {
		return nil, err
	}
	defer answer.Body.Close()
	counted := &counter{answer.Body, v.bytes}
	v.requests.Add(1)
	var body io.Reader = counted
	if answer.Header.Get("Content-Encoding") == "gzip" {
		if body, err = gzip.NewReader(counted); err != nil {
			return nil, err
		}
	}
	data, err := io.ReadAll(body)
	if err == nil && answer.StatusCode != http.StatusOK && answer.StatusCode != http.StatusNotFound {
		err = fmt.Errorf("%s: %s: %.200s", address, answer.Status, data)
	}
	return data, err
}

// counter counts the bytes that are read.
type counter struct {
	io.Reader
	bytes *atomic.Int64
}

func (c *counter) Read(p []byte) (int, error) {
	n, err := c.Reader.Read(p)
	c.bytes.Add(int64(n))
	return n, err
}

// needed finds what a page needs: scripts, styles, and where its data is.
var needed = regexp.MustCompile(
	`(?:<script src|<link rel="stylesheet" href|data-(?:series|tree|top|sandwich))="(\./[^"]*)"`)

// look shows the newest range once, and returns after how long a browser does so again.
func (v *visitor) look() (wait time.Duration, err error) {
	newest, err := v.get("api/series?" + v.query)
	if err != nil {
		return 0, err
	}
	var line struct {
		To                []int64
		Interval, Refresh int64
	}
	if err := json.Unmarshal(newest, &line); err != nil {
		return 0, err
	}
	if len(line.To) == 0 { // there is no data yet
		return time.Duration(line.Interval) * time.Millisecond, nil
	}
	to, last := line.To[len(line.To)-1], ""
	page, err := v.get(fmt.Sprintf("flame?from=%d&to=%d&live=1&%s", to-int64(v.minutes)*60_000, to, v.query))
	if err != nil {
		return 0, err
	}
	for _, found := range needed.FindAllStringSubmatch(string(page), -1) {
		address := html.UnescapeString(found[1])
		switch {
		case strings.HasPrefix(address, "./api/top"):
			err = v.functions(address)
		case strings.HasPrefix(address, "./api/sandwich"): // when the functions are there
		case strings.HasPrefix(address, "./api/series"): // the page asks after it has all else
			last = address
		default:
			_, err = v.get(address)
		}
		if err != nil {
			return 0, err
		}
	}
	if last != "" {
		if newest, err = v.get(last); err != nil {
			return 0, err
		}
		err = json.Unmarshal(newest, &line)
	}
	return time.Duration(line.Refresh) * time.Millisecond, err
}

// functions requests the table, like the view of a graph with folded frames, and the following data.
func (v *visitor) functions(address string) error {
	if v.mode == "both" {
		return nil
	}
	data, err := v.get(address + "&sort=total&limit=10000")
	if err != nil {
		return err
	}
	var top struct {
		Functions []struct{ Name, Binary string }
	}
	if err := json.Unmarshal(data, &top); err != nil || len(top.Functions) == 0 {
		return err
	}
	switch v.mode {
	case "search":
		_, err = v.get(address + "&sort=total&limit=10000&search=malloc")
	case "sandwich":
		of := top.Functions[len(top.Functions)/2]
		_, err = v.get(strings.Replace(address, "api/top", "api/sandwich", 1) + "&" +
			url.Values{"function": {of.Name}, "binary": {of.Binary}}.Encode())
	}
	return err
}

// phase is what two profilers took in a part of the time: the one that is looked at, and another.
type phase struct {
	Name     string  `json:"name"`
	Seconds  float64 `json:"seconds"`
	Viewed   taken   `json:"viewed"`
	Other    taken   `json:"other"`
	Requests int64   `json:"requests"`
	Sent     float64 `json:"sent_mb"`
}

// taken is what a process took.
type taken struct {
	CPU    float64 `json:"cpu_percent"` // of one CPU
	Median float64 `json:"rss_mb"`      // median of a value each second
	Most   float64 `json:"rss_mb_most"`
}

// watch measures two processes for a while.
func watch(t *testing.T, name string, viewed, other int, took time.Duration) phase {
	t.Helper()
	begun, pids := time.Now(), [...]int{viewed, other}
	var cpu [len(pids)]time.Duration
	var resident [len(pids)][]float64
	for i, pid := range pids {
		cpu[i] = rig.CPUTime(t, strconv.Itoa(pid))
	}
	for time.Since(begun) < took {
		time.Sleep(min(time.Second, took/4))
		for i, pid := range pids {
			resident[i] = append(resident[i], residentMB(t, pid))
		}
	}
	passed := time.Since(begun)
	var of [len(pids)]taken
	for i, pid := range pids {
		slices.Sort(resident[i])
		of[i] = taken{
			CPU:    100 * (rig.CPUTime(t, strconv.Itoa(pid)) - cpu[i]).Seconds() / passed.Seconds(),
			Median: resident[i][len(resident[i])/2], Most: resident[i][len(resident[i])-1],
		}
	}
	return phase{Name: name, Seconds: passed.Seconds(), Viewed: of[0], Other: of[1]}
}

// residentMB returns the resident memory of a process, see proc_pid_status(5).
func residentMB(t *testing.T, pid int) float64 {
	t.Helper()
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	require.NoError(t, err)
	_, rest, ok := strings.Cut(string(text), "\nVmRSS:")
	require.True(t, ok)
	kb, err := strconv.ParseFloat(strings.Fields(rest)[0], 64)
	require.NoError(t, err)
	return kb * 1024 / 1e6
}

// TestTenViews keeps ten live views of a profiler open, and measures the profiler before, during and after, together
// with a second profiler without views: the use of both changes with the load of the host. With HEADWATER_VIEWS_SECONDS
// it does so for that long at the usual interval, while many programs run; make test only checks that all views are
// answered.
func TestTenViews(t *testing.T) {
	testkit.Nightly(t, "TestViews and TestFlame ask the same pages, one at a time")
	t.Parallel()
	need.Root(t)
	seconds, interval, config, load := 6, time.Second, strings.Replace(hostConfig, "targets_only", `collect_interval = "1s"
	targets_only`, 1), ""
	if n, err := strconv.Atoi(os.Getenv("HEADWATER_VIEWS_SECONDS")); err == nil {
		seconds, interval, config, load = n, 15*time.Second, hostConfig, "mixed"
	}
	save := records.Test(t, "views", fmt.Sprintf("make -C integration bench-views VIEW_SECONDS=%d RECORD=1", seconds))
	endLoad := startLoad(t, load, 3*seconds)
	h, other := rig.StartHeadwater(t, config), rig.StartHeadwater(t, config)
	during := time.Duration(seconds) * time.Second
	time.Sleep(2 * during / 5) // names of all programs are read
	phases := []phase{watch(t, "before", h.PID(), other.PID(), during/5)}

	all := visitors(h.URL+rig.PagePath, processNames(t, h))
	stop, failures := make(chan struct{}), make(chan error, len(all))
	var open sync.WaitGroup
	for i, v := range all {
		open.Go(func() { failures <- v.stay(stop, interval, time.Duration(i)*interval/time.Duration(len(all))) })
	}
	phases = append(phases, watch(t, "ten views", h.PID(), other.PID(), during))
	close(stop)
	open.Wait()
	for range all {
		require.NoError(t, <-failures)
	}
	phases[1].Requests, phases[1].Sent = all[0].requests.Load(), float64(all[0].bytes.Load())/1e6
	phases = append(phases, watch(t, "after", h.PID(), other.PID(), during/5))
	for _, p := range phases {
		t.Logf("%-9s %.2f %% of a CPU, %.1f MB (most %.1f), %d requests, %.1f MB sent; the other %.2f %%, %.1f MB (%.1f)",
			p.Name, p.Viewed.CPU, p.Viewed.Median, p.Viewed.Most, p.Requests, p.Sent, p.Other.CPU, p.Other.Median, p.Other.Most)
	}
	require.GreaterOrEqual(t, phases[1].Requests, int64(10*5), "each view was shown")
	h.Stop(t)
	other.Stop(t)
	endLoad() // the record says how busy the machine is without it
	save(map[string]any{"phases": phases})
}

// startLoad runs a set of programs, none if it is "", for some seconds or until end, and leaves none running.
func startLoad(t *testing.T, set string, seconds int) (end func()) {
	t.Helper()
	if set == "" {
		return func() {}
	}
	load := rig.Start(t, exec.Command("../load", set, strconv.Itoa(seconds)))
	end = sync.OnceFunc(func() { // it ends its child processes
		load.Signal(t, syscall.SIGTERM)
		load.Wait(t, time.Minute)
	})
	t.Cleanup(end)
	return end
}

// stay looks each interval until stop.
func (v *visitor) stay(stop <-chan struct{}, interval, wait time.Duration) error {
	for {
		select {
		case <-stop:
			return nil
		case <-time.After(wait):
		}
		next, err := v.look()
		if err != nil {
			return fmt.Errorf("the view of %q, %s: %w", v.query, v.mode, err)
		}
		wait = max(interval, next)
	}
}

// processNames returns the names of processes that were profiled, those with most samples first.
func processNames(t *testing.T, h *rig.Headwater) (names []string) {
	t.Helper()
	_, body := h.Get(t, rig.PagePath+"api/processes?range=10m")
	var answer struct {
		Processes []struct{ Name string }
	}
	require.NoError(t, json.Unmarshal([]byte(body), &answer), body)
	for _, p := range answer.Processes {
		names = append(names, p.Name)
	}
	require.NotEmpty(t, names)
	return names
}
