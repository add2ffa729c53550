package ebpf_test

import (
	"fmt"
	"io"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/headwater/headwater/ebpf"
	"github.com/headwater/headwater/integration/testkit"
	"github.com/headwater/headwater/integration/testkit/need"
)

// A session profiles the whole host until Close. It needs root, or the capabilities that
// the error names.
func ExampleStart() {
	options := ebpf.Options{}
	options.DefaultTarget = map[string]string{"service_name": "host"}
	session, err := ebpf.Start(options)
	if err != nil {
		fmt.Println(err)
		return
	}
	defer session.Close()

	time.Sleep(time.Second) // an agent collects every 15 s
	profiles, err := session.Collect()
	if err != nil {
		fmt.Println(err)
		return
	}
	for _, p := range profiles {
		fmt.Printf("%s: %d samples, %d of %d user stacks complete\n",
			p.Labels["service_name"], p.Samples, p.Complete, p.WithUser)
	}
}

// TestExampleStart runs the example, which cannot have an "Output" comment: it needs root,
// and no two profiles are equal.
func TestExampleStart(t *testing.T) {
	need.Root(t)
	testkit.Spin(t) // on an idle machine there may be nothing to show
	out := printed(t, ExampleStart)
	var samples, complete, withUser int
	_, err := fmt.Sscanf(out, "host: %d samples, %d of %d user stacks complete\n", &samples, &complete, &withUser)
	if err != nil || strings.Count(out, "\n") != 1 || samples < withUser || withUser < complete {
		t.Errorf("the example printed %q: %v", out, err)
	}
}

// printed returns what f prints, a few lines.
func printed(t *testing.T, f func()) string {
	t.Helper()
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	stdout := os.Stdout
	os.Stdout = w
	f()
	os.Stdout = stdout
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	out, err := io.ReadAll(r)
	if err != nil {
		t.Fatal(err)
	}
	return string(out)
}
