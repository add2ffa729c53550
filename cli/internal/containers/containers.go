// Package containers finds containers by the names that users give them. It asks the engines with Docker's API: Docker
// and Podman.
package containers

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/headwater/headwater/ebpf/host/procfs"
	"github.com/headwater/headwater/ebpf/process/target"
)

const (
	patience  = 2 * time.Second // time limit for an engine
	maxAnswer = 32 << 20
)

// Container is a container with a process on this host.
type Container struct {
	ID    string
	Names []string // none if no engine names it
}

// Running lists the containers that have processes, sorted by ID. The names come from the engines that answer on the
// usual sockets, or on the socket in DOCKER_HOST.
func Running(ctx context.Context) ([]Container, error) {
	return running(ctx, procfs.Default, sockets(os.Getenv("DOCKER_HOST")))
}

// Resolve returns the ID of the running container that text identifies: by the start of its ID, or by one of its names.
func Resolve(ctx context.Context, text string) (id string, err error) {
	all, err := Running(ctx)
	if err != nil {
		return "", err
	}
	return resolve(all, text)
}

func resolve(all []Container, text string) (string, error) {
	var named []string
	for _, c := range all {
		if slices.Contains(c.Names, text) {
			return c.ID, nil
		}
		named = append(named, c.Names...)
	}
	begins := func(c Container) bool { return strings.HasPrefix(c.ID, text) }
	switch at := slices.IndexFunc(all, begins); {
	case text != "" && at >= 0 && slices.IndexFunc(all[at+1:], begins) >= 0:
		return "", fmt.Errorf("several container IDs start with %q: use a longer prefix", text)
	case text != "" && at >= 0:
		return all[at].ID, nil
	case len(named) > 0:
		return "", fmt.Errorf("no running container has the name %q or an ID that starts with it; names are %s", text,
			strings.Join(named, ", "))
	}
	return "", fmt.Errorf("no running container has an ID that starts with %q; Docker and Podman reported no names", text)
}

func running(ctx context.Context, fs procfs.FS, sockets []string) ([]Container, error) {
	pids, err := fs.PIDs()
	if err != nil {
		return nil, err
	}
	found := map[string]*Container{}
	var all []Container
	for _, pid := range pids {
		lines, err := fs.Cgroup(pid)
		if err != nil {
			continue // it has ended
		}
		if id := target.ContainerIDFromCgroup(lines); id != "" && found[id] == nil {
			found[id] = &Container{ID: id}
		}
	}
	if len(found) > 0 {
		for _, socket := range sockets {
			addNames(ctx, socket, found)
		}
	}
	for _, c := range found {
		all = append(all, *c)
	}
	slices.SortFunc(all, func(a, b Container) int { return strings.Compare(a.ID, b.ID) })
	return all, nil
}

// sockets returns the paths of the engines' sockets.
func sockets(dockerHost string) []string {
	if path, ok := strings.CutPrefix(dockerHost, "unix://"); ok {
		return []string{path}
	}
	return []string{"/var/run/docker.sock", "/run/podman/podman.sock"}
}

// addNames adds the names that an engine knows, if the engine answers.
func addNames(ctx context.Context, socket string, to map[string]*Container) {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	transport := &http.Transport{DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
		return (&net.Dialer{}).DialContext(ctx, "unix", socket)
	}}
	defer transport.CloseIdleConnections()
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://engine/containers/json", nil)
	if err != nil {
		return
	}
	answer, err := transport.RoundTrip(request)
	if err != nil {
		return // no such engine, or no permission
	}
	defer answer.Body.Close()
	var listed []struct {
		ID    string `json:"Id"`
		Names []string
	}
	if json.NewDecoder(io.LimitReader(answer.Body, maxAnswer)).Decode(&listed) != nil {
		return
	}
	for _, l := range listed {
		if c := to[l.ID]; c != nil {
			for _, name := range l.Names {
				c.Names = append(c.Names, strings.TrimPrefix(name, "/"))
			}
		}
	}
}
