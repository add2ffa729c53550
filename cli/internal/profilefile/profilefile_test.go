package profilefile

import (
	"bytes"
	"compress/gzip"
	"context"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"testing"

	"github.com/google/pprof/profile"
	"github.com/stretchr/testify/require"

	"github.com/headwater/headwater/integration/testkit"
)

// pprofOf is a profile in pprof's format.
func pprofOf(t testing.TB) []byte {
	p, err := parseFolded([]byte("main;work 12\n"))
	require.NoError(t, err)
	var b bytes.Buffer
	require.NoError(t, p.Write(&b))
	return b.Bytes()
}

func stacksOf(p *profile.Profile) map[string]int64 {
	out := map[string]int64{}
	for _, s := range p.Sample {
		name := ""
		for i := len(s.Location) - 1; i >= 0; i-- {
			name += "/" + s.Location[i].Line[0].Function.Name
		}
		out[name] += s.Value[0]
	}
	return out
}

// TestParseLooksLikeFolded: compressed data that starts like a stack and its count is recognized as a profile.
func TestParseLooksLikeFolded(t *testing.T) {
	p, err := parseFolded([]byte("main;work 12\n"))
	require.NoError(t, err)
	var b bytes.Buffer
	w := gzip.NewWriter(&b)
	w.Name = "a 5\n" // precedes the compressed data
	require.NoError(t, p.WriteUncompressed(w))
	require.NoError(t, w.Close())
	p, err = Parse("a.pb.gz", b.Bytes())
	require.NoError(t, err)
	require.Equal(t, map[string]int64{"/main/work": 12}, stacksOf(p))
}

func TestRead(t *testing.T) {
	folder := t.TempDir()
	write := func(name string, content []byte) string {
		name = filepath.Join(folder, name)
		require.NoError(t, os.WriteFile(name, content, 0o600))
		return name
	}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path != "/profile" {
			http.Error(w, "no such profile", http.StatusNotFound)
			return
		}
		_, _ = w.Write(pprofOf(t))
	}))
	defer server.Close()
	for name, test := range map[string]struct{ from, stdin string }{
		"pprof":          {write("a.pb.gz", pprofOf(t)), ""},
		"folded":         {write("a.folded", []byte("main;work 5\r\n\nmain;work 7")), ""},
		"standard input": {"-", "main;work 12\n"},
		"URL":            {server.URL + "/profile", ""},
	} {
		t.Run(name, func(t *testing.T) {
			p, err := Read(context.Background(), test.from, bytes.NewBufferString(test.stdin))
			require.NoError(t, err)
			require.NoError(t, p.CheckValid())
			require.Equal(t, map[string]int64{"/main/work": 12}, stacksOf(p))
		})
	}
	for name, test := range map[string]struct{ from, want string }{
		"missing":    {filepath.Join(folder, "none"), "no such file"},
		"empty":      {write("empty", nil), "empty is empty"},
		"other":      {write("other", []byte("\x7fELF")), "is not a profile"},
		"cut":        {write("cut", pprofOf(t)[:20]), "cut is not a profile"},
		"bad line":   {write("bad", []byte("main;work 5\nmain;work\n")), "bad: line 2: "},
		"bad answer": {server.URL + "/other", "404 Not Found: no such profile"},
		"no server":  {"http://127.0.0.1:1/", "connection refused"},
		"folder":     {folder, "is a directory"},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := Read(context.Background(), test.from, nil)
			require.ErrorContains(t, err, test.want)
		})
	}
}

func FuzzRead(f *testing.F) {
	f.Add(pprofOf(f))
	f.Add([]byte("main;work 12\n;; 3\n"))
	f.Fuzz(func(t *testing.T, content []byte) {
		defer testkit.Cheap(t, len(content))()
		p, err := Read(context.Background(), "-", bytes.NewReader(content))
		if err == nil {
			require.NoError(t, p.CheckValid())
		}
	})
}
