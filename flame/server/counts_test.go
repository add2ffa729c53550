package server

import (
	"bytes"
	"strings"
	"testing"
	"time"

	"github.com/google/pprof/profile"
	"github.com/stretchr/testify/require"
)

// threadProfile is fioProfile with threads: the stacks of pid 4711 are of the thread aio.
func threadProfile(t *testing.T, at time.Time) Profile {
	t.Helper()
	out := fioProfile(t, at)
	p, err := profile.ParseData(out.Data)
	require.NoError(t, err)
	for _, s := range p.Sample {
		thread := "main"
		if hasPID(s, 4711) {
			thread = "aio"
		}
		s.Label["thread_name"] = []string{thread}
	}
	var data bytes.Buffer
	require.NoError(t, p.Write(&data))
	out.Data = data.Bytes()
	return out
}

// TestSeriesOfFilters: the timeline shows what the flame graph shows, by process and by target.
func TestSeriesOfFilters(t *testing.T) {
	end := time.Now()
	page := testPage(t, end.Add(-time.Minute))
	for i := range 4 {
		at := end.Add(time.Duration(i-3) * 15 * time.Second)
		page.Add(at.Add(-15*time.Second), at, []Profile{threadProfile(t, at), hostProfile(t, at)})
	}
	base := serve(t, page).URL + prefix
	for query, want := range map[string]struct {
		samples int64
		names   []string
	}{
		"focus=io_submit":                  {750, []string{"fio"}},
		"ignore=filemap_read":              {402, []string{"fio", "bash"}},
		"thread=main":                      {312, []string{"fio", "bash"}},
		"thread=aio&ignore=_copy_to_iter":  {220, []string{"fio"}},
		"process=fio&thread=main":          {300, []string{"fio"}},
		"pid=4712&focus=memcpy":            {240, []string{"fio"}},
		"thread=main&focus=reader_loop|ab": {12, []string{"bash"}},
		"focus=nothing":                    {0, []string{}},
	} {
		for range 2 { // the second time from the cache
			got := getJSON[seriesAnswer](t, base, "series?target=fio&range=1m&"+query)
			require.Equal(t, want.names, got.Names, query)
			require.Len(t, got.From, 4, query)
			at := len(got.All) - 1
			require.Equal(t, want.samples*testPeriod/int64(time.Millisecond), got.All[at], query)
			require.Equal(t, "ms", got.Unit)
		}
		byTarget := getJSON[seriesAnswer](t, base, "series?by=target&target=fio&range=1m&"+query)
		require.Equal(t, want.samples*testPeriod/int64(time.Millisecond), byTarget.All[len(byTarget.All)-1], query)
		if want.samples > 0 {
			require.Equal(t, []string{"fio"}, byTarget.Names, query)
			tree := getTree(t, base+"/api/tree?target=fio&range=last&"+query)
			require.Equal(t, want.samples*testPeriod, tree.Total*tree.Scale, query)
		}
	}
	require.Positive(t, page.counted.bytes())
}

// waitsProfile is what two threads of fio waited: aio once for 9 s and once for 1 s, main a hundred times for 10 ms.
func waitsProfile(t testing.TB, at time.Time) Profile {
	t.Helper()
	f, comm := &profile.Function{ID: 1, Name: "futex_do_wait"}, &profile.Function{ID: 2, Name: "fio"}
	read := &profile.Function{ID: 3, Name: "io_read"}
	locations := []*profile.Location{
		{ID: 1, Line: []profile.Line{{Function: f}}}, {ID: 2, Line: []profile.Line{{Function: comm}}},
		{ID: 3, Line: []profile.Line{{Function: read}}},
	}
	of := func(thread string, d time.Duration, leaf int) *profile.Sample {
		return &profile.Sample{
			Location: []*profile.Location{locations[leaf], locations[1]}, Value: []int64{d.Nanoseconds()},
			Label: map[string][]string{"thread_name": {thread}}, NumLabel: map[string][]int64{"pid": {4711}},
		}
	}
	kind := &profile.ValueType{Type: "offcpu", Unit: "nanoseconds"}
	p := &profile.Profile{
		SampleType: []*profile.ValueType{kind}, PeriodType: kind, Period: int64(100 * time.Millisecond),
		TimeNanos: at.UnixNano(), Location: locations, Function: []*profile.Function{f, comm, read},
		Sample: []*profile.Sample{of("aio", 9*time.Second, 0), of("aio", time.Second, 2), of("main", time.Second, 0)},
	}
	var data bytes.Buffer
	require.NoError(t, p.Write(&data))
	return Profile{
		Labels: fioProfile(t, at).Labels, Data: data.Bytes(), Kind: "off-cpu", Period: p.Period,
		Samples: 102, WithUser: 102, Complete: 102,
		Processes: []Process{{PID: 4711, Comm: "fio", Samples: 102, WithUser: 102, Complete: 102, Value: 11e9}},
	}
}

