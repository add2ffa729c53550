package integration

import (
	"crypto/rand"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"text/tabwriter"
	"time"
)

// TestGallery runs every file of testdata/gallery and prints what becomes of the
// pages of public documentation that show the same. Docker, Kubernetes and
// Pyroscope are servers on loopback; one program, which keeps busy in a cgroup that
// is named as Docker names a container's, is process, container and pod. What loads
// has to become healthy and to push profiles of the right services.
func TestGallery(t *testing.T) {
	requireRoot(t)
	files, err := os.ReadDir("testdata/gallery")
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range files {
		if !slices.ContainsFunc(gallery, func(e example) bool { return e.file == file.Name() }) {
			t.Errorf("testdata/gallery/%s is not in the table", file.Name())
		}
	}
	container := hex.EncodeToString(randomBytes(t, 32))
	busy := startInCgroup(t, "docker-"+container+".scope", exec.Command(chainProgram(t, "hwgallery"), "600"))
	environment := append(startStandIns(t, container), fmt.Sprintf("BUSY_PID=%d", busy.pid()))

	// All run at once, so that the interval between profiles passes once.
	hung := make([]*hanging, len(gallery))
	for i, e := range gallery {
		hung[i] = hang(t, e, environment)
	}
	results := make([]string, len(gallery))
	for i, e := range gallery {
		results[i] = "failed"
		t.Run(e.file, func(t *testing.T) { results[i] = hung[i].look(t) })
	}
	var table strings.Builder
	w := tabwriter.NewWriter(&table, 0, 0, 2, ' ', 0)
	for i, e := range gallery {
		for _, p := range e.pages {
			fmt.Fprintf(w, "%s\t%s to %s\t%s\t#%d\t%s\t%s\n", p.project, p.from, p.to, p.path, p.number, e.file, results[i])
		}
		if len(e.pages) == 0 {
			fmt.Fprintf(w, "\t\t\t\t%s\t%s\n", e.file, results[i])
		}
	}
	w.Flush()
	t.Logf("%d examples on the pages of three projects, by %d files:\n%s", countPages(), len(gallery), table.String())
}

func countPages() int {
	n := 0
	for _, e := range gallery {
		n += len(e.pages)
	}
	return n
}

func randomBytes(t testing.TB, n int) []byte {
	t.Helper()
	b := make([]byte, n)
	if _, err := rand.Read(b); err != nil {
		t.Fatal(err)
	}
	return b
}

// TestListedArguments demands that every argument that a page lists is given in the
// gallery.
func TestListedArguments(t *testing.T) {
	for _, l := range listed {
		text := readFile(t, filepath.Join("testdata/gallery", l.file))
		for _, name := range l.arguments {
			if !regexp.MustCompile(`(?m)^\t` + name + ` += `).MatchString(text) {
				t.Errorf("%s does not give %s, which the page of %s %s lists", l.file, name, l.project, l.since)
			}
		}
	}
}

// hanging is an example that runs.
type hanging struct {
	example
	*headwater
	pushed *pushed
}

func hang(t testing.TB, e example, environment []string) *hanging {
	t.Helper()
	pushed, url := startPushed(t)
	h := launchHeadwater(t, readFile(t, filepath.Join("testdata/gallery", e.file)), func(cmd *exec.Cmd) {
		cmd.Env = append(os.Environ(), environment...)
		cmd.Env = append(cmd.Env, "PYROSCOPE_URL="+url, "PROXY_PORT="+freePort(t))
		for _, argument := range cmd.Args {
			if address, ok := strings.CutPrefix(argument, "--server.http.listen-addr="); ok {
				cmd.Env = append(cmd.Env, "OWN_ADDRESS="+address)
			}
		}
	})
	if e.refused == nil {
		h.waitReady(t)
	}
	return &hanging{example: e, headwater: h, pushed: pushed}
}

// look waits for what the example has to do and tells it.
func (h *hanging) look(t *testing.T) string {
	if h.refused != nil {
		if code := h.wait(t, 60*time.Second); code != 1 {
			t.Errorf("the exit code is %d", code)
		}
		for _, what := range h.refused {
			if len(h.output.lines("Error: ", what)) == 0 {
				t.Errorf("the error does not say %q:\n%s", what, h.output.tail(30))
			}
		}
		return "refused: " + strings.Join(h.refused, "; ")
	}
	var n int
	var unhealthy []string
	defer func() {
		if t.Failed() {
			t.Logf("not healthy: %q\npushed: %v\n%s", unhealthy, h.pushed.services, h.output.tail(20))
		}
	}()
	eventually(t, 2*time.Minute, "all components are healthy", func() bool {
		n, unhealthy = unhealthyComponents(t, h.headwater)
		return n >= 2 && len(unhealthy) == 0
	})
	result := fmt.Sprintf("loads, %d components healthy, ", n)
	for _, service := range h.services {
		eventually(t, 2*time.Minute, "a profile of "+service+" has arrived", func() bool { return h.pushed.profiles(service) > 0 })
	}
	if h.services == nil {
		result += "nothing to profile"
	} else {
		result += "profiles of " + strings.Join(h.services, " and ") + " arrived"
	}
	if h.warns != "" {
		if len(h.output.lines("level=warn", h.warns)) == 0 {
			t.Errorf("it does not warn of %q", h.warns)
		}
		result += ", warns"
	}
	h.stop(t)
	return result
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
