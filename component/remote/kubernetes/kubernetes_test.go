package kubernetes

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"io"
	golog "log"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/go-kit/log"
	"github.com/grafana/river"
	"github.com/grafana/river/rivertypes"
	"github.com/stretchr/testify/require"

	"github.com/headwater/headwater/component"
	"github.com/headwater/headwater/integration/testkit"
)

func parse(t *testing.T, text string) Arguments {
	t.Helper()
	var args Arguments
	require.NoError(t, river.Unmarshal([]byte(text), &args))
	return args
}

// apiServer answers for one Secret and one ConfigMap, in the form of the Kubernetes API reference. It wants a token.
type apiServer struct {
	*httptest.Server
	mu   sync.Mutex
	data map[string]string
}

func startAPIServer(t *testing.T, data map[string]string) *apiServer {
	s := &apiServer{data: data}
	s.Server = httptest.NewUnstartedServer(s)
	s.Config.ErrorLog = golog.New(io.Discard, "", 0)
	s.StartTLS()
	t.Cleanup(s.Close)
	return s
}

// ca returns the certificate of the server in PEM form.
func (s *apiServer) ca() string {
	return string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: s.Certificate().Raw}))
}

func (s *apiServer) set(data map[string]string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.data = data
}

func (s *apiServer) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	s.mu.Lock()
	defer s.mu.Unlock()
	status := func(code int, reason string) map[string]any {
		w.WriteHeader(code)
		return map[string]any{"kind": "Status", "apiVersion": "v1", "status": "Failure", "code": code, "reason": reason,
			"message": r.URL.Path + ": " + reason}
	}
	w.Header().Set("Content-Type", "application/json")
	var answer map[string]any
	switch encoded := map[string]string{}; {
	case r.Header.Get("Authorization") != "Bearer let-me-in":
		answer = status(http.StatusUnauthorized, "Unauthorized")
	case s.data == nil:
		answer = status(http.StatusNotFound, "NotFound")
	case r.URL.Path == "/api/v1/namespaces/shop/configmaps/settings":
		answer = map[string]any{"kind": "ConfigMap", "apiVersion": "v1", "data": s.data}
	case r.URL.Path == "/api/v1/namespaces/shop/secrets/settings":
		for key, value := range s.data {
			encoded[key] = base64.StdEncoding.EncodeToString([]byte(value))
		}
		answer = map[string]any{"kind": "Secret", "apiVersion": "v1", "data": encoded}
	default:
		answer = status(http.StatusNotFound, "NotFound")
	}
	_ = json.NewEncoder(w).Encode(answer)
}

// exports are what a component has exported.
type exports struct {
	mu   sync.Mutex
	last Exports
	n    int
}

func (e *exports) options() component.Options {
	return component.Options{Logger: log.NewNopLogger(), OnStateChange: func(fresh component.Exports) {
		e.mu.Lock()
		defer e.mu.Unlock()
		e.last = fresh.(Exports)
		e.n++
	}}
}

func (e *exports) value(key string) rivertypes.OptionalSecret {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.last.Data[key]
}

// TestPoll reads a Secret and a ConfigMap, again when they change, and keeps the last data while they are missing.
func TestPoll(t *testing.T) {
	for _, registration := range []component.Registration{SecretRegistration(), ConfigMapRegistration()} {
		t.Run(registration.Name, func(t *testing.T) {
			server := startAPIServer(t, map[string]string{"user": "12345", "url": "http://one"})
			args := parse(t, fmt.Sprintf(`
				namespace      = "shop"
				name           = "settings"
				poll_frequency = "20ms"
				poll_timeout   = "1m"
				client {
					api_server   = %q
					bearer_token = "let-me-in"
					tls_config {
						ca_pem = %q
					}
				}`, server.URL, server.ca()))
			var seen exports
			c, err := registration.Build(seen.options(), args)
			require.NoError(t, err)
			isSecret := registration.Name == SecretName
			require.Equal(t, rivertypes.OptionalSecret{IsSecret: isSecret, Value: "12345"}, seen.value("user"))
			require.Equal(t, "http://one", seen.value("url").Value)

			ctx, cancel := context.WithCancel(context.Background())
			done := make(chan error, 1)
			go func() { done <- c.Run(ctx) }()
			server.set(map[string]string{"url": "http://two"})
			testkit.Eventually(t, "the new data", func() bool { return seen.value("url").Value == "http://two" })
			require.Zero(t, seen.value("user"), "it is no longer there")
			server.set(nil)
			health := c.(component.HealthComponent)
			testkit.Eventually(t, "it is unhealthy", func() bool {
				return health.CurrentHealth().Health == component.HealthTypeUnhealthy
			})
			require.Contains(t, health.CurrentHealth().Message, "NotFound")
			require.Equal(t, "http://two", seen.value("url").Value)
			server.set(map[string]string{"url": "http://two"})
			testkit.Eventually(t, "it is healthy", func() bool {
				return health.CurrentHealth().Health == component.HealthTypeHealthy
			})
			require.Equal(t, 2, seen.n, "equal data is exported once")
			cancel()
			require.NoError(t, <-done)
		})
	}
}

