package ui

import (
	"io/fs"
	"net/http"
	"net/http/httptest"
	"regexp"
	"testing"

	"github.com/stretchr/testify/require"
)

func get(path string) *httptest.ResponseRecorder {
	answer := httptest.NewRecorder()
	Handler("/ui/").ServeHTTP(answer, httptest.NewRequest(http.MethodGet, path, nil))
	return answer
}

// TestHandler: only pages are served as pages, with a policy that allows only the page's own files.
func TestHandler(t *testing.T) {
	for path, status := range map[string]int{
		"/ui/": 200, "/ui/graph": 200, "/ui/graph/a.b/c.d": 200, "/ui/component/a.b": 200, "/ui/processes": 200,
		"/ui/health/pyroscope.ebpf.a": 200, "/ui/assets/app.js": 200,
		"/ui/component": 404, "/ui/component/": 404, "/ui/graphs": 404, "/ui/assets/": 404, "/ui/assets/index.html": 404,
	} {
		answer := get(path)
		require.Equal(t, status, answer.Code, path)
		require.Contains(t, answer.Header().Get("Content-Security-Policy"), "default-src 'none'", path)
	}
}

// TestImports: every imported script is served, so that a renamed file does not leave an empty
// page.
func TestImports(t *testing.T) {
	scripts, err := fs.Glob(assets, "assets/*.js")
	require.NoError(t, err)
	require.NotEmpty(t, scripts)
	found := 0
	for _, name := range scripts {
		text, err := fs.ReadFile(assets, name)
		require.NoError(t, err)
		for _, match := range regexp.MustCompile(`from "\./([^"]+)"`).FindAllStringSubmatch(string(text), -1) {
			require.Equal(t, http.StatusOK, get("/ui/assets/"+match[1]).Code, "%s imports %s", name, match[1])
			found++
		}
	}
	require.Greater(t, found, 10)
}
