package integration

import (
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

// buildOnce builds the binary under test once a run. The folder is named by
// the process, for there is no test whose end is the end of all.
var buildOnce = sync.OnceValues(func() (string, error) {
	binary := filepath.Join(os.TempDir(), fmt.Sprintf("headwater-test-%d", os.Getpid()), "headwater")
	cmd := exec.Command("go", "build", "-buildvcs=false", "-o", binary, ".")
	cmd.Dir = ".."
	if out, err := cmd.CombinedOutput(); err != nil {
		return "", fmt.Errorf("go build: %w\n%s", err, out)
	}
	return binary, nil
})

// TestMain removes the binary that the tests have built.
func TestMain(m *testing.M) {
	code := m.Run()
	os.RemoveAll(filepath.Join(os.TempDir(), fmt.Sprintf("headwater-test-%d", os.Getpid())))
	os.Exit(code)
}

// headwaterBinary returns the path of the binary under test.
func headwaterBinary(t testing.TB) string {
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

// headwater is a running `headwater run`.
type headwater struct {
	*process
	config string // path of its configuration file
	url    string // of its HTTP server, without a slash at the end
}

// startHeadwater runs a configuration and waits until it is ready.
func startHeadwater(t testing.TB, config string) *headwater {
	t.Helper()
	h := launchHeadwater(t, config, nil)
	h.waitReady(t)
	return h
}

// launchHeadwater runs a configuration; prepare, if not nil, may change the
// command before.
func launchHeadwater(t testing.TB, config string, prepare func(*exec.Cmd)) *headwater {
	t.Helper()
	dir := t.TempDir()
	path := filepath.Join(dir, "config.river")
	writeFile(t, path, config)
	addr := "127.0.0.1:" + freePort(t)
	cmd := exec.Command(headwaterBinary(t), "run", "--server.http.listen-addr="+addr, "--storage.path="+filepath.Join(dir, "data"), path)
	if prepare != nil {
		prepare(cmd)
	}
	h := &headwater{process: start(t, cmd), config: path, url: "http://" + addr}
	t.Cleanup(func() {
		if t.Failed() {
			t.Logf("headwater's output ends with\n%s", h.output.tail(40))
		}
	})
	return h
}

func (h *headwater) waitReady(t testing.TB) {
	t.Helper()
	eventually(t, time.Minute, "headwater is ready", func() bool {
		if h.ended() {
			t.Fatalf("headwater has ended: %v\n%s", h.err, h.output.tail(40))
		}
		response, err := http.Get(h.url + "/-/ready")
		if err != nil {
			return false
		}
		response.Body.Close()
		return response.StatusCode == http.StatusOK
	})
}

// stop ends headwater as a user does and demands a clean exit.
func (h *headwater) stop(t testing.TB) {
	t.Helper()
	h.signal(t, syscall.SIGTERM)
	if code := h.wait(t, time.Minute); code != 0 {
		t.Errorf("headwater ended with code %d after SIGTERM", code)
	}
}

// get returns status and body of a page of headwater.
func (h *headwater) get(t testing.TB, path string) (int, string) {
	t.Helper()
	response, err := http.Get(h.url + path)
	if err != nil {
		t.Fatal(err)
	}
	return status(t, response)
}

// reload asks for the configuration to be read again.
func (h *headwater) reload(t testing.TB) (int, string) {
	t.Helper()
	response, err := http.Post(h.url+"/-/reload", "", nil)
	if err != nil {
		t.Fatal(err)
	}
	return status(t, response)
}

func status(t testing.TB, response *http.Response) (int, string) {
	t.Helper()
	defer response.Body.Close()
	body, err := io.ReadAll(response.Body)
	if err != nil {
		t.Fatalf("read %s: %v", response.Request.URL, err)
	}
	return response.StatusCode, string(body)
}

// metric returns the sum of a metric's values over the series whose labels
// hold all the given text, such as `component_id="pyroscope.ebpf.host"`.
// A metric that is not there is zero.
func (h *headwater) metric(t testing.TB, name string, labels ...string) float64 {
	t.Helper()
	_, body := h.get(t, "/metrics")
	sum := 0.0
	for line := range strings.Lines(body) {
		series, text, ok := strings.Cut(strings.TrimSpace(line), "} ")
		if !ok {
			series, text, _ = strings.Cut(strings.TrimSpace(line), " ")
		}
		metric, pairs, _ := strings.Cut(series, "{")
		if metric != name || !containsAll(pairs, labels) {
			continue
		}
		value, err := strconv.ParseFloat(text, 64)
		if err != nil {
			t.Fatalf("metric %q: %v", line, err)
		}
		sum += value
	}
	return sum
}

func containsAll(text string, parts []string) bool {
	for _, part := range parts {
		if !strings.Contains(text, part) {
			return false
		}
	}
	return true
}

// freePort returns a TCP port of loopback that nobody listens on.
func freePort(t testing.TB) string {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close()
	_, port, err := net.SplitHostPort(listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	return port
}

func writeFile(t testing.TB, path, text string) {
	t.Helper()
	if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
}

func readFile(t testing.TB, path string) string {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}
