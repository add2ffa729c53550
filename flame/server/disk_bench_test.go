package server

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/headwater/headwater/flame/server/archive"
)

// BenchmarkDisk asks a page with a day on disk, 5,760 intervals of two targets and 100 processes.
func BenchmarkDisk(b *testing.B) {
	dir := b.TempDir()
	a, err := archive.Open[Profile](dir, 1<<40, nil)
	require.NoError(b, err)
	end := time.Now()
	fio, host := fioProfile(b, end), hostProfile(b, end)
	for i := range 76 {
		host.Processes = append(host.Processes, Process{PID: uint32(5000 + i), Comm: fmt.Sprint("process-", i%40),
			Program: fmt.Sprint("/usr/lib/programs/of/many/process-", i%40), Build: fmt.Sprintf("%040x", 1000000007*(i%40)),
			Samples: uint64(i), WithUser: uint64(i), Complete: uint64(i)})
	}
	const rounds = 24 * 3600 / 15
	for i := range int64(rounds) {
		at := end.UnixMilli() - (rounds-i)*15_000
		require.NoError(b, a.Write(archive.Round{Start: at - 15_000, End: at}, []archive.Profile[Profile]{
			{About: fio, Data: fio.Data}, {About: host, Data: host.Data},
		}))
	}
	page := New(Options{Name: "x", Status: testStatus})
	page.SetDisk(dir, 1<<40)
	b.Cleanup(func() { page.CloseDisk(time.Minute) })
	span := fmt.Sprintf("from=%d&to=%d", end.Add(-24*time.Hour).UnixMilli(), end.UnixMilli())
	hour := fmt.Sprintf("from=%d&to=%d", end.Add(-24*time.Hour).UnixMilli(), end.Add(-23*time.Hour).UnixMilli())
	for name, path := range map[string]string{
		"timeline": "/api/series", "timeline again": "/api/series", "processes": "/api/processes?" + span,
		"hour": "/api/tree?target=fio&" + hour,
	} {
		b.Run(name, func(b *testing.B) {
			ask := func() {
				answer := httptest.NewRecorder()
				page.ServeHTTP(answer, httptest.NewRequest("GET", path, nil))
				require.Equal(b, http.StatusOK, answer.Code, answer.Body)
			}
			if name == "timeline again" {
				ask()
			}
			b.ReportAllocs()
			for b.Loop() {
				if name != "timeline again" {
					page.DropViews()
				}
				ask()
			}
		})
	}
}
