package kubernetes

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/go-kit/log"
	"github.com/grafana/river"
	"github.com/prometheus/client_golang/prometheus"
	promdiscovery "github.com/prometheus/prometheus/discovery"
	"github.com/stretchr/testify/require"

	"github.com/headwater/headwater/component"
	"github.com/headwater/headwater/component/discovery"
)

// apiServer answers with a status of the test's choice; with 200, with its pods.
type apiServer struct {
	*httptest.Server
	status atomic.Int64
	pods   string // JSON of the list's items
}

func newAPIServer(t *testing.T, status int64, pods string) *apiServer {
	s := &apiServer{pods: pods}
	s.status.Store(status)
	s.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		status, query := int(s.status.Load()), r.URL.Query()
		if status == http.StatusOK && query.Get("sendInitialEvents") != "" { // an older server
			status = http.StatusUnprocessableEntity
		}
		w.WriteHeader(status)
		switch {
		case status != http.StatusOK:
			reasons := map[int]string{401: "Unauthorized", 403: "Forbidden", 422: "Invalid"}
			fmt.Fprintf(w, `{"kind": "Status", "apiVersion": "v1", "status": "Failure", "reason": %q,
				"message": "says the server", "code": %d}`, reasons[status], status)
		case query.Get("watch") != "":
			w.(http.Flusher).Flush()
			<-r.Context().Done()
		default:
			fmt.Fprintf(w,
				`{"kind": "PodList", "apiVersion": "v1", "metadata": {"resourceVersion": "9"}, "items": [%s]}`, s.pods)
		}
	}))
	t.Cleanup(s.end)
	return s
}

// end closes the server and the connections of clients, who connect again and watch
// for as long as they can.
func (s *apiServer) end() {
	closed := make(chan struct{})
	go func() {
		defer close(closed)
		s.Close()
	}()
	for {
		s.CloseClientConnections()
		select {
		case <-closed:
			return
		case <-time.After(10 * time.Millisecond):
		}
	}
}

const onePod = `{"metadata": {"name": "shop-0", "namespace": "default"}, "status": {"podIP": "10.1.2.3"},
	"spec": {"containers": [{"name": "main"}]}}`

// run runs a component that talks to url, whose requests have failed for the last
// time when calm has gone by.
func run(t *testing.T, url string, calm time.Duration) component.HealthComponent {
	t.Helper()
	var args Arguments
	require.NoError(t, river.Unmarshal(fmt.Appendf(nil, "role = \"pod\"\napi_server = %q", url), &args))
	opts := component.Options{
		ID: "discovery.kubernetes.x", Logger: log.NewNopLogger(), Registerer: prometheus.NewRegistry(),
		OnStateChange: func(component.Exports) {},
	}
	logOnce.Do(func() { logTo(opts.Logger) })
	built, err := discovery.New(opts, args, func(a Arguments) (promdiscovery.Config, error) {
		made, err := convert(a)
		if err != nil {
			return nil, err
		}
		c := made.(config)
		c.calm = calm
		return c, nil
	})
	require.NoError(t, err)
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- built.Run(ctx) }()
	t.Cleanup(func() {
		cancel()
		require.NoError(t, <-done)
	})
	return built
}

func eventually(t *testing.T, c component.HealthComponent, want component.HealthType, text string) {
	t.Helper()
	var last component.Health
	for end := time.Now().Add(2 * time.Minute); time.Now().Before(end); time.Sleep(5 * time.Millisecond) {
		last = c.CurrentHealth()
		if last.Health == want && strings.Contains(last.Message, text) {
			return
		}
	}
	t.Fatalf("health is %s: %q, not %s: %q", last.Health, last.Message, want, text)
}

// TestErrorsShowInHealth: each component shows its own errors, though the client
// has one log for all, and is healthy again once a request gets through.
func TestErrorsShowInHealth(t *testing.T) {
	gone := httptest.NewServer(nil)
	gone.Close()
	well, expired, forbidden := newAPIServer(t, 200, onePod), newAPIServer(t, 401, onePod), newAPIServer(t, 403, onePod)

	healthy := run(t, well.URL, calm)
	eventually(t, healthy, component.HealthTypeHealthy, "1 targets")
	refused := run(t, gone.URL, calm)
	eventually(t, refused, component.HealthTypeUnhealthy, "connection refused")
	without := run(t, expired.URL, calm)
	eventually(t, without, component.HealthTypeUnhealthy, "failed to list *v1.Pod: says the server")
	denied := run(t, forbidden.URL, calm)
	eventually(t, denied, component.HealthTypeUnhealthy, "failed to list *v1.Pod: says the server")
	eventually(t, healthy, component.HealthTypeHealthy, "1 targets")

	expired.status.Store(200)
	eventually(t, without, component.HealthTypeHealthy, "1 targets")
	well.end()
	eventually(t, healthy, component.HealthTypeUnhealthy, "connection refused; the previous 1 targets stay in use")
}

// TestHealthWithoutPods: no targets come to show that the server is there again.
func TestHealthWithoutPods(t *testing.T) {
	server := newAPIServer(t, 401, "")
	c := run(t, server.URL, 3*time.Second)
	eventually(t, c, component.HealthTypeUnhealthy, "failed to list")
	server.status.Store(200)
	eventually(t, c, component.HealthTypeHealthy, "0 targets")
}
