package river

import (
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/headwater/headwater/component"
)

// site is a host's HTTP server.
type site struct {
	*host
	server *httptest.Server
	client *http.Client
}

func newSite(t *testing.T, options HTTPOptions) *site {
	t.Helper()
	h := newHost(t)
	options.Gatherer = h.metrics
	if options.Reload == nil {
		options.Reload = func() error { return nil }
	}
	s := &site{host: h, server: httptest.NewServer(h.Handler(options))}
	t.Cleanup(s.server.Close)
	s.client = s.server.Client()
	s.client.CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	return s
}

func (s *site) do(method, path string) (*http.Response, string) {
	s.t.Helper()
	req, err := http.NewRequest(method, s.server.URL+path, nil)
	require.NoError(s.t, err)
	resp, err := s.client.Do(req)
	require.NoError(s.t, err)
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	require.NoError(s.t, err)
	return resp, string(body)
}

func (s *site) get(path string) (code int, body string) {
	s.t.Helper()
	resp, body := s.do(http.MethodGet, path)
	return resp.StatusCode, body
}

func (s *site) expect(path string, code int, body string) {
	s.t.Helper()
	gotCode, gotBody := s.get(path)
	require.Equal(s.t, code, gotCode, "%s: %s", path, gotBody)
	require.Equal(s.t, body, gotBody, path)
}

func TestProbes(t *testing.T) {
	s := newSite(t, HTTPOptions{})
	s.expect("/-/ready", 503, "Headwater is not ready.\n")
	require.NoError(t, s.load(`
		test.value "a" { }
		test.value "b" { }
		test.value "c" { }`))
	s.expect("/-/ready", 200, "Headwater is ready.\n")
	s.expect("/-/healthy", 200, "All Headwater components are healthy.\n")
	s.lab.get("test.value.a").setHealth(component.HealthTypeUnhealthy, "")
	s.lab.get("test.value.c").setHealth(component.HealthTypeExited, "")
	s.expect("/-/healthy", 500, "unhealthy components: test.value.a, test.value.c\n")
}

func TestReloadEndpoint(t *testing.T) {
	var result error
	s := newSite(t, HTTPOptions{Reload: func() error { return result }})
	for _, method := range []string{http.MethodGet, http.MethodPost} {
		resp, body := s.do(method, "/-/reload")
		require.Equal(t, 200, resp.StatusCode)
		require.Equal(t, "config reloaded\n", body)
	}
	resp, _ := s.do(http.MethodDelete, "/-/reload")
	require.Equal(t, 405, resp.StatusCode)

	result = errors.New("no such file")
	s.expect("/-/reload", 400, "no such file\n")

	result = s.load("x = 1\n")
	s.expect("/-/reload", 400, `Error: c.river:1:1: unrecognized attribute x

1 | x = 1
  | ^
2 | 

failed to reload config: the previous configuration keeps running
`)
}

func TestComponentsAPI(t *testing.T) {
	s := newSite(t, HTTPOptions{})
	s.expect("/api/v0/web/components", 200, "[]\n")
	require.NoError(t, s.load(`
		logging { level = test.value.a.out }
		test.value "a" {
			in     = "info"
			secret = "s3cret"
		}
		test.sink "b" { forward_to = [test.value.a.receiver] }`))

	_, body := s.get("/api/v0/web/components")
	var list []map[string]interface{}
	require.NoError(t, json.Unmarshal([]byte(body), &list))
	require.Len(t, list, 2)
	require.Equal(t, []interface{}{"test.value.a"}, list[1]["referencesTo"])
	require.Equal(t, []interface{}{"test.sink.b"}, list[0]["referencedBy"], "logging is no component")

	code, body := s.get("/api/v0/web/components/test.value.a")
	require.Equal(t, 200, code)
	var info map[string]interface{}
	require.NoError(t, json.Unmarshal([]byte(body), &info))
	updated := info["health"].(map[string]interface{})["updatedTime"].(string)
	want := `{
		"name": "test.value", "type": "block", "localID": "test.value.a", "moduleID": "", "label": "a",
		"pages": "/api/v0/component/test.value.a/",
		"referencesTo": [], "referencedBy": ["test.sink.b"],
		"health": {"state": "unknown", "message": "component created", "updatedTime": "` + updated + `"},
		"original": "",
		"arguments": [
			{"name": "in", "type": "attr", "value": {"type": "string", "value": "info"}},
			{"name": "secret", "type": "attr", "value": {"type": "capsule", "value": "(secret)"}}],
		"exports": [
			{"name": "out", "type": "attr", "value": {"type": "string", "value": "info"}},
			{"name": "secret", "type": "attr", "value": {"type": "capsule", "value": "(secret)"}},
			{"name": "receiver", "type": "attr", "value": {"type": "capsule", "value": "capsule(\"river.receiver\")"}}],
		"debugInfo": [{"name": "updates", "type": "attr", "value": {"type": "number", "value": 0}}]
	}`
	require.JSONEq(t, want, body)
	code, _ = s.get("/api/v0/web/components/test.value.zzz")
	require.Equal(t, 404, code)
}

