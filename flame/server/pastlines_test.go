package server

import (
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// A timeline that extends a cached one equals the timeline of a page without a cache.
func TestTimelinesGoOn(t *testing.T) {
	end := time.Now()
	dir := t.TempDir()
	page, _ := diskPage(t, dir, Options{MaxBytes: 1})
	fillDisk(t, page, end)
	base := serve(t, page).URL + prefix
	compare := func(rounds int) {
		t.Helper()
		fresh, _ := diskPage(t, dir, Options{MaxBytes: 1})
		want := serve(t, fresh).URL + prefix
		for _, query := range []string{"", "?by=target", "?target=fio&focus=io_submit", "?kind=off-cpu"} {
			_, expected := get(t, want+"/api/series"+query)
			answer, body := get(t, base+"/api/series"+query)
			require.Equal(t, http.StatusOK, answer.StatusCode, body)
			require.JSONEq(t, expected, body, query)
		}
		require.Len(t, getJSON[seriesAnswer](t, base, "series").To, rounds)
	}
	compare(37)
	require.Len(t, page.lines.lines, 4)
	add := func(rounds int) {
		end = end.Add(15 * time.Second)
		page.Add(end.Add(-15*time.Second), end, []Profile{fioProfile(t, end)})
		waitForRounds(t, page, rounds)
	}
	add(38)
	compare(38)

	files, err := filepath.Glob(filepath.Join(dir, "*.round"))
	require.NoError(t, err)
	require.NoError(t, os.Truncate(files[20], 50))
	require.Len(t, getJSON[seriesAnswer](t, base, "series").To, 38, "it was read already")
	get(t, base+fmt.Sprintf("/api/tree?from=0&to=%d", end.UnixMilli()))
	require.Len(t, getJSON[seriesAnswer](t, base, "series").To, 37)
	require.NoError(t, os.Remove(files[20]))

	d, _ := page.Disk()
	page.SetDisk(dir, d.Bytes-1)
	end = end.Add(15 * time.Second)
	page.Add(end.Add(-15*time.Second), end, []Profile{fioProfile(t, end)})
	require.Eventually(t, func() bool {
		now, _ := page.Disk()
		return now.Bytes < d.Bytes && now.Since.After(d.Since)
	}, time.Minute, time.Millisecond)
	page.CloseDisk(time.Minute)
	left, err := filepath.Glob(filepath.Join(dir, "*.round"))
	require.NoError(t, err)
	compare(len(left))

	page.DropViews()
	require.Empty(t, page.lines.lines)
}

func TestTimelinesAreBounded(t *testing.T) {
	l := pastLines{lines: map[string]*pastLine{}}
	of := func(values int, used int64) *pastLine {
		line := &pastLine{timeline: newTimeline(), used: time.Unix(used, 0)}
		for range values {
			line.bins = append(line.bins, &bin{})
		}
		return line
	}
	l.lines["new"], l.lines["old"], l.lines["newer"] = of(9000, 2), of(9000, 1), of(9000, 3)
	require.True(t, l.makeRoom(maxLineValues-27_000))
	require.Len(t, l.lines, 3)
	require.True(t, l.makeRoom(maxLineValues-10_000))
	require.Len(t, l.lines, 1)
	require.Contains(t, l.lines, "newer")
	require.False(t, l.makeRoom(maxLineValues+1))
	require.Empty(t, l.lines)
}
