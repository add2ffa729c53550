package conformance

import (
	"context"
	"flag"
	"io"
	"path"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/headwater/headwater/component"
	localfile "github.com/headwater/headwater/component/local/file"
	"github.com/headwater/headwater/river"
)

var update = flag.Bool("update", false, "write the answers of the .differs files again")

// TestConformance runs every table in our runtime and compares its answers with Grafana Agent v0.40's, or, if there is
// a reason to differ, with the answers in the .differs file.
func TestConformance(t *testing.T) {
	names, err := Tables("testdata")
	if err != nil {
		t.Fatal(err)
	}
	cases, differ := 0, 0
	for _, name := range names {
		table := readTable(t, filepath.Join("testdata", name))
		cases += len(table.cases)
		differ += len(table.differences)
		t.Run(name, table.run)
		if *update && len(table.differences) > 0 {
			if err := WriteDifferences(table.path+".differs", table.cases, table.differences); err != nil {
				t.Fatal(err)
			}
		}
	}
	t.Logf("%d cases in %d tables: %d answered as Grafana Agent v0.40 does, %d differ for the reasons given",
		cases, len(names), cases-differ, differ)
}

type table struct {
	path        string // without extension
	cases       []Case
	agent       map[string]string
	mu          sync.Mutex
	differences map[string]Difference
}

func readTable(t *testing.T, path string) *table {
	t.Helper()
	table := &table{path: path}
	var err error
	if table.cases, err = ReadCases(path + ".cases"); err != nil {
		t.Fatal(err)
	}
	if table.agent, err = ReadAnswers(path + ".expect"); err != nil {
		t.Fatal(err)
	}
	if table.differences, err = ReadDifferences(path + ".differs"); err != nil {
		t.Fatal(err)
	}
	known := map[string]bool{}
	for _, c := range table.cases {
		known[c.Name] = true
		answer, ok := table.agent[c.Name]
		switch difference, differs := table.differences[c.Name]; {
		case !ok:
			t.Errorf("%s.expect: no answer to case %q: make -C integration agent-test UPDATE=1 writes it", path, c.Name)
		case differs && difference.Answer == answer:
			t.Errorf("%s.differs: case %q does not differ", path, c.Name)
		}
	}
	for name := range table.differences {
		if !known[name] {
			t.Errorf("%s.differs: there is no case %q", path, name)
		}
	}
	return table
}

// run runs the cases at the same time.
func (table *table) run(t *testing.T) {
	for _, c := range table.cases {
		t.Run(c.Name, func(t *testing.T) {
			t.Parallel()
			table.mu.Lock()
			difference, differs := table.differences[c.Name]
			table.mu.Unlock()
			want := table.agent[c.Name]
			switch {
			case differs && *update:
				want = ""
			case differs:
				want = difference.Answer
			}
			got := Answer(t, newHost(t), c, want)
			if differs && *update {
				difference.Answer = got
				table.mu.Lock()
				table.differences[c.Name] = difference
				table.mu.Unlock()
				return
			}
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("-want +got:\n%s", diff)
			}
		})
	}
}

// host is our runtime as a Host.
type host struct{ *river.Runtime }

func newHost(t testing.TB) host {
	t.Helper()
	registry, err := component.NewRegistry(append(Registrations(), localfile.Registration())...)
	if err != nil {
		t.Fatal(err)
	}
	h := host{river.New(river.Options{
		Registry:    registry,
		Logger:      river.NewLogger(io.Discard),
		DataPath:    t.TempDir(),
		StopTimeout: 2 * time.Second,
	})}
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		h.Run(ctx)
	}()
	t.Cleanup(func() {
		cancel()
		<-ended
	})
	return h
}

// Load implements Host.
func (h host) Load(name, text string) error {
	source, err := river.Parse(map[string][]byte{name: []byte(text)})
	if err != nil {
		return err
	}
	return h.Runtime.Load(source)
}

// Components implements Host.
func (h host) Components() ([]Component, error) { return h.inModule(""), nil }

func (h host) inModule(module string) []Component {
	var components []Component
	infos, _ := h.ModuleComponents(module) // none if it is gone
	for _, info := range infos {
		id := path.Join(module, info.LocalID)
		info, found := h.Component(id)
		if !found { // unloaded since
			continue
		}
		components = append(components, Component{ID: id, Health: info.Health.State, Arguments: info.Arguments,
			Exports: info.Exports})
		for _, inner := range info.CreatedModuleIDs {
			components = append(components, h.inModule(inner)...)
		}
	}
	return components
}
