package server

import (
	"bytes"
	"testing"
	"time"

	"github.com/google/pprof/profile"
	"github.com/stretchr/testify/require"
)

// faultsProfile is what page faults show of fio: 3 samples of 2 MiB each.
func faultsProfile(t testing.TB, at time.Time) Profile {
	t.Helper()
	f := &profile.Function{ID: 1, Name: "fill_buffers"}
	comm := &profile.Function{ID: 2, Name: "fio"}
	locations := []*profile.Location{
		{ID: 1, Line: []profile.Line{{Function: f}}}, {ID: 2, Line: []profile.Line{{Function: comm}}},
	}
	p := &profile.Profile{
		SampleType: []*profile.ValueType{{Type: "faults", Unit: "count"}, {Type: "space", Unit: "bytes"}},
		PeriodType: &profile.ValueType{Type: "faults", Unit: "count"}, Period: 512, TimeNanos: at.UnixNano(),
		Sample:   []*profile.Sample{{Location: locations, Value: []int64{3 * 512, 3 * 512 * 4096}}},
		Location: locations, Function: []*profile.Function{f, comm},
	}
	var data bytes.Buffer
	require.NoError(t, p.Write(&data))
	return Profile{
		Labels: fioProfile(t, at).Labels, Data: data.Bytes(), Kind: "page-faults", Unit: "bytes", Period: 512 * 4096,
		Samples: 3, WithUser: 3, Complete: 3,
		Processes: []Process{{PID: 4711, Comm: "fio", Samples: 3, WithUser: 3, Complete: 3}},
	}
}

// TestKinds: kinds of profiles are chosen on the page, none is counted with another, and each is shown in its unit.
func TestKinds(t *testing.T) {
	at := time.Now()
	page := testPage(t, at.Add(-time.Minute))
	server := serve(t, page)
	_, body := get(t, server.URL+prefix+"/")
	require.NotContains(t, body, `name="kind"`, "there is one kind alone")

	page.Add(at.Add(-15*time.Second), at, []Profile{fioProfile(t, at), faultsProfile(t, at)})
	_, body = get(t, server.URL+prefix+"/?range=last")
	require.Regexp(t, `(?s)<select name="kind">\s*<option selected>cpu</option>\s*<option>page-faults</option>`, body)
	require.Contains(t, visible(body), "Samples 1,152")
	require.NotContains(t, body, "kind=page-faults")
	_, body = get(t, server.URL+prefix+"/?range=last&kind=page-faults")
	require.Regexp(t, `<option selected>page-faults</option>`, body)
	require.Contains(t, body, `href="./open?kind=page-faults&amp;`, "links stay with the kind")
	require.Contains(t, visible(body), "Samples 3")

	base := server.URL + prefix
	series := getJSON[seriesAnswer](t, base, "series?kind=page-faults")
	require.Equal(t, "bytes", series.Unit)
	require.Equal(t, []int64{3 * 512 * 4096}, series.All)
	require.Equal(t, "ms", getJSON[seriesAnswer](t, base, "series").Unit)
	top := getJSON[topAnswer](t, base, "top?kind=page-faults&focus=fill")
	require.Equal(t, "bytes", top.Unit)
	require.EqualValues(t, 3*512*4096, top.Total)
	require.EqualValues(t, 3, top.Samples)
	require.Equal(t, "fill_buffers", top.Functions[0].Name)

	_, body = get(t, base+"/flame?kind=page-faults")
	require.Regexp(t, `name="kind" value="page-faults"[^>]* list="options-kind"`, body)
	require.Contains(t, visible(body), "kind page-faults")
}

// TestSnapshots: for memory in use the newest profile of a time range is shown, not the sum; the timeline has all
// profiles.
func TestSnapshots(t *testing.T) {
	at := time.Now()
	page := testPage(t, at.Add(-time.Minute))
	server := serve(t, page)
	memory := func(at time.Time) []Profile {
		p := faultsProfile(t, at)
		p.Kind = "heap"
		return []Profile{p}
	}
	for ago := 45 * time.Second; ago >= 0; ago -= 15 * time.Second {
		page.Add(at.Add(-ago-15*time.Second), at.Add(-ago), memory(at.Add(-ago)))
	}
	base := server.URL + prefix
	top := getJSON[topAnswer](t, base, "top?kind=heap&range=5m")
	require.EqualValues(t, 3*512*4096, top.Total)
	require.EqualValues(t, 3, top.Samples)
	_, body := get(t, base+"/?range=5m&kind=heap")
	require.Contains(t, visible(body), "Samples 3 ")
	series := getJSON[seriesAnswer](t, base, "series?kind=heap&range=5m")
	require.Len(t, series.All, 4)
}
