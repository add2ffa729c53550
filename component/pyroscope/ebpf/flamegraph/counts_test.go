package flamegraph

import (
	"bytes"
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
		for range 2 { // what was read is kept
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