// TestKubeConfig reads by a file as kubectl has it.
func TestKubeConfig(t *testing.T) {
	server := startAPIServer(t, map[string]string{"a": "1"})
	path := filepath.Join(t.TempDir(), "config")
	require.NoError(t, os.WriteFile(path, []byte(fmt.Sprintf(`
apiVersion: v1
kind: Config
current-context: here
clusters: [{name: here, cluster: {server: %q, certificate-authority-data: %s}}]
users: [{name: me, user: {token: let-me-in}}]
contexts: [{name: here, context: {cluster: here, user: me}}]
`, server.URL, base64.StdEncoding.EncodeToString([]byte(server.ca())))), 0o600))
	var seen exports
	_, err := SecretRegistration().Build(seen.options(), parse(t, fmt.Sprintf(`
		namespace = "shop"
		name      = "settings"
		client {
			kubeconfig_file = %q
		}`, path)))
	require.NoError(t, err)
	require.Equal(t, "1", seen.value("a").Value)
}

// TestBuildFails wants reasons that a user can act on.
func TestBuildFails(t *testing.T) {
	server := startAPIServer(t, map[string]string{})
	for name, test := range map[string]struct{ client, want string }{
		"token": {fmt.Sprintf("client {\n api_server = %q\n bearer_token = \"other\"\n tls_config {\n ca_pem = %q\n }\n}",
			server.URL, server.ca()), "Unauthorized"},
		"server":  {fmt.Sprintf("client {\n api_server = %q\n}", server.URL), "certificate"},
		"missing": {"client {\n kubeconfig_file = \"/does/not/exist\"\n}", "/does/not/exist"},
		"no pod":  {"", "api_server or kubeconfig_file"},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := ConfigMapRegistration().Build((&exports{}).options(),
				parse(t, "namespace = \"shop\"\nname = \"settings\"\n"+test.client))
			require.ErrorContains(t, err, test.want)
			require.NotContains(t, err.Error(), "other")
		})
	}
}

func TestArguments(t *testing.T) {
	const names = "namespace = \"n\"\nname = \"m\"\n"
	args := parse(t, names)
	require.Equal(t, time.Minute, args.PollFrequency)
	require.Equal(t, 15*time.Second, args.PollTimeout)
	require.True(t, args.Client.HTTP.FollowRedirects && args.Client.HTTP.EnableHTTP2)
	for text, want := range map[string]string{
		`namespace = "n"`:                "name",
		`name = "m"`:                     "namespace",
		names + `poll_frequency = "0s"`:  "poll_frequency must be greater",
		names + `poll_timeout   = "-1s"`: "poll_timeout must be greater",
		names + "client {\n api_server = \"http://h\"\n kubeconfig_file = \"f\"\n}": "only one of api_server",
		names + "client {\n bearer_token = \"t\"\n}":                                "need api_server",
		names + "client {\n kubeconfig_file = \"f\"\n follow_redirects = false\n}":  "not allowed beside kubeconfig_file",
		names + "client {\n api_server = \"http://h\"\n no_proxy = \"x\"\n}":        "proxy_url must also be configured",
	} {
		var args Arguments
		require.ErrorContains(t, river.Unmarshal([]byte(text), &args), want, text)
	}
}
