package servepage

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/google/pprof/profile"
	"github.com/stretchr/testify/require"

	"github.com/headwater/headwater/cli/internal/digest"
	"github.com/headwater/headwater/cli/internal/profilefile"
	"github.com/headwater/headwater/flame/export"
	"github.com/headwater/headwater/flame/tree"
)

// fileOf writes a file into a folder of its own.
func fileOf(t testing.TB, name, content string) string {
	t.Helper()
	name = filepath.Join(t.TempDir(), name)
	require.NoError(t, os.WriteFile(name, []byte(content), 0o600))
	return name
}

func ask(t testing.TB, h *Handler, path string) (body string, answer *httptest.ResponseRecorder) {
	t.Helper()
	r := httptest.NewRequest(http.MethodGet, path, nil)
	r.Host = "127.0.0.1:4041"
	answer = httptest.NewRecorder()
	h.ServeHTTP(answer, r)
	return answer.Body.String(), answer
}

// TestSameName: files with the same name are distinguished by their folders, on the page and in the loaded data.
func TestSameName(t *testing.T) {
	one, two := fileOf(t, "cpu.folded", "main;first 1\n"), fileOf(t, "cpu.folded", "main;second 1\n")
	h := New([]string{one, two, one}, "127.0.0.1:4041")
	index, _ := ask(t, h, "/")
	require.Equal(t, 2, strings.Count(index, ">"+one+"</a>"))
	require.Equal(t, 1, strings.Count(index, ">"+two+"</a>"))
	for path, want := range map[string]string{"/1/tree": "first", "/2/tree": "second", "/3/tree": "first"} {
		tree, _ := ask(t, h, path)
		require.Contains(t, tree, want)
		require.Equal(t, want == "first", !strings.Contains(tree, "second"))
	}
}

// TestBadFiles: a file that is missing, is no profile or has become a pipe is listed with the reason, and all other
// files are shown.
func TestBadFiles(t *testing.T) {
	pipe := filepath.Join(t.TempDir(), "pipe")
	require.NoError(t, syscall.Mkfifo(pipe, 0o600))
	good := fileOf(t, "good.folded", "main;work 1\n")
	for name, test := range map[string]struct{ file, want string }{
		"missing": {filepath.Join(t.TempDir(), "none"), "no such file or directory"},
		"empty":   {fileOf(t, "empty", ""), "is empty"},
		"other":   {fileOf(t, "page.html", "<script>alert(1)</script>"), "is not a profile in pprof"},
		"line":    {fileOf(t, "cut.folded", "main;work 1\nmain;wo"), "line 2: "},
		"folder":  {t.TempDir(), "is no regular file"},
		"pipe":    {pipe, "is no regular file"},
	} {
		t.Run(name, func(t *testing.T) {
			h := New([]string{test.file, good}, "127.0.0.1:4041")
			index, answer := ask(t, h, "/")
			require.Equal(t, http.StatusOK, answer.Code)
			require.Contains(t, index, test.want)
			require.Contains(t, index, `<a href="/2/">`)
			require.NotContains(t, index, `<a href="/1/">`)
			for _, path := range []string{"/1/", "/1/tree", "/1/download?format=folded"} {
				body, answer := ask(t, h, path)
				require.Equal(t, http.StatusInternalServerError, answer.Code)
				require.Contains(t, body, test.want)
			}
			_, answer = ask(t, h, "/2/tree")
			require.Equal(t, http.StatusOK, answer.Code)
		})
	}
}

// TestRequests: paths without a page, and host names other than the server's.
func TestRequests(t *testing.T) {
	h := New([]string{fileOf(t, "a.folded", "main;work 1\n")}, "profiles.example:4041")
	for path, want := range map[string]int{
		"/": 200, "/1/": 200, "/flame.js": 200, "/style.css": 200, "/reload.js": 200, "/version": 200,
		"/0/": 404, "/2/": 404, "/-1/tree": 404, "/x/tree": 404, "/flame.html": 404, "/..%2fgo.mod": 404, "/page": 404,
		"/1/download": 400, "/1/download?format=none": 400, "/1/download?format=trace": 422,
	} {
		body, answer := ask(t, h, path)
		require.Equal(t, want, answer.Code, "%s: %s", path, body)
		require.Contains(t, answer.Header().Get("Content-Security-Policy"), "default-src 'none'")
	}
	for host, want := range map[string]int{
		"profiles.example": 200, "Profiles.example:80": 200, "localhost:4041": 200, "[::1]:4041": 200, "10.0.0.4": 200,
		"evil.example": 403, "127.0.0.1.evil.example": 403, "": 403,
	} {
		r := httptest.NewRequest(http.MethodGet, "/", nil)
		r.Host = host
		answer := httptest.NewRecorder()
		h.ServeHTTP(answer, r)
		require.Equal(t, want, answer.Code, "host %q", host)
	}
	r := httptest.NewRequest(http.MethodPost, "/", nil)
	r.Host = "localhost"
	answer := httptest.NewRecorder()
	h.ServeHTTP(answer, r)
	require.Equal(t, http.StatusMethodNotAllowed, answer.Code)
}

