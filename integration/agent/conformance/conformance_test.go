// Package conformance runs the configurations in integration/conformance in the flow runtime of Grafana Agent v0.40.
package conformance

import (
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"
	agent "github.com/grafana/agent/component"
	_ "github.com/grafana/agent/component/module/file"
	_ "github.com/grafana/agent/component/module/string"
	"github.com/grafana/agent/pkg/flow"
	"github.com/grafana/agent/pkg/flow/logging"
	"github.com/grafana/river/encoding/riverjson"

	"github.com/headwater/headwater/integration/agent/adapter"
	"github.com/headwater/headwater/integration/conformance"
)

var update = flag.Bool("update", false, "write the Agent's answers again")

const tables = "../../conformance/testdata"

// TestAgent runs every table in the real Agent's runtime and checks that the
// .expect files hold its answers.
func TestAgent(t *testing.T) {
	for _, r := range conformance.Registrations() {
		agent.Register(adapter.Registration(r, nil, nil))
	}
	names, err := conformance.Tables(tables)
	if err != nil {
		t.Fatal(err)
	}
	total := 0
	for _, name := range names {
		base := filepath.Join(tables, name)
		cases, err := conformance.ReadCases(base + ".cases")
		if err != nil {
			t.Fatal(err)
		}
		total += len(cases)
		expected := map[string]string{}
		if !*update {
			if expected, err = conformance.ReadAnswers(base + ".expect"); err != nil {
				t.Fatal(err)
			}
		}
		answers := askAll(t, name, cases, expected)
		if *update {
			if err := conformance.WriteAnswers(base+".expect", cases, answers); err != nil {
				t.Fatal(err)
			}
		}
	}
	t.Logf("%d cases in %d tables", total, len(names))
}

// askAll runs cases at the same time and returns the answers.
func askAll(t *testing.T, table string, cases []conformance.Case, expected map[string]string) map[string]string {
	answers := make([]string, len(cases))
	t.Run(table, func(t *testing.T) {
		for i, c := range cases {
			t.Run(c.Name, func(t *testing.T) {
				t.Parallel()
				answers[i] = conformance.Answer(t, newHost(t), c, expected[c.Name])
				if diff := cmp.Diff(expected[c.Name], answers[i]); diff != "" && !*update {
					t.Errorf("-expected +Agent:\n%s", diff)
				}
			})
		}
	})
	byName := make(map[string]string, len(cases))
	for i, c := range cases {
		byName[c.Name] = answers[i]
	}
	return byName
}

// host is the Agent's runtime as a conformance.Host.
type host struct{ *flow.Flow }

func newHost(t *testing.T) host {
	t.Helper()
	logger, err := logging.New(io.Discard, logging.DefaultOptions)
	if err != nil {
		t.Fatal(err)
	}
	h := host{flow.New(flow.Options{Logger: logger, DataPath: t.TempDir()})}
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

// Load implements conformance.Host. Some configurations make the Agent panic.
func (h host) Load(name, text string) (err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("the Agent panics: %v", p)
		}
	}()
	source, err := flow.ParseSource(name, []byte(text))
	if err != nil {
		return err
	}
	return h.LoadSource(source, nil)
}

// Components implements conformance.Host.
func (h host) Components() ([]conformance.Component, error) {
	if !h.Ready() {
		return nil, nil
	}
	var components []conformance.Component
	for _, info := range agent.GetAllComponents(h.Flow,
		agent.InfoOptions{GetHealth: true, GetArguments: true, GetExports: true}) {
		components = append(components, conformance.Component{
			ID:        info.ID.String(),
			Health:    info.Health.Health.String(),
			Arguments: encode(info.Arguments),
			Exports:   encode(info.Exports),
		})
	}
	return components, nil
}

// encode returns a body in River's JSON. Values that JSON lacks, such as infinity,
// make it empty, as they do in our runtime.
func encode(body any) json.RawMessage {
	encoded, err := riverjson.MarshalBody(body)
	if err != nil {
		return nil
	}
	return encoded
}