func TestMisbehavingInfo(t *testing.T) {
	s := newSite(t, HTTPOptions{})
	require.NoError(t, s.load(`
		test.value "a" { behaviour = "panic in debug info" }
		test.value "b" { behaviour = "tell debug info that is no body" }
		test.value "c" { behaviour = "panic in health" }`))
	for _, id := range []string{"a", "b", "c"} {
		info, found := s.Component("test.value." + id)
		require.True(t, found)
		if id != "c" {
			require.JSONEq(t, "[]", string(info.DebugInfo), id)
		}
	}
	_, message := s.health("test.value.c")
	require.Equal(t, "component cannot report its health: panic: health boom", message)
	code, body := s.get("/metrics")
	require.Equal(t, 200, code)
	require.Contains(t, body, `agent_component_controller_running_components{controller_id="",health_type="unhealthy"} 1`)
}

func TestComponentPages(t *testing.T) {
	s := newSite(t, HTTPOptions{})
	require.NoError(t, s.load(`
		test.value "a" { }
		test.value "b" { behaviour = "serve nothing" }`))
	s.expect("/api/v0/component/test.value.a/", 200, `test.value.a serves GET "/" ""`)
	s.expect("/api/v0/component/test.value.a/x/y%2Fz?q=1", 200, `test.value.a serves GET "/x/y%2Fz" "q=1"`)
	_, body := s.do(http.MethodPost, "/api/v0/component/test.value.a/x")
	require.Equal(t, `test.value.a serves POST "/x" ""`, body)

	resp, _ := s.do(http.MethodGet, "/api/v0/component/test.value.a?q=1")
	require.Equal(t, 308, resp.StatusCode)
	require.Equal(t, "/api/v0/component/test.value.a/?q=1", resp.Header.Get("Location"))

	for _, path := range []string{"test.value.b/", "test.value.b", "test.value.zzz/", ""} {
		code, _ := s.get("/api/v0/component/" + path)
		require.Equal(t, 404, code, path)
	}
}

func TestMetrics(t *testing.T) {
	s := newSite(t, HTTPOptions{})
	s.runs(`
		test.value "a" { }
		test.value "b" { in = test.value.a.out }`)
	s.eventually("both run", func() bool {
		return s.has("run test.value.a")() && s.has("run test.value.b")()
	})
	code, body := s.get("/metrics")
	require.Equal(t, 200, code)
	for _, line := range []string{
		`specimen_up{component_id="test.value.a"} 0`,
		`specimen_up{component_id="test.value.b"} 0`,
		`agent_component_controller_running_components{controller_id="",health_type="healthy"} 2`,
		`agent_component_controller_evaluating{controller_id=""} 0`,
		`agent_component_evaluation_queue_size{controller_id=""} 0`,
	} {
		require.Contains(t, body, line+"\n")
	}
	require.Contains(t, body, `agent_component_evaluation_seconds_bucket{controller_id="",le="0.005"}`)

	require.NoError(t, s.load(`test.value "a" { }`))
	_, body = s.get("/metrics")
	require.Contains(t, body, `specimen_up{component_id="test.value.a"} 0`)
	require.NotContains(t, body, `component_id="test.value.b"`, "metrics of a component that is gone")
	s.client.CloseIdleConnections()
}

// TestMetricsOfAFailedBuild: the failed first attempt has registered its metrics; the second
// attempt must still succeed.
func TestMetricsOfAFailedBuild(t *testing.T) {
	h := newHost(t)
	require.NoError(t, h.load(``))
	require.Error(t, h.load(`test.value "a" { behaviour = "fail to build" }`))
	require.NoError(t, h.load(`test.value "a" { }`))
	require.Equal(t, []string{"{component_id=test.value.a} 0"}, h.metric("specimen_up"))
}

func TestPProf(t *testing.T) {
	code, _ := newSite(t, HTTPOptions{}).get("/debug/pprof/")
	require.Equal(t, 404, code)
	s := newSite(t, HTTPOptions{PProf: true})
	for _, page := range []string{"", "goroutine?debug=1", "cmdline", "heap"} {
		code, _ := s.get("/debug/pprof/" + page)
		require.Equal(t, 200, code, page)
	}
}

