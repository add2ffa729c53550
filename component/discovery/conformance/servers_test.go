package conformance

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/go-kit/log"
	"github.com/grafana/river"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/require"

	"github.com/headwater/headwater/component"
	"github.com/headwater/headwater/component/discovery"
	"github.com/headwater/headwater/component/discovery/docker"
	webdiscovery "github.com/headwater/headwater/component/discovery/http"
	"github.com/headwater/headwater/component/discovery/kubernetes"
)

// TestLongAnswers: what a server says of its answer's length is refused beyond a bound, and
// health says so.
func TestLongAnswers(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Api-Version", "1.41")
		w.Header().Set("Content-Type", "application/json")
		switch {
		case strings.HasSuffix(r.URL.Path, "/_ping"):
			io.WriteString(w, "OK")
		case r.URL.Query().Get("sendInitialEvents") != "": // an older server
			w.WriteHeader(http.StatusUnprocessableEntity)
			io.WriteString(w, `{"kind":"Status","apiVersion":"v1","status":"Failure","reason":"Invalid","code":422}`)
		default:
			w.Header().Set("Content-Length", strconv.Itoa(discovery.MaxAnswer+1))
			io.WriteString(w, "[")
		}
	}))
	defer server.Close()
	for _, test := range []struct {
		registration component.Registration
		config       string
	}{
		{docker.Registration(), `host = "%s"`},
		{docker.SwarmRegistration(), "role = \"nodes\"\nhost = \"%s\""},
		{webdiscovery.Registration(), `url = "%s"`},
		{kubernetes.Registration(), "role = \"pod\"\napi_server = \"%s\""},
	} {
		t.Run(test.registration.Name, func(t *testing.T) {
			built, stop := run(t, test.registration, fmt.Sprintf(test.config, server.URL), func(component.Exports) {})
			defer stop()
			var health component.Health
			require.Eventually(t, func() bool {
				health = built.(component.HealthComponent).CurrentHealth()
				return strings.Contains(health.Message, "is longer than 256 MiB")
			}, time.Minute, time.Millisecond, "health")
			require.Equal(t, component.HealthTypeUnhealthy, health.Health)
		})
	}
}

// run runs a component until stop is called.
func run(t *testing.T, registration component.Registration, config string,
	changed func(component.Exports)) (built component.Component, stop func()) {
	t.Helper()
	args := registration.NewArguments()
	require.NoError(t, river.Unmarshal([]byte(config), args))
	opts := component.Options{
		ID: registration.Name + ".x", Logger: log.NewNopLogger(), Registerer: prometheus.NewRegistry(),
		OnStateChange: changed,
	}
	built, err := registration.Build(opts, valueOf(args))
	require.NoError(t, err)
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- built.Run(ctx) }()
	return built, func() {
		cancel()
		require.NoError(t, <-done)
	}
}

// discover runs a component until it exports targets, and returns them.
func discover(t *testing.T, registration component.Registration, config string) []discovery.Target {
	t.Helper()
	var mu sync.Mutex
	var found []discovery.Target
	_, stop := run(t, registration, config, func(e component.Exports) {
		mu.Lock()
		defer mu.Unlock()
		found = e.(discovery.Exports).Targets
	})
	defer stop()
	require.Eventually(t, func() bool { mu.Lock(); defer mu.Unlock(); return len(found) > 0 }, time.Minute,
		time.Millisecond)
	mu.Lock()
	defer mu.Unlock()
	return slices.Clone(found)
}

func valueOf(args any) component.Arguments {
	switch a := args.(type) {
	case *docker.Arguments:
		return *a
	case *kubernetes.Arguments:
		return *a
	case *docker.SwarmArguments:
		return *a
	case *webdiscovery.Arguments:
		return *a
	}
	return nil
}

const containerID = "7555d1776c4642b7da750aa02e2f75ca0d4415bcc37d352ee041da48fec43e61"

