package integration

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"connectrpc.com/connect"
	pushv1 "github.com/grafana/pyroscope/api/gen/proto/go/push/v1"
	"github.com/grafana/pyroscope/api/gen/proto/go/push/v1/pushv1connect"
)

// serve answers on a listener until the test ends, and returns its address.
func serve(t testing.TB, network, address string, handler http.Handler) string {
	t.Helper()
	listener, err := net.Listen(network, address)
	if err != nil {
		t.Fatal(err)
	}
	server := &http.Server{Handler: handler, ReadHeaderTimeout: 10 * time.Second}
	go server.Serve(listener)
	t.Cleanup(func() { server.Close() })
	return listener.Addr().String()
}

// startStandIns starts a Docker daemon and a Kubernetes API server that know one
// container, and returns the environment that names them.
func startStandIns(t testing.TB, container string) []string {
	t.Helper()
	socket := filepath.Join(t.TempDir(), "docker.sock")
	serve(t, "unix", socket, docker(container))
	return []string{
		"DOCKER_URL=unix://" + socket,
		"KUBERNETES_URL=http://" + serve(t, "tcp", "127.0.0.1:0", kubernetes(container)),
		"HOSTNAME=node-1",
	}
}

// pushed is a Pyroscope that counts profiles by service and forgets them.
type pushed struct {
	mu       sync.Mutex
	services map[string]int
}

func startPushed(t testing.TB) (p *pushed, url string) {
	t.Helper()
	p = &pushed{services: map[string]int{}}
	mux := http.NewServeMux()
	mux.Handle(pushv1connect.NewPusherServiceHandler(p))
	return p, "http://" + serve(t, "tcp", "127.0.0.1:0", mux)
}

// Push implements pushv1connect.PusherServiceHandler.
func (p *pushed) Push(_ context.Context, request *connect.Request[pushv1.PushRequest]) (*connect.Response[pushv1.PushResponse], error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, series := range request.Msg.GetSeries() {
		for _, label := range series.GetLabels() {
			if label.GetName() == "service_name" {
				p.services[label.GetValue()] += len(series.GetSamples())
			}
		}
	}
	return connect.NewResponse(&pushv1.PushResponse{}), nil
}

// profiles returns how many have arrived of a service.
func (p *pushed) profiles(service string) int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.services[service]
}

// docker answers as a Docker daemon with one container does.
func docker(container string) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		w.Header().Set("Api-Version", "1.43")
		switch {
		case strings.HasSuffix(r.URL.Path, "/_ping"):
			fmt.Fprint(w, "OK")
		case strings.HasSuffix(r.URL.Path, "/containers/json"):
			fmt.Fprintf(w, `[{"Id": %q, "Names": ["/till"], "Labels": {}, "State": "running",
			"HostConfig": {"NetworkMode": "bridge"}, "NetworkSettings": {"Networks": {"bridge": {"NetworkID": "n1", "IPAddress": "172.17.0.2"}}},
			"Ports": [{"IP": "0.0.0.0", "PrivatePort": 80, "PublicPort": 8080, "Type": "tcp"}]}]`, container)
		case strings.HasSuffix(r.URL.Path, "/networks"):
			fmt.Fprint(w, `[{"Id": "n1", "Name": "bridge", "Scope": "local", "Labels": {}}]`)
		default:
			http.NotFound(w, r)
		}
	}
}

// kubernetes answers as an API server with one pod does. A watch stays open.
func kubernetes(container string) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		if r.URL.Query().Get("sendInitialEvents") != "" { // newer than this server: the client lists instead
			w.WriteHeader(http.StatusUnprocessableEntity)
			fmt.Fprint(w, `{"kind": "Status", "apiVersion": "v1", "status": "Failure", "reason": "Invalid", "code": 422}`)
			return
		}
		if r.URL.Query().Get("watch") != "" {
			w.WriteHeader(http.StatusOK)
			w.(http.Flusher).Flush()
			<-r.Context().Done()
			return
		}
		switch {
		case strings.HasSuffix(r.URL.Path, "/pods"):
			fmt.Fprintf(w, `{"kind": "PodList", "apiVersion": "v1", "metadata": {"resourceVersion": "1"}, "items": [{
			"metadata": {"name": "shop-1", "namespace": "sales", "uid": "u1", "labels": {"app": "shop"}},
			"spec": {"nodeName": "n1", "containers": [{"name": "till", "ports": [{"containerPort": 80}]}]},
			"status": {"phase": "Running", "podIP": "10.0.0.1", "hostIP": "10.0.0.9", "containerStatuses": [{"name": "till", "containerID": "containerd://%s"}]}}]}`,
				container)
		case strings.HasSuffix(r.URL.Path, "/namespaces"), strings.HasSuffix(r.URL.Path, "/nodes"):
			fmt.Fprint(w, `{"kind": "List", "apiVersion": "v1", "metadata": {"resourceVersion": "1"}, "items": []}`)
		default:
			http.NotFound(w, r)
		}
	}
}
