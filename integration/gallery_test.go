package integration

import (
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// TestGallery runs every file of testdata/gallery: the shapes of configuration
// that the public documentation of Grafana Agent v0.36 to v0.44 and of Alloy shows
// for pyroscope.ebpf. Docker, Kubernetes and Pyroscope are servers on loopback.
// Every component has to be healthy.
func TestGallery(t *testing.T) {
	requireRoot(t)
	files, err := filepath.Glob("testdata/gallery/*")
	if err != nil || len(files) < 5 {
		t.Fatalf("%d files in the gallery, %v", len(files), err)
	}
	stand := startStandIns(t)
	for _, file := range files {
		t.Run(filepath.Base(file), func(t *testing.T) {
			text, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			h := launchHeadwater(t, string(text), func(cmd *exec.Cmd) { cmd.Env = append(os.Environ(), stand...) })
			h.waitReady(t)
			var unhealthy []string
			defer func() {
				if t.Failed() {
					t.Logf("not healthy: %q", unhealthy)
				}
			}()
			eventually(t, 60*time.Second, "all components are healthy", func() bool {
				var n int
				n, unhealthy = unhealthyComponents(t, h)
				return n >= 2 && len(unhealthy) == 0
			})
			h.stop(t)
		})
	}
}

// unhealthyComponents returns how many components there are, and those of them
// that are not healthy.
func unhealthyComponents(t testing.TB, h *headwater) (int, []string) {
	t.Helper()
	_, body := h.get(t, "/api/v0/web/components")
	var answer []struct {
		LocalID string
		Health  struct{ State, Message string }
	}
	if err := json.Unmarshal([]byte(body), &answer); err != nil {
		t.Fatalf("%v: %s", err, body)
	}
	var unhealthy []string
	for _, c := range answer {
		if c.Health.State != "healthy" {
			unhealthy = append(unhealthy, fmt.Sprintf("%s is %s: %s", c.LocalID, c.Health.State, c.Health.Message))
		}
	}
	return len(answer), unhealthy
}

// startStandIns starts what the gallery's configurations talk to, and returns the
// environment that names it.
func startStandIns(t testing.TB) []string {
	t.Helper()
	serve := func(listener net.Listener, handler http.HandlerFunc) string {
		server := &http.Server{Handler: handler, ReadHeaderTimeout: 10 * time.Second}
		go server.Serve(listener)
		t.Cleanup(func() { server.Close() })
		return listener.Addr().String()
	}
	listen := func(network, address string) net.Listener {
		listener, err := net.Listen(network, address)
		if err != nil {
			t.Fatal(err)
		}
		return listener
	}
	socket := filepath.Join(t.TempDir(), "docker.sock")
	serve(listen("unix", socket), docker)
	hostname, err := os.Hostname()
	if err != nil {
		t.Fatal(err)
	}
	return []string{
		"DOCKER_HOST_URL=unix://" + socket,
		"KUBERNETES_URL=http://" + serve(listen("tcp", "127.0.0.1:0"), kubernetes),
		"PYROSCOPE_URL=http://" + serve(listen("tcp", "127.0.0.1:0"), func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", "application/proto") // an empty answer: all is taken
		}),
		"HOSTNAME=" + hostname,
	}
}

// docker answers as a Docker daemon with one container does.
func docker(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Api-Version", "1.43")
	switch {
	case strings.HasSuffix(r.URL.Path, "/_ping"):
		fmt.Fprint(w, "OK")
	case strings.HasSuffix(r.URL.Path, "/containers/json"):
		fmt.Fprintf(w, `[{"Id": %q, "Names": ["/shop"], "Labels": {}, "State": "running",
			"HostConfig": {"NetworkMode": "bridge"}, "NetworkSettings": {"Networks": {"bridge": {"NetworkID": "n1", "IPAddress": "172.17.0.2"}}},
			"Ports": [{"IP": "0.0.0.0", "PrivatePort": 80, "PublicPort": 8080, "Type": "tcp"}]}]`, strings.Repeat("ab", 32))
	case strings.HasSuffix(r.URL.Path, "/networks"):
		fmt.Fprint(w, `[{"Id": "n1", "Name": "bridge", "Scope": "local", "Labels": {}}]`)
	default:
		http.NotFound(w, r)
	}
}

// kubernetes answers as an API server with one pod does. A watch stays open.
func kubernetes(w http.ResponseWriter, r *http.Request) {
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
			"spec": {"nodeName": "n1", "containers": [{"name": "web", "ports": [{"containerPort": 80}]}]},
			"status": {"phase": "Running", "podIP": "10.0.0.1", "hostIP": "10.0.0.9", "containerStatuses": [{"name": "web", "containerID": "containerd://%s"}]}}]}`,
			strings.Repeat("cd", 32))
	case strings.HasSuffix(r.URL.Path, "/namespaces"), strings.HasSuffix(r.URL.Path, "/nodes"):
		fmt.Fprint(w, `{"kind": "List", "apiVersion": "v1", "metadata": {"resourceVersion": "1"}, "items": []}`)
	default:
		http.NotFound(w, r)
	}
}
