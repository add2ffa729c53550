package hosts

import (
	"crypto/rand"
	"encoding/hex"
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

	"github.com/headwater/headwater/integration/testkit"
	"github.com/headwater/headwater/integration/testkit/need"
	"github.com/headwater/headwater/integration/testkit/rig"
)

// TestGallery runs every file of testdata/gallery and prints the result next to the pages of
// public documentation that show the same. Docker, Kubernetes and Pyroscope are servers on
// loopback. One busy program is process, container and pod: its cgroup has a name as Docker
// gives containers. What loads has to become healthy and to push profiles of the right
// services.
//
// make nightly runs all files. make test leaves out those that say in other words what another file says.
func TestGallery(t *testing.T) {
	need.Root(t)
	t.Parallel()
	files, err := os.ReadDir("testdata/gallery")
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range files {
		if !slices.ContainsFunc(gallery, func(e example) bool { return e.file == file.Name() }) {
			t.Errorf("testdata/gallery/%s is not in the table", file.Name())
		}
	}
	gallery := gallery
	if !testkit.IsNightly() {
		gallery = slices.DeleteFunc(slices.Clone(gallery), func(e example) bool { return e.nightly })
	}
	container := hex.EncodeToString(randomBytes(t, 32))
	busy := rig.StartInCgroup(t, "docker-"+container+".scope", exec.Command(rig.ChainProgram(t, "hwgallery"), "600"))
	environment := append(startStandIns(t, container), fmt.Sprintf("BUSY_PID=%d", busy.PID()))

	// All run at once, so that the interval between profiles passes once.
	hung := make([]*hanging, len(gallery))
	for i, e := range gallery {
		hung[i] = hang(t, e, environment)
	}
	for _, h := range hung {
		if h.refused == nil {
			h.WaitReady(t)
		}
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
	t.Logf("%d examples on the pages of three projects, by %d files:\n%s", countPages(gallery), len(gallery), &table)
}

func countPages(gallery []example) int {
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
		text := rig.ReadFile(t, filepath.Join("testdata/gallery", l.file))
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
	*rig.Headwater
	received *rig.Receiver
}

func hang(t testing.TB, e example, environment []string) *hanging {
	t.Helper()
	received := rig.StartReceiver(t)
	h := rig.LaunchHeadwater(t, rig.ReadFile(t, filepath.Join("testdata/gallery", e.file)), func(cmd *exec.Cmd) {
		cmd.Env = append(os.Environ(), environment...)
		cmd.Env = append(cmd.Env, "PYROSCOPE_URL="+received.URL, "PROXY_PORT="+rig.FreePort(t))
		for _, argument := range cmd.Args {
			if address, ok := strings.CutPrefix(argument, "--server.http.listen-addr="); ok {
				cmd.Env = append(cmd.Env, "OWN_ADDRESS="+address)
			}
		}
	})
	return &hanging{example: e, Headwater: h, received: received}
}

// look waits until the example has done its work, and returns a description of it.
func (h *hanging) look(t *testing.T) string {
	if h.refused != nil {
		if code := h.Wait(t, 2*time.Minute); code != 1 {
			t.Errorf("the exit code is %d", code)
		}
		for _, what := range h.refused {
			if len(h.Output.Lines("Error: ", what)) == 0 {
				t.Errorf("the error does not say %q:\n%s", what, h.Output.Tail(30))
			}
		}
		return "refused: " + strings.Join(h.refused, "; ")
	}
	var n int
	var unhealthy []rig.Health
	defer func() {
		if t.Failed() {
			t.Logf("not healthy: %v\npushed: %v\n%s", unhealthy, h.received.Counts(), h.Output.Tail(20))
		}
	}()
	testkit.Eventually(t, "all components are healthy", func() bool {
		n, unhealthy = h.Unhealthy(t)
		unhealthy = slices.DeleteFunc(unhealthy, func(c rig.Health) bool {
			return h.unhealthy != "" && strings.Contains(c.Message, h.unhealthy)
		})
		return n >= 2 && len(unhealthy) == 0
	})

	result := fmt.Sprintf("loads, %d components healthy, ", n)
	for _, service := range h.services {
		testkit.Eventually(t, "a profile of "+service+" has arrived",
			func() bool { return len(h.received.Profiles(service)) > 0 })
	}
	if h.services == nil {
		result += "nothing to profile"
	} else {
		result += "profiles of " + strings.Join(h.services, " and ") + " arrived"
	}
	if h.warns != "" {
		testkit.Eventually(t, fmt.Sprintf("it warns of %q", h.warns),
			func() bool { return len(h.Output.Lines("level=warn", h.warns)) > 0 })
		result += ", warns"
	}
	h.Stop(t)
	return result
}
