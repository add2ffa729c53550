package river

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/grafana/river/rivertypes"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/require"

	"github.com/headwater/headwater/component"
	"github.com/headwater/headwater/component/otelcol"
	"github.com/headwater/headwater/component/remote/git"
)

// lab makes components for tests, and records their events.
type lab struct {
	mu        sync.Mutex
	events    []string
	specimens map[string]*specimen
	files     map[string]string // content of local.file
	readers   []*textFile
	spans     *spanSink
}

func newLab() *lab {
	return &lab{specimens: map[string]*specimen{}, files: map[string]string{}, spans: &spanSink{}}
}

// specimenArgs are the arguments of all test components. Behaviour selects an error.
type specimenArgs struct {
	In        string            `river:"in,attr,optional"`
	Number    int               `river:"number,attr,optional"`
	List      []string          `river:"list,attr,optional"`
	Secret    rivertypes.Secret `river:"secret,attr,optional"`
	Receivers []receiver        `river:"forward_to,attr,optional"`
	Behaviour string            `river:"behaviour,attr,optional"`
	Inner     []innerBlock      `river:"inner,block,optional"`
}

type innerBlock struct {
	Size int `river:"size,attr,optional"`
}

// Validate implements river.Validator.
func (a *specimenArgs) Validate() error {
	if a.Number < 0 {
		return &component.AttributeError{Attribute: "number", Message: fmt.Sprintf("must not be negative, got %d", a.Number)}
	}
	for _, inner := range a.Inner {
		if inner.Size > 10 {
			return &component.AttributeError{Attribute: "inner.size", Message: "must be at most 10"}
		}
	}
	if len(a.List) == 1 {
		return errors.New("list is lonely")
	}
	return nil
}

type strictArgs struct {
	In string `river:"in,attr"`
}

// warnedArgs are arguments of which one has no effect.
type warnedArgs struct {
	In     string `river:"in,attr,optional"`
	Number int    `river:"number,attr,optional"`
}

// Warnings implements component.Warner.
func (a *warnedArgs) Warnings() []*component.AttributeError {
	if a.Number == 0 {
		return nil
	}
	return []*component.AttributeError{component.NoEffect("number", "for a test")}
}

// receiver is an interface, so that River makes a capsule of it.
type receiver interface{ receive(string) }

type specimenExports struct {
	Out      string            `river:"out,attr,optional"`
	Secret   rivertypes.Secret `river:"secret,attr,optional"`
	Receiver receiver          `river:"receiver,attr,optional"`
}

type specimenDebug struct {
	Updates int `river:"updates,attr"`
}

// specimen is a component that exports its in as out.
type specimen struct {
	lab      *lab
	options  component.Options
	release  chan struct{} // closed to let a slow component stop
	finished chan struct{} // closed to let the component exit on its own

	mu      sync.Mutex
	args    specimenArgs
	updates int
	health  component.Health
}

func (l *lab) registry(t *testing.T) component.Registry {
	t.Helper()
	registry, err := component.NewRegistry(
		component.Registration{Name: "test.value", Args: specimenArgs{}, Exports: specimenExports{}, Build: l.build},
		component.Registration{Name: "test.sink", Args: specimenArgs{}, Build: l.build},
		component.Registration{Name: "pyroscope.sink", Args: specimenArgs{}, Exports: specimenExports{}, Build: l.build},
		component.Registration{Name: "test.remote", Args: specimenArgs{}, Exports: specimenExports{}, Build: l.build}.
			Answering("a web server"),
		component.Registration{Name: "test.finder", Args: specimenArgs{}, Exports: specimenExports{}, Build: l.build}.
			Asking("a cluster"),
		component.Registration{Name: "test.warner", Args: warnedArgs{},
			Build: func(o component.Options, a component.Arguments) (component.Component, error) {
				return l.build(o, specimenArgs{In: a.(warnedArgs).In, Behaviour: "export nothing"})
			}},
		component.Registration{Name: "test.absent", Args: specimenArgs{}, Exports: specimenExports{},
			Build: func(_ component.Options, a component.Arguments) (component.Component, error) {
				_, err := os.ReadFile(a.(specimenArgs).In)
				return nil, err
			}},
		component.Registration{Name: "test.strict", Args: strictArgs{}, Exports: specimenExports{},
			Build: func(o component.Options, a component.Arguments) (component.Component, error) {
				return l.build(o, specimenArgs{In: a.(strictArgs).In})
			}},
		component.Registration{Name: "local.file", Args: textFileArgs{}, Exports: textFileExports{}, Build: l.buildTextFile},
		git.Registration(),
		component.Registration{Name: "test.spans", Args: spanSinkArgs{}, Exports: otelcol.ConsumerExports{},
			Build: l.buildSpanSink},
	)
	require.NoError(t, err)
	return registry
}

