package servepage

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/pprof/profile"
	"github.com/stretchr/testify/require"

	"github.com/headwater/headwater/flame/tree"
)

// linesProfile is the file of a profile in which the function work has lines 10 and 12 of a source file.
func linesProfile(t *testing.T, source string) string {
	t.Helper()
	cpu := &profile.ValueType{Type: "cpu", Unit: "nanoseconds"}
	f := &profile.Function{ID: 1, Name: "work", Filename: source}
	m := &profile.Mapping{ID: 1, File: "/bin/a"}
	p := &profile.Profile{
		SampleType: []*profile.ValueType{cpu}, Mapping: []*profile.Mapping{m}, Function: []*profile.Function{f},
	}
	for i, line := range []int64{10, 12} {
		l := &profile.Location{ID: uint64(i + 1), Mapping: m, Line: []profile.Line{{Function: f, Line: line}}}
		p.Location = append(p.Location, l)
		p.Sample = append(p.Sample, &profile.Sample{Location: []*profile.Location{l}, Value: []int64{line}})
	}
	path := filepath.Join(t.TempDir(), "cpu.pb.gz")
	file, err := os.Create(path)
	require.NoError(t, err)
	require.NoError(t, p.Write(file))
	require.NoError(t, file.Close())
	return path
}

// askFrom asks for the lines of work from an address.
func askFrom(t *testing.T, source, address string) (out linesAnswer) {
	t.Helper()
	h := New([]string{linesProfile(t, source)}, "127.0.0.1:4041")
	query := url.Values{"function": {"work"}, "binary": {"/bin/a"}}.Encode()
	r := httptest.NewRequest(http.MethodGet, "/1/lines?"+query, nil)
	r.Host, r.RemoteAddr = "127.0.0.1:4041", address
	answer := httptest.NewRecorder()
	h.ServeHTTP(answer, r)
	require.Equal(t, http.StatusOK, answer.Code, answer.Body)
	require.NoError(t, json.Unmarshal(answer.Body.Bytes(), &out))
	return out
}

// TestLines: the text of lines is shown if the file exists, but only to this host.
func TestLines(t *testing.T) {
	source := fileOf(t, "work.c", strings.Repeat("a line\n", 9)+"line 10\n\nline 12\n")
	const here = "127.0.0.1:50000"
	got := askFrom(t, source, here)
	require.Equal(t, []tree.Line{
		{File: source, Line: 10, Self: 10, Total: 10}, {File: source, Line: 12, Self: 12, Total: 12},
	}, got.Lines)
	require.EqualValues(t, 22, got.Total)
	require.Equal(t, &textAround{source, 7, []string{"a line", "a line", "a line", "line 10", "", "line 12"}}, got.Source)

	require.Nil(t, askFrom(t, source, "192.0.2.1:50000").Source, "another host")
	short := fileOf(t, "short.c", "another version\n")
	for name, path := range map[string]string{
		"no such file": filepath.Join(t.TempDir(), "none.c"), "a folder": t.TempDir(), "no path": "work.c",
		"other than text": fileOf(t, "data", strings.Repeat("\x00\n", 20)), "too short": short, "a device": "/dev/zero",
	} {
		got := askFrom(t, path, here)
		require.Nil(t, got.Source, name)
		require.Len(t, got.Lines, 2, name)
	}
	h := New([]string{linesProfile(t, source)}, "127.0.0.1:4041")
	_, answer := ask(t, h, "/1/lines?function=nothing")
	require.Equal(t, http.StatusNotFound, answer.Code)
}
