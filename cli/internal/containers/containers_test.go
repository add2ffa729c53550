package containers

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/headwater/headwater/ebpf/host/procfs"
)

var web, store = strings.Repeat("a1", 32), strings.Repeat("b2", 32)

// TestRunning: processes' containers are found, with the names that an engine has for them.
func TestRunning(t *testing.T) {
	root := t.TempDir()
	for pid, cgroup := range map[int]string{
		1: "/init.scope", 10: "/system.slice/docker-" + web + ".scope", 11: "/system.slice/docker-" + web + ".scope",
		12: "/machine.slice/libpod-" + store + ".scope",
	} {
		folder := filepath.Join(root, fmt.Sprint(pid))
		require.NoError(t, os.Mkdir(folder, 0o755))
		require.NoError(t, os.WriteFile(filepath.Join(folder, "cgroup"), []byte("0::"+cgroup+"\n"), 0o644))
	}
	socket := engine(t, `[{"Id":"`+web+`","Names":["/web","/shop"]},{"Id":"stopped","Names":["/old"]}]`)
	broken := engine(t, `{"message":"no"}`)
	all, err := running(context.Background(), procfs.FS{Root: root}, []string{"/none.sock", broken, socket})
	require.NoError(t, err)
	require.Equal(t, []Container{{ID: web, Names: []string{"web", "shop"}}, {ID: store}}, all)
}

// engine answers requests for containers.
func engine(t *testing.T, answer string) (socket string) {
	folder, err := os.MkdirTemp("", "engine") // paths of sockets are short
	require.NoError(t, err)
	t.Cleanup(func() { _ = os.RemoveAll(folder) })
	socket = filepath.Join(folder, "s")
	listener, err := net.Listen("unix", socket)
	require.NoError(t, err)
	server := &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/containers/json" {
			_, _ = w.Write([]byte(answer))
		}
	})}
	go func() { _ = server.Serve(listener) }()
	t.Cleanup(func() { _ = server.Close() })
	return socket
}

func TestResolve(t *testing.T) {
	all := []Container{{ID: "a1f0", Names: []string{"web"}}, {ID: "a1f1"}, {ID: "b2"}}
	for text, want := range map[string]string{"web": "a1f0", "a1f1": "a1f1", "b": "b2"} {
		id, err := resolve(all, text)
		require.NoError(t, err)
		require.Equal(t, want, id)
	}
	for text, want := range map[string]string{
		"a1": "several container IDs start with", "c": `or an ID that starts with it; names are web`, "": `the name ""`,
	} {
		_, err := resolve(all, text)
		require.ErrorContains(t, err, want)
	}
	_, err := resolve(nil, "web")
	require.ErrorContains(t, err, "Docker and Podman reported no names")
}

func TestSockets(t *testing.T) {
	require.Equal(t, []string{"/mine.sock"}, sockets("unix:///mine.sock"))
	require.Equal(t, sockets(""), sockets("tcp://10.0.0.1:2375"))
}