func (l *lab) build(options component.Options, arguments component.Arguments) (component.Component, error) {
	args := arguments.(specimenArgs)
	s := &specimen{lab: l, options: options, release: make(chan struct{}), finished: make(chan struct{}), args: args}
	options.Registerer.MustRegister(prometheus.NewGauge(prometheus.GaugeOpts{Name: "specimen_up", Help: "Always there."}))
	switch args.Behaviour {
	case "fail to build":
		return nil, errors.New("no luck")
	case "panic in build":
		panic("build boom")
	case "build nothing":
		return nil, nil
	}
	s.health = component.Health{Health: component.HealthTypeHealthy}
	s.export()
	l.mu.Lock()
	defer l.mu.Unlock()
	l.specimens[options.ID] = s
	l.note("build", options.ID)
	return s, nil
}

func (l *lab) note(what, id string) { l.events = append(l.events, what+" "+id) }

func (l *lab) log(what, id string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.note(what, id)
}

// happened returns the events so far.
func (l *lab) happened() []string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return append([]string(nil), l.events...)
}

func (l *lab) get(id string) *specimen {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.specimens[id]
}

func (s *specimen) export() {
	switch s.args.Behaviour {
	case "export nothing":
	case "export the wrong type":
		s.options.OnStateChange(strictArgs{})
	default:
		exports := specimenExports{Out: s.args.In, Secret: s.args.Secret, Receiver: s}
		if !strings.Contains(s.options.ID, "test.sink") {
			s.options.OnStateChange(exports)
		}
	}
}

func (s *specimen) receive(string) {}

func (s *specimen) Run(ctx context.Context) error {
	s.lab.log("run", s.options.ID)
	defer s.lab.log("end", s.options.ID)
	switch s.current().Behaviour {
	case "fail":
		return errors.New("bad luck")
	case "exit":
		return nil
	case "panic":
		panic("run boom")
	}
	select {
	case <-s.finished:
		return nil
	case <-ctx.Done():
	}
	switch s.current().Behaviour {
	case "stop slowly":
		time.Sleep(50 * time.Millisecond)
	case "never stop":
		<-s.release
	}
	return nil
}

func (s *specimen) Update(arguments component.Arguments) error {
	args := arguments.(specimenArgs)
	switch args.Behaviour {
	case "fail to update":
		return errors.New("cannot")
	case "panic in update":
		panic("update boom")
	}
	s.mu.Lock()
	s.args = args
	s.updates++
	s.mu.Unlock()
	s.lab.log("update", s.options.ID)
	s.export()
	return nil
}

func (s *specimen) current() specimenArgs {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.args
}

func (s *specimen) setHealth(kind component.HealthType, message string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.health = component.Health{Health: kind, Message: message, UpdateTime: time.Now()}
}

func (s *specimen) CurrentHealth() component.Health {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.args.Behaviour == "panic in health" {
		panic("health boom")
	}
	return s.health
}

func (s *specimen) DebugInfo() interface{} {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch s.args.Behaviour {
	case "panic in debug info":
		panic("debug boom")
	case "tell debug info that is no body":
		return []string{"not a body"}
	}
	return specimenDebug{Updates: s.updates}
}

func (s *specimen) Handler() http.Handler {
	if s.current().Behaviour == "serve nothing" {
		return nil
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		fmt.Fprintf(w, "%s serves %s %q %q", s.options.ID, r.Method, r.URL.EscapedPath(), r.URL.RawQuery)
	})
}
