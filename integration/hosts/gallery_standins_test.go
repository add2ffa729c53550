package hosts

import (
	"fmt"
	"net/http"
	"path/filepath"
	"strings"
	"testing"

	"github.com/headwater/headwater/integration/testkit/rig"
)

// startStandIns starts a Docker daemon and a Kubernetes API server that know one
// container, and returns the environment that names them.
func startStandIns(t testing.TB, container string) []string {
	t.Helper()
	socket := filepath.Join(t.TempDir(), "docker.sock")
	rig.Serve(t, "unix", socket, docker(container))
	return []string{
		"DOCKER_URL=unix://" + socket,
		"KUBERNETES_URL=http://" + rig.Serve(t, "tcp", "127.0.0.1:0", kubernetes(container)),
		"HOSTNAME=node-1",
	}
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
			"HostConfig": {"NetworkMode": "bridge"},
			"NetworkSettings": {"Networks": {"bridge": {"NetworkID": "n1", "IPAddress": "172.17.0.2"}}},
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
			"status": {"phase": "Running", "podIP": "10.0.0.1", "hostIP": "10.0.0.9",
				"containerStatuses": [{"name": "till", "containerID": "containerd://%s"}]}}]}`,
				container)
		case strings.HasSuffix(r.URL.Path, "/namespaces"), strings.HasSuffix(r.URL.Path, "/nodes"):
			fmt.Fprint(w, `{"kind": "List", "apiVersion": "v1", "metadata": {"resourceVersion": "1"}, "items": []}`)
		default:
			http.NotFound(w, r)
		}
	}
}