// TestDocker answers as dockerd 20.10.24 did for a container without a network.
func TestDocker(t *testing.T) {
	const network = "86735af2ed99c99c275283288fef7e0221e37b4ade3321813c715dd566a83d23"
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Api-Version", "1.41")
		w.Header().Set("Content-Type", "application/json")
		switch {
		case strings.HasSuffix(r.URL.Path, "/_ping"):
			io.WriteString(w, "OK")
		case r.URL.Path == "/v1.41/containers/json":
			io.WriteString(w, `[{"Id":"`+containerID+`","Names":["/db"],"Image":"bb","ImageID":"sha256:edd4",
				"Command":"/bin/sleep 100000","Created":1795291371,
				"Ports":[],"Labels":{"app.kubernetes.io/name":"db"},"State":"running",
				"Status":"Up 29 seconds","HostConfig":{"NetworkMode":"none"},
				"NetworkSettings":{"Networks":{"none":{"IPAMConfig":null,"Links":null,"Aliases":null,
				"NetworkID":"`+network+`","EndpointID":"05c2","Gateway":"",
				"IPAddress":"","IPPrefixLen":0,"IPv6Gateway":"","GlobalIPv6Address":"","GlobalIPv6PrefixLen":0,
				"MacAddress":"","DriverOpts":null}}},"Mounts":[]}]`)
		case r.URL.Path == "/v1.41/networks":
			io.WriteString(w, `[{"Name":"none","Id":"`+network+`","Created":"2026-11-21T20:02:49.056248486Z",
				"Scope":"local","Driver":"null","EnableIPv6":false,
				"IPAM":{"Driver":"default","Options":null,"Config":[]},"Internal":false,"Attachable":false,
				"Ingress":false,"Containers":{},"Options":{},"Labels":{}}]`)
		default:
			http.Error(w, `{"message":"page not found"}`, http.StatusNotFound)
		}
	}))
	defer server.Close()
	require.Equal(t, []discovery.Target{{
		"__address__":                                          ":80",
		"__meta_docker_container_id":                           containerID,
		"__meta_docker_container_name":                         "/db",
		"__meta_docker_container_image":                        "bb",
		"__meta_docker_container_image_id":                     "sha256:edd4",
		"__meta_docker_container_label_app_kubernetes_io_name": "db",
		"__meta_docker_container_network_mode":                 "none",
		"__meta_docker_network_id":                             network,
		"__meta_docker_network_name":                           "none",
		"__meta_docker_network_scope":                          "local",
		"__meta_docker_network_internal":                       "false",
		"__meta_docker_network_ingress":                        "false",
		"__meta_docker_network_ip":                             "",
	}}, discover(t, docker.Registration(), `host = "`+server.URL+`"`))
}

// TestKubernetes answers list and watch requests of pods as an API server does.
func TestKubernetes(t *testing.T) {
	pod := map[string]any{
		"apiVersion": "v1", "kind": "Pod",
		"metadata": map[string]any{"name": "shop-0", "namespace": "default", "uid": "u", "resourceVersion": "7",
			"labels": map[string]string{"app": "shop"}},
		"spec": map[string]any{"nodeName": "n1", "containers": []any{map[string]any{"name": "main", "image": "x"}}},
		"status": map[string]any{
			"phase": "Running", "podIP": "10.1.2.3", "podIPs": []any{map[string]any{"ip": "10.1.2.3"}},
			"containerStatuses": []any{map[string]any{"name": "main", "containerID": "containerd://" + containerID}},
		},
	}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		query := r.URL.Query()
		switch {
		case r.Header.Get("Authorization") != "Bearer t" || r.URL.Path != "/api/v1/namespaces/default/pods" ||
			query.Get("fieldSelector") != "spec.nodeName=n1":
			w.WriteHeader(http.StatusForbidden)
			io.WriteString(w, `{"kind":"Status","apiVersion":"v1","status":"Failure","reason":"Forbidden","code":403}`)
		case query.Get("sendInitialEvents") != "": // an older server
			w.WriteHeader(http.StatusUnprocessableEntity)
			io.WriteString(w, `{"kind":"Status","apiVersion":"v1","status":"Failure","reason":"Invalid","code":422}`)
		case query.Get("watch") != "":
			w.(http.Flusher).Flush()
			<-r.Context().Done()
		default:
			_ = json.NewEncoder(w).Encode(map[string]any{
				"kind": "PodList", "apiVersion": "v1", "metadata": map[string]any{"resourceVersion": "9"}, "items": []any{pod},
			})
		}
	}))
	defer server.Close()
	found := discover(t, kubernetes.Registration(), `
		role         = "pod"
		api_server   = "`+server.URL+`"
		bearer_token = "t"
		namespaces {
			names = ["default"]
		}
		selectors {
			role  = "pod"
			field = "spec.nodeName=n1"
		}`)
	require.Len(t, found, 1)
	for name, want := range map[string]string{
		"__meta_kubernetes_namespace":          "default",
		"__meta_kubernetes_pod_name":           "shop-0",
		"__meta_kubernetes_pod_node_name":      "n1",
		"__meta_kubernetes_pod_label_app":      "shop",
		"__meta_kubernetes_pod_container_name": "main",
		"__meta_kubernetes_pod_container_id":   "containerd://" + containerID,
		"__address__":                          "10.1.2.3",
	} {
		require.Equal(t, want, found[0][name], name)
	}
}

func TestHTTP(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		if user, password, _ := r.BasicAuth(); user != "u" || password != "p" {
			w.WriteHeader(http.StatusUnauthorized)
			return
		}
		io.WriteString(w, `[{"targets": ["10.0.0.1:80", "10.0.0.2:80"], "labels": {"env": "prod"}}]`)
	}))
	defer server.Close()
	found := discover(t, webdiscovery.Registration(), `
		url = "`+server.URL+`"
		basic_auth {
			username = "u"
			password = "p"
		}`)
	require.Len(t, found, 2)
	require.Equal(t, "10.0.0.2:80", found[1]["__address__"])
	require.Equal(t, "prod", found[1]["env"])
}
