package cli

import (
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/headwater/headwater/integration/testkit/need"
)

// reaching is a configuration whose every component asks another machine, at %[1]s.
const reaching = `remote.http "token" {
	url = "http://%[1]s/token"
	client {
		authorization {
			type        = "Bearer"
			credentials = "s3cret"
		}
	}
}

remote.git "labels" {
	repository = "http://me:s3cret@%[1]s/labels.git"
	path       = "labels.json"
}

import.http "web" {
	url = "http://%[1]s/lib.alloy"
}

import.git "lib" {
	repository = "http://%[1]s/lib.git"
	path       = "modules/lib.alloy"
}

module.http "old" {
	url = "http://%[1]s/old.river"
}

module.git "older" {
	repository = "http://%[1]s/older.git"
	path       = "older.river"
}

lib.stack "a" {
	token = remote.http.token.content
}

web.stack "a" {
	token = "x"
}

discovery.kubernetes "pods" {
	role       = "pod"
	api_server = "http://%[1]s"
}

discovery.kubernetes "own" {
	role = "pod"
}

discovery.docker "containers" {
	host = "tcp://%[1]s"
}

discovery.dockerswarm "tasks" {
	host = "http://%[1]s"
	role = "tasks"
}

discovery.http "targets" {
	url = "http://%[1]s/targets"
}

discovery.dns "names" {
	names = ["_pprof._tcp.example.invalid"]
}

discovery.relabel "all" {
	targets = concat(discovery.kubernetes.pods.targets, discovery.docker.containers.targets)

	rule {
		source_labels = ["__meta_kubernetes_pod_name"]
		target_label  = "pod"
	}
}

otelcol.exporter.otlp "traces" {
	client {
		endpoint = "%[1]s"
	}
}

otelcol.exporter.otlphttp "traces" {
	client {
		endpoint = "http://%[1]s"
	}
}

tracing {
	write_to = [otelcol.exporter.otlp.traces.input]
}

pyroscope.scrape "go" {
	targets    = discovery.relabel.all.output
	forward_to = [pyroscope.write.server.receiver]
}

pyroscope.ebpf "host" {
	targets         = discovery.relabel.all.output
	forward_to      = [pyroscope.write.server.receiver, lib.stack.a.receiver]
	symb_cache_path = "/tmp/symb-cache"
}

pyroscope.write "server" {
	endpoint {
		url = "http://%[1]s"

		basic_auth {
			username = env("HEADWATER_TEST_USER")
			password = remote.http.token.content
		}
	}
}
`

// silentServer is an address where nothing should connect. connections returns the number of connections so far.
func silentServer(t *testing.T) (address string, connections func() int) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	t.Cleanup(func() { listener.Close() })
	clients := make(chan string, 1000)
	go func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			clients <- conn.RemoteAddr().String()
			conn.Close()
		}
	}()
	return listener.Addr().String(), func() int {
		conn, err := net.Dial("tcp", listener.Addr().String())
		require.NoError(t, err)
		defer conn.Close()
		n := 0
		for <-clients != conn.LocalAddr().String() { // they are accepted in their order
			n++
		}
		return n
	}
}

// TestValidateReachesNothing: neither validate nor convert connects to a machine that the configuration names.
func TestValidateReachesNothing(t *testing.T) {
	address, connections := silentServer(t)
	path := writeConfig(t, fmt.Sprintf(reaching, address))
	stdout, stderr, code := call(t, "validate", path)
	require.Equal(t, 0, code, stderr)
	for _, want := range []string{
		path + " is valid\n",
		":1:1: remote.http.token: asks a web server\n",
		":11:1: remote.git.labels: asks a Git repository\n",
		":16:1: import.http.web: asks a web server\n",
		":20:1: import.git.lib: asks a Git repository\n",
		": lib.stack.a: is declared by import.git.lib, which was not looked at\n",
		": discovery.kubernetes.pods: asks the API server of a cluster\n",
		": discovery.docker.containers: asks a Docker engine\n",
		": pyroscope.write.server: depends on remote.http.token and the environment variable HEADWATER_TEST_USER\n",
		": pyroscope.ebpf.host: symb_cache_path has no effect in Headwater",
		": HEADWATER_TEST_USER\n",
	} {
		require.Contains(t, stdout, want)
	}
	require.NotContains(t, stdout, "s3cret")
	_, stderr, code = call(t, "convert", path)
	require.Equal(t, 0, code, stderr)
	require.Zero(t, connections())
}

// TestValidateMakesNoSocketCalls looks at the system calls of validate.
func TestValidateMakesNoSocketCalls(t *testing.T) {
	need.Tools(t, "strace")
	path := writeConfig(t, fmt.Sprintf(reaching, "pyroscope.example.invalid:4040"))
	cmd := headwater(t, "validate", path)
	trace := filepath.Join(t.TempDir(), "trace")
	cmd.Args = append([]string{"strace", "-f", "-qq", "-e", "trace=%network,execve", "-o", trace}, cmd.Args...)
	cmd.Path = "/usr/bin/strace"
	_, stderr, code := result(t, cmd)
	require.Equal(t, 0, code, stderr)
	calls, err := os.ReadFile(trace)
	require.NoError(t, err)
	require.Equal(t, 1, strings.Count(string(calls), "execve("), "it ran another program:\n%s", calls)
	for _, call := range []string{"connect(", "sendto(", "sendmsg("} {
		require.NotContains(t, string(calls), call)
	}
}

// TestValidateURLs: what Alloy runs is not refused.
func TestValidateURLs(t *testing.T) {
	path := writeConfig(t, `discovery.http "x" { url = "" }
pyroscope.write "x" {
	endpoint {
		url = "pyroscope:4040"
	}
}
`)
	stdout, stderr, code := call(t, "validate", path)
	require.Equal(t, 0, code, stderr)
	require.Contains(t, stdout, ":1:22: discovery.http.x: url must be absolute and start with http:// or https://\n")
	require.Contains(t, stdout,
		":4:3: pyroscope.write.x: endpoint.url must be absolute and start with http:// or https://")
}
