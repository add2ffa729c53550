package rig

import (
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/google/pprof/profile"

	"github.com/headwater/headwater/integration/testkit"
)

// buildOnce builds the binary under test once per run, statically linked like `make build`, in a folder with this
// process's ID in its name. [Main] removes the folder.
var buildOnce = sync.OnceValues(func() (string, error) {
	binary := filepath.Join(os.TempDir(), fmt.Sprintf("headwater-test-%d", os.Getpid()), "headwater")
	cmd := exec.Command("go", "build", "-buildvcs=false", "-o", binary, ".")
	cmd.Dir = "../.."
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := cmd.CombinedOutput(); err != nil {
		return "", fmt.Errorf("go build: %w\n%s", err, out)
	}
	return binary, nil
})

// Main runs the tests of a package from its TestMain. Then it calls the cleanups of each [SharedT], and removes the
// binary that the tests have built.
func Main(m *testing.M) {
	code := m.Run()
	endShared()
	os.RemoveAll(filepath.Join(os.TempDir(), fmt.Sprintf("headwater-test-%d", os.Getpid())))
	os.Exit(code)
}

// Binary returns the path of the binary under test.
func Binary(t testing.TB) string {
	t.Helper()
	if path := os.Getenv("HEADWATER_BINARY"); path != "" {
		return path
	}
	path, err := buildOnce()
	if err != nil {
		t.Fatal(err)
	}
	return path
}

// Headwater is a running `headwater run`.
type Headwater struct {
	*Process
	Config string // path of its configuration file
	URL    string // of its HTTP server, without a slash at the end
}

// StartHeadwater runs a configuration and waits until it is ready.
func StartHeadwater(t testing.TB, config string) *Headwater {
	t.Helper()
	h := LaunchHeadwater(t, config, nil)
	h.WaitReady(t)
	return h
}

// StartPrioritized is [StartHeadwater] with the priority of [Process.Prioritize] from its start.
func StartPrioritized(t testing.TB, config string) *Headwater {
	t.Helper()
	h := LaunchHeadwater(t, config, nil)
	h.Prioritize(t)
	h.WaitReady(t)
	return h
}

// LaunchHeadwater runs a configuration. prepare, if not nil, may change the command first.
func LaunchHeadwater(t testing.TB, config string, prepare func(*exec.Cmd)) *Headwater {
	t.Helper()
	dir := t.TempDir()
	path := filepath.Join(dir, "config.river")
	WriteFile(t, path, config)
	addr := "127.0.0.1:" + FreePort(t)
	cmd := exec.Command(Binary(t), "run", "--server.http.listen-addr="+addr, "--storage.path="+filepath.Join(dir, "data"),
		path)
	if prepare != nil {
		prepare(cmd)
	}
	h := &Headwater{Process: Start(t, cmd), Config: path, URL: "http://" + addr}
	t.Cleanup(func() {
		if t.Failed() {
			t.Logf("headwater's output ends with\n%s", h.Output.Tail(40))
		}
	})
	return h
}

// WaitReady waits until the configuration is loaded. The test fails if headwater ends instead.
func (h *Headwater) WaitReady(t testing.TB) {
	t.Helper()
	testkit.Eventually(t, "headwater is ready", func() bool {
		if h.Ended() {
			t.Fatalf("headwater has ended: %v\n%s", h.Err, h.Output.Tail(40))
		}
		response, err := http.Get(h.URL + "/-/ready")
		if err != nil {
			return false
		}
		response.Body.Close()
		return response.StatusCode == http.StatusOK
	})
}

// Stop ends headwater like a user and requires a clean exit.
func (h *Headwater) Stop(t testing.TB) {
	t.Helper()
	h.Signal(t, syscall.SIGTERM)
	if code := h.Wait(t, time.Minute); code != 0 {
		t.Errorf("headwater ended with code %d after SIGTERM", code)
	}
}

// Get returns status and body of a page of headwater.
func (h *Headwater) Get(t testing.TB, path string) (int, string) {
	t.Helper()
	response, err := http.Get(h.URL + path)
	if err != nil {
		t.Fatal(err)
	}
	return ReadResponse(t, response)
}

// Reload requests that the configuration is read again.
func (h *Headwater) Reload(t testing.TB) (int, string) {
	t.Helper()
	response, err := http.Post(h.URL+"/-/reload", "", nil)
	if err != nil {
		t.Fatal(err)
	}
	return ReadResponse(t, response)
}

// HostConfig returns a configuration that profiles the whole host every two seconds and sends each profile to a server
// once, with a long timeout: a server on a busy machine may answer late. extra is added to the pyroscope.ebpf block.
func HostConfig(server, service, extra string) string {
	return fmt.Sprintf(`
pyroscope.write "server" {
	endpoint {
		url            = %q
		remote_timeout = "2m"
	}
}

pyroscope.ebpf "host" {
	forward_to       = [pyroscope.write.server.receiver]
	targets_only     = false
	default_target   = {"service_name" = %q}
	collect_interval = "2s"
	sample_rate      = 97
	%s
}
`, server, service, extra)
}

// Download returns the newest profiles of all targets from the page's pprof file. The profile is empty if there are
// none yet.
func (h *Headwater) Download(t testing.TB) *profile.Profile {
	t.Helper()
	response, err := http.Get(h.URL + PagePath + "download")
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	if response.StatusCode != http.StatusOK {
		return &profile.Profile{}
	}
	p, err := profile.Parse(response.Body)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// PagePath is the path of the page of quickstart.river's profiler.
const PagePath = "/api/v0/component/pyroscope.ebpf.host/"

// Health is what a running component says about itself.
type Health struct {
	ID, State, Message string
}

// String implements fmt.Stringer.
func (c Health) String() string { return fmt.Sprintf("%s is %s: %s", c.ID, c.State, c.Message) }

// Components returns the components of the configuration.
func (h *Headwater) Components(t testing.TB) []Health {
	t.Helper()
	_, body := h.Get(t, "/api/v0/web/components")
	var answer []struct {
		LocalID string
		Health  struct{ State, Message string }
	}
	if err := json.Unmarshal([]byte(body), &answer); err != nil {
		t.Fatalf("%v: %s", err, body)
	}
	var found []Health
	for _, c := range answer {
		found = append(found, Health{c.LocalID, c.Health.State, c.Health.Message})
	}
	return found
}

// Component returns a component; the test fails if the configuration does not contain it.
func (h *Headwater) Component(t testing.TB, id string) Health {
	t.Helper()
	all := h.Components(t)
	i := slices.IndexFunc(all, func(c Health) bool { return c.ID == id })
	if i < 0 {
		t.Fatalf("there is no component %s, but %v", id, all)
	}
	return all[i]
}

// Unhealthy returns the number of components, and the components that are not healthy.
func (h *Headwater) Unhealthy(t testing.TB) (count int, bad []Health) {
	t.Helper()
	all := h.Components(t)
	return len(all), slices.DeleteFunc(all, func(c Health) bool { return c.State == "healthy" })
}