// TestPages: the pages and their files are only below the prefix. The tests in integration/ check
// their content in a browser.
func TestPages(t *testing.T) {
	for prefix, base := range map[string]string{"/ui/": "/ui/", "/ui": "/ui/", "": "/", "/": "/"} {
		s := newSite(t, HTTPOptions{UIPrefix: prefix})
		for _, page := range []string{"", "graph", "graph/module.file.a", "component/test.value.a",
			"processes", "processes/module.file.a/pyroscope.ebpf.b", "health", "health/pyroscope.ebpf.a",
			"component/module.file.a/test.value.b"} {
			code, body := s.get(base + page)
			require.Equal(t, 200, code, page)
			require.True(t, strings.HasPrefix(body, "<!DOCTYPE html>"))
			require.Contains(t, body, `<base href="`+base+`">`)
		}
		for _, asset := range []string{"app.js", "style.css", "icon.svg"} {
			code, _ := s.get(base + "assets/" + asset)
			require.Equal(t, 200, code, asset)
		}
		for _, path := range []string{"elsewhere", "assets/", "assets/index.html", "assets/../ui.go", "components"} {
			code, _ := s.get(base + path)
			require.NotEqual(t, 200, code, path)
		}
		code, _ := s.get(base + "api/v0/web/components")
		require.Equal(t, 200, code)
	}
	code, _ := newSite(t, HTTPOptions{UIPrefix: "/ui/"}).get("/")
	require.Equal(t, 404, code)
}

func TestPagesField(t *testing.T) {
	s := newSite(t, HTTPOptions{})
	require.NoError(t, s.load(`
		test.value "a" { }
		test.value "b" { behaviour = "serve nothing" }`))
	infos := s.Components()
	require.Equal(t, "/api/v0/component/test.value.a/", infos[0].Pages)
	require.Empty(t, infos[1].Pages)
}

// TestModulePages: IDs of components in modules contain slashes.
func TestModulePages(t *testing.T) {
	s := newSite(t, HTTPOptions{})
	require.NoError(t, s.load(wrapper+`wrapper "w" { in = "1" }`))
	s.expect("/api/v0/component/wrapper.w/test.value.inner/x", 200, `wrapper.w/test.value.inner serves GET "/x" ""`)
	resp, _ := s.do(http.MethodGet, "/api/v0/component/wrapper.w/test.value.inner")
	require.Equal(t, 308, resp.StatusCode)
	require.Equal(t, "/api/v0/component/wrapper.w/test.value.inner/", resp.Header.Get("Location"))
	code, body := s.get("/api/v0/web/components/wrapper.w/test.value.inner")
	require.Equal(t, 200, code)
	require.Contains(t, body, `"moduleID":"wrapper.w"`)
	code, body = s.get("/api/v0/web/modules/wrapper.w/components")
	require.Equal(t, 200, code)
	require.Contains(t, body, `"localID":"test.value.inner"`)
	for _, path := range []string{"modules/wrapper.w", "modules/nowhere/components",
		"components/wrapper.w/test.value.gone", "components/nowhere/x"} {
		code, _ := s.get("/api/v0/web/" + path)
		require.Equal(t, 404, code, path)
	}
}

// TestRequireHealthy checks whether a runtime is ready while a component has exited.
func TestRequireHealthy(t *testing.T) {
	h := newHost(t)
	require.NoError(t, h.load("test.value \"a\" { }\n"))
	ready := func(healthy bool) (int, string) {
		answer := httptest.NewRecorder()
		h.Handler(HTTPOptions{Gatherer: h.metrics, RequireHealthy: healthy}).ServeHTTP(answer,
			httptest.NewRequest(http.MethodGet, "http://localhost/-/ready", nil))
		return answer.Code, answer.Body.String()
	}
	code, text := ready(true)
	require.Equal(t, http.StatusServiceUnavailable, code, "nothing runs yet")
	require.Equal(t, "Headwater is not ready: components that are not healthy: test.value.a\n", text)
	code, _ = ready(false)
	require.Equal(t, http.StatusOK, code)
	stop := h.runs("test.value \"a\" { }\n")
	h.eventually("it is ready", func() bool { code, _ := ready(true); return code == http.StatusOK })
	stop()
	h.eventually("it has ended", func() bool { code, _ := ready(true); return code == http.StatusServiceUnavailable })
}
