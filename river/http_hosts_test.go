package river

import (
	"context"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
)

// request sends a request with headers to the site; headers may include Host.
func (s *site) request(method, path string, headers map[string]string) (code int, body string) {
	s.t.Helper()
	req, err := http.NewRequest(method, s.server.URL+path, nil)
	require.NoError(s.t, err)
	for name, value := range headers {
		req.Header.Set(name, value)
	}
	if host, ok := headers["Host"]; ok {
		req.Host = host
	}
	resp, err := s.client.Do(req)
	require.NoError(s.t, err)
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	require.NoError(s.t, err)
	return resp.StatusCode, string(text)
}

func TestForeignHost(t *testing.T) {
	own, err := os.Hostname()
	require.NoError(t, err)
	s := newSite(t,
		HTTPOptions{PProf: true, ListenAddr: "profiles.internal:12345", AllowedHosts: []string{"flames.example.com"}})
	const api = "/api/v0/web/components"
	for _, host := range []string{"localhost:12345", "LOCALHOST", "x.localhost", "127.0.0.1:12345", "10.1.2.3:12345",
		"[::1]:12345", "[fe80::1]", "profiles.internal",
		"Flames.Example.com.:443", own + ":12345"} {
		code, body := s.request("GET", api, map[string]string{"Host": host})
		require.Equal(t, http.StatusOK, code, "%s: %s", host, body)
	}
	for _, host := range []string{"evil.example", "evil.example:12345", "127.0.0.1.evil.example", "localhost.evil.example",
		"evil-localhost", "example.com", "x.flames.example.com"} {
		for _, path := range []string{api, "/", "/debug/pprof/", "/api/v0/component/x/", "/-/reload"} {
			code, body := s.request("GET", path, map[string]string{"Host": host})
			require.Equal(t, http.StatusForbidden, code, "%s%s: %s", host, path, body)
			require.Contains(t, body, "--server.http.allowed-hosts")
		}
		// Kubernetes' probes and scrapers use any name.
		for _, path := range []string{"/metrics", "/-/ready", "/-/healthy"} {
			code, _ := s.request("GET", path, map[string]string{"Host": host})
			require.NotEqual(t, http.StatusForbidden, code, host+path)
		}
	}
	all := newSite(t, HTTPOptions{AllowedHosts: []string{"*"}})
	code, _ := all.request("GET", api, map[string]string{"Host": "anything.example"})
	require.Equal(t, http.StatusOK, code)
}

func TestForeignOrigin(t *testing.T) {
	reloads := 0
	s := newSite(t, HTTPOptions{Reload: func() error { reloads++; return nil }})
	own := s.server.URL
	for _, test := range []struct {
		name, method string
		headers      map[string]string
		allowed      bool
	}{
		{"curl", "GET", nil, true},
		{"curl -X POST", "POST", nil, true},
		{"own page", "POST", map[string]string{"Origin": own, "Sec-Fetch-Site": "same-origin"}, true},
		{"own page of an old browser", "POST", map[string]string{"Origin": own}, true},
		{"typed address", "GET", map[string]string{"Sec-Fetch-Site": "none"}, true},
		{"image on another site", "GET", map[string]string{"Sec-Fetch-Site": "cross-site"}, false},
		{"another port of this host", "GET", map[string]string{"Sec-Fetch-Site": "same-site"}, false},
		{"image on a page of another site, by plain HTTP", "GET",
			map[string]string{"User-Agent": "Mozilla/5.0 (X11; Linux x86_64)", "Referer": "http://evil.example/",
				"Accept": "image/avif,*/*"}, false},
		{"the same without Referer", "GET", map[string]string{"User-Agent": "Mozilla/5.0 (X11; Linux x86_64)"}, false},
		{"the same with an odd name", "GET",
			map[string]string{"User-Agent": "Opera", "Referer": "http://evil.example/"}, false},
		{"own page of a browser, by plain HTTP", "POST",
			map[string]string{"User-Agent": "Mozilla/5.0 (X11; Linux x86_64)", "Origin": own}, true},
		{"form on another site", "POST",
			map[string]string{"Origin": "http://evil.example", "Sec-Fetch-Site": "cross-site"}, false},
		{"form in an old browser", "POST", map[string]string{"Origin": "http://evil.example"}, false},
		{"sandbox", "POST", map[string]string{"Origin": "null"}, false},
		{"fetch in an old browser", "GET", map[string]string{"Origin": "http://evil.example"}, false},
	} {
		before := reloads
		code, body := s.request(test.method, "/-/reload", test.headers)
		if test.allowed {
			require.Equal(t, http.StatusOK, code, "%s: %s", test.name, body)
			require.Equal(t, before+1, reloads, test.name)
		} else {
			require.Equal(t, http.StatusForbidden, code, "%s: %s", test.name, body)
			require.Equal(t, before, reloads, test.name)
		}
	}
	// Requests that do not change state are allowed for links from other sites.
	code, _ := s.request("GET", "/api/v0/web/components", map[string]string{"Sec-Fetch-Site": "cross-site"})
	require.Equal(t, http.StatusOK, code)
	code, _ = s.request("POST", "/api/v0/component/x/", map[string]string{"Sec-Fetch-Site": "cross-site"})
	require.Equal(t, http.StatusForbidden, code)
}

// Names of other sites do not lead to a socket in the file system.
func TestHostOfASocket(t *testing.T) {
	h := newHost(t)
	path := filepath.Join(t.TempDir(), "socket")
	listener, err := net.Listen("unix", path)
	require.NoError(t, err)
	server := &http.Server{Handler: h.Handler(HTTPOptions{Gatherer: h.metrics})}
	go server.Serve(listener)
	t.Cleanup(func() { server.Close() })
	dial := func(context.Context, string, string) (net.Conn, error) { return net.Dial("unix", path) }
	client := &http.Client{Transport: &http.Transport{DialContext: dial}}
	resp, err := client.Get("http://any.name/api/v0/web/components")
	require.NoError(t, err)
	defer resp.Body.Close()
	require.Equal(t, http.StatusOK, resp.StatusCode)
}