// TestEscapes: names of files and functions cannot do anything to a page.
func TestEscapes(t *testing.T) {
	h := New([]string{fileOf(t, `<b>"x".folded`, "<script>alert(1)</script>;work 1\n")}, "localhost:1")
	for _, path := range []string{"/", "/1/", "/1/tree"} {
		body, _ := ask(t, h, path)
		require.NotContains(t, body, "<script>alert")
		require.NotContains(t, body, "<b>")
	}
}

// TestDownloadName: a download has the name of the file, with the suffix of its format.
func TestDownloadName(t *testing.T) {
	for name, want := range map[string]string{
		"before.1.folded": `attachment; filename=before.1.svg`,
		"cpu.pb.gz":       `attachment; filename=cpu.svg`,
		"profile":         `attachment; filename=profile.svg`,
		".folded":         `attachment; filename=.folded.svg`,
		`a "b".pprof`:     `attachment; filename="a \"b\".svg"`,
		"größe.prof":      `attachment; filename*=utf-8''gr%C3%B6%C3%9Fe.svg`,
	} {
		h := New([]string{fileOf(t, name, "main;work 1\n")}, "localhost:1")
		_, answer := ask(t, h, "/1/download?format=svg")
		require.Equal(t, http.StatusOK, answer.Code)
		require.Equal(t, want, answer.Header().Get("Content-Disposition"))
	}
}

// sized is a client that notes how much it gets at a time.
type sized struct {
	*httptest.ResponseRecorder
	total, largest int
}

func (s *sized) Write(b []byte) (int, error) {
	s.total, s.largest = s.total+len(b), max(s.largest, len(b))
	return len(b), nil
}

// TestDownloadOfDeepStacks: the text of a deep stack that was sampled often is long, and is sent while it is made.
func TestDownloadOfDeepStacks(t *testing.T) {
	const depth, samples = 5000, 200
	h := New([]string{fileOf(t, "deep.folded", "main"+strings.Repeat(";f;g", depth/2)+fmt.Sprintf(" %d\n", samples))},
		"localhost:1")
	for format, atLeast := range map[string]int{"perf": depth * samples * 20, "folded": depth, "gecko": depth} {
		client := &sized{ResponseRecorder: httptest.NewRecorder()}
		r := httptest.NewRequest(http.MethodGet, "/1/download?format="+format, nil)
		r.Host = "localhost"
		h.ServeHTTP(client, r)
		require.Equal(t, http.StatusOK, client.Code)
		require.Greater(t, client.total, atLeast, format)
		require.Less(t, client.largest, 1<<20, format)
	}
}

// FuzzFile: whatever a file has, the flame graph, each download and the summary of it end without a panic.
func FuzzFile(f *testing.F) {
	f.Add([]byte("main;work 12\n;; 3\nmain;[incomplete: no rows] 1\n"))
	main := &profile.Function{ID: 1, Name: "main", StartLine: 3}
	binary := &profile.Mapping{ID: 1, File: "/bin/shop"}
	l := &profile.Location{ID: 1, Address: 16, Mapping: binary, Line: []profile.Line{{Function: main, Line: 4}}}
	cpu := &profile.ValueType{Type: "cpu", Unit: "nanoseconds"}
	var content strings.Builder
	require.NoError(f, (&profile.Profile{
		SampleType: []*profile.ValueType{cpu}, PeriodType: cpu, Period: 1e7,
		Function: []*profile.Function{main}, Mapping: []*profile.Mapping{binary}, Location: []*profile.Location{l},
		Sample: []*profile.Sample{{
			Value: []int64{2e7}, Location: []*profile.Location{l, l}, Label: map[string][]string{"thread_name": {"main"}},
			NumLabel: map[string][]int64{"pid": {1}, "thread_id": {2}, "timestamp": {1e9, 2e9}},
		}},
	}).WriteUncompressed(&content))
	f.Add([]byte(content.String()))
	f.Fuzz(func(t *testing.T, content []byte) {
		p, err := profilefile.Parse("file", content)
		if err != nil {
			return
		}
		if b := tree.NewBuilder(nil); b.Add(p.Copy()) == nil {
			b.Tree(tree.Options{})
		}
		for _, format := range export.Formats() {
			_ = format.Write(io.Discard, p.Copy()) // not all profiles have what all formats need
		}
		d, err := digest.Of(p)
		if err != nil {
			return
		}
		var text strings.Builder
		require.NoError(t, d.WriteText(&text, digest.MinLines))
		require.LessOrEqual(t, strings.Count(text.String(), "\n"), digest.MinLines)
	})
}