// TestSeriesOfWaits: a wait is as long as it was, of all threads and of one, and its samples are counted or not known.
func TestSeriesOfWaits(t *testing.T) {
	end := time.Now()
	page, older := testPage(t, end.Add(-time.Minute)), testPage(t, end.Add(-time.Minute))
	waits := waitsProfile(t, end)
	page.Add(end.Add(-15*time.Second), end, []Profile{waits, fioProfile(t, end)})
	waits.Processes = []Process{{PID: 4711, Comm: "fio", Samples: 102}} // as an earlier version has kept it
	older.Add(end.Add(-15*time.Second), end, []Profile{waits, fioProfile(t, end)})
	t.Run("", func(t *testing.T) { checkSeriesOfWaits(t, serve(t, page).URL+prefix) })
	t.Run("kept before", func(t *testing.T) { checkSeriesOfWaits(t, serve(t, older).URL+prefix) })
}

func checkSeriesOfWaits(t *testing.T, base string) {
	t.Helper()
	for query, want := range map[string]int64{
		"": 11_000, "&process=fio": 11_000, "&pid=4711": 11_000, "&pid=1": 0, "&thread=aio": 10_000, "&thread=main": 1000,
		"&thread=aio&focus=io_read": 1000, "&thread=nobody": 0,
	} {
		for _, by := range []string{"process", "target"} {
			got := getJSON[seriesAnswer](t, base, "series?by="+by+"&kind=off-cpu"+query)
			require.Equal(t, []int64{want}, got.All, "%s by %s", query, by)
			if want > 0 {
				require.Equal(t, []string{"fio"}, got.Names)
			}
		}
		if want == 0 {
			continue
		}
		top := getJSON[topAnswer](t, base, "top?kind=off-cpu"+query)
		require.Equal(t, want*int64(time.Millisecond), top.Total, query)
		samples := uint64(102)
		if strings.Contains(query, "thread") {
			samples = 0
		}
		require.Equal(t, samples, top.Samples, query)
	}
	_, body := get(t, base+"/flame?kind=off-cpu&thread=aio")
	require.NotContains(t, visible(body), "samples")
}

func TestProcessOfASample(t *testing.T) {
	root := &profile.Location{Line: []profile.Line{{Function: &profile.Function{Name: "a"}}}}
	two := &kept{Profile: Profile{Processes: []Process{{PID: 1, Comm: "a"}, {PID: 2, Comm: "b"}}}}
	for name, test := range map[string]struct {
		sample profile.Sample
		want   string
	}{
		"label":   {profile.Sample{Label: map[string][]string{"comm": {"c"}}, Location: []*profile.Location{root}}, "c"},
		"root":    {profile.Sample{Location: []*profile.Location{root}}, "a"},
		"pid":     {profile.Sample{NumLabel: map[string][]int64{"pid": {2}}}, "b"},
		"nothing": {profile.Sample{}, unknownProcess},
	} {
		require.Equal(t, test.want, two.processOf(&test.sample, rootFrame(&test.sample)), name)
	}
	one := &kept{Profile: Profile{Processes: two.Processes[1:]}}
	require.Equal(t, "b", one.processOf(&profile.Sample{}, ""))
}
