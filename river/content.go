package river

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"path/filepath"
	"reflect"
	"sync"

	"github.com/go-kit/log"
	"github.com/grafana/river/ast"
	"github.com/grafana/river/rivertypes"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/headwater/headwater/component"
)

// The kinds of places that River text is loaded from: the second word of import.*
// and module.* blocks. All but a string are read by a component that exports the
// text as content.
var contentComponents = map[string]string{
	"file": "local.file",
	"http": "remote.http",
	"git":  "remote.git",
}

const stringContent = "string"

// contentSource gets River text from somewhere and keeps looking for a newer one.
type contentSource struct {
	kind         string
	making       string                 // what errors call the making of the component
	registration component.Registration // of the component that reads the text; zero for a string
	options      component.Options
	metrics      *prometheus.Registry
	changed      chan struct{} // token: there may be a new text

	mu      sync.Mutex
	managed component.Component // nil until the first successful evaluation, and for a string
	args    interface{}
	text    string
}

// newContentSource returns the source of an import.* or module.* block of that
// kind. It fails if this build lacks the component that reads the text.
func newContentSource(m *module, kind, globalID string) (*contentSource, error) {
	s := &contentSource{kind: kind, making: "building", changed: make(chan struct{}, 1), metrics: prometheus.NewRegistry()}
	if kind == stringContent {
		return s, nil
	}
	registration, found := m.r.options.Registry.Get(contentComponents[kind])
	if !found {
		return nil, fmt.Errorf("needs the component %s, which this program does not have", contentComponents[kind])
	}
	s.registration = registration
	s.options = component.Options{
		ID:            globalID,
		Logger:        log.With(m.r.options.Logger, "component", globalID),
		DataPath:      filepath.Join(m.r.options.DataPath, globalID),
		OnStateChange: s.setExports,
		Registerer:    prometheus.WrapRegistererWith(prometheus.Labels{"component_id": globalID}, s.metrics),
		Tracer:        m.r.tracing,
	}
	return s, nil
}

type stringArguments struct {
	Content rivertypes.OptionalSecret `river:"content,attr"`
}

// evaluate decodes body and gets the text once, so that content has it. decode
// evaluates a body in the scope of the block.
func (s *contentSource) evaluate(body ast.Body, decode func(ast.Body, interface{}) error) error {
	if s.kind == stringContent {
		var args stringArguments
		if err := decode(body, &args); err != nil {
			return err
		}
		s.mu.Lock()
		defer s.mu.Unlock()
		s.text, s.args = args.Content.Value, args
		return nil
	}
	pointer := s.registration.NewArguments()
	if err := decode(body, pointer); err != nil {
		return err
	}
	args := reflect.ValueOf(pointer).Elem().Interface()
	managed, previous := s.component(), s.arguments()
	switch {
	case managed == nil:
		built, err := s.registration.Build(s.options, args)
		if err != nil {
			return fmt.Errorf("%s component: %w", s.making, err)
		}
		managed = built
	case reflect.DeepEqual(previous, args):
		return nil
	default:
		if err := managed.Update(args); err != nil {
			return fmt.Errorf("updating component: %w", err)
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.managed, s.args = managed, args
	return nil
}

// setExports is the OnStateChange of the component that reads the text.
func (s *contentSource) setExports(e component.Exports) {
	field := reflect.ValueOf(e).FieldByName("Content")
	content, ok := field.Interface().(rivertypes.OptionalSecret)
	if !ok {
		panic(fmt.Sprintf("%T does not export content", e))
	}
	s.mu.Lock()
	s.text = content.Value
	s.mu.Unlock()
	wake(s.changed)
}

// run keeps the text up to date until ctx is done.
func (s *contentSource) run(ctx context.Context) error {
	managed := s.component()
	if managed == nil {
		<-ctx.Done()
		return nil
	}
	err := protect(func() error { return managed.Run(ctx) })
	if err == nil && ctx.Err() == nil {
		err = errors.New("ended by itself")
	}
	return err
}

func (s *contentSource) content() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.text
}

// folder returns where the text is read: the folder of a file, or the URL
// without its last part and without credentials. A file in a Git repository is in no folder of this machine.
func (s *contentSource) folder() string {
	switch s.kind {
	case "file":
		return filepath.Dir(reflect.ValueOf(s.arguments()).FieldByName("Filename").String())
	case "http":
		address, err := url.Parse(fmt.Sprint(reflect.ValueOf(s.arguments()).FieldByName("URL").Interface()))
		if err != nil {
			return ""
		}
		address.User, address.RawQuery, address.Fragment = nil, "", "" // may be secrets
		return address.JoinPath("..").String()
	default:
		return ""
	}
}

func (s *contentSource) component() component.Component {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.managed
}

func (s *contentSource) arguments() interface{} {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.args
}

// worst returns the worse of health and what the reading component says.
func (s *contentSource) worst(health component.Health) component.Health {
	if reporter, ok := s.component().(component.HealthComponent); ok {
		return component.LeastHealthy(health, reporter.CurrentHealth())
	}
	return health
}
