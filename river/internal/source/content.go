package source

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
	"go.opentelemetry.io/otel/trace"

	"github.com/headwater/headwater/component"
	"github.com/headwater/headwater/component/common/mailbox"
)

// contentComponents are the components that read River text and export it as content, by kind: the
// second word of import.* and module.* blocks.
var contentComponents = map[string]string{
	"file": "local.file",
	"http": "remote.http",
	"git":  "remote.git",
}

// KindString is the kind of text that is in the block itself and needs no component.
const KindString = "string"

// IsKind reports whether import.* and module.* blocks may have that second word.
func IsKind(kind string) bool { return kind == KindString || contentComponents[kind] != "" }

// Content gets River text from a source and watches it for newer text. Its methods are safe for
// concurrent use, but calls of Evaluate must not overlap.
type Content struct {
	kind         string
	making       string                 // word for the creation of the component in errors
	registration component.Registration // component that reads the text; zero for a string
	offline      bool
	options      component.Options
	changed      *mailbox.Mailbox[struct{}]

	mu      sync.Mutex
	managed component.Component // nil until the first successful evaluation, and for a string
	args    interface{}
	texts   map[string]string // of the files of a folder, by name; of one text, by ""
	folder  string            // of the texts, if the component exports it
}

// ContentOptions describe the source of the text of an import.* or module.* block.
type ContentOptions struct {
	Kind     string // the second word of the block's name
	ID       string // ID of the block, unique in the process
	Making   string // word for the creation of the component that reads the text, in errors
	Registry component.Registry
	Logger   log.Logger
	DataPath string // folder in which each component gets its own folder
	Tracer   trace.TracerProvider
	Offline  bool // ask no other machine: Evaluate then returns an *UnseenError
	Folders  bool // the source may be a folder
}

// NewContent returns the content of an import.* or module.* block. It fails if the
// registry lacks the component that reads the text.
func NewContent(o ContentOptions) (*Content, error) {
	c := &Content{kind: o.Kind, making: o.Making, changed: mailbox.New[struct{}]()}
	if o.Kind == KindString {
		return c, nil
	}
	registration, found := o.Registry.Get(contentComponents[o.Kind])
	if !found {
		return nil, fmt.Errorf("needs the component %s, which this program does not have", contentComponents[o.Kind])
	}
	c.registration, c.offline = registration, o.Offline
	c.options = component.Options{
		ID:            o.ID,
		Logger:        log.With(o.Logger, "component", o.ID),
		DataPath:      filepath.Join(o.DataPath, o.ID),
		OnStateChange: c.setExports,
		Registerer:    prometheus.WrapRegistererWith(prometheus.Labels{"component_id": o.ID}, prometheus.NewRegistry()),
		Tracer:        o.Tracer,
		Folders:       o.Folders,
	}
	return c, nil
}

type stringArguments struct {
	Content rivertypes.OptionalSecret `river:"content,attr"`
}

// Evaluate decodes body and gets the text once, so that Text returns it. decode evaluates a body in
// the scope of the block.
func (c *Content) Evaluate(body ast.Body, decode func(ast.Body, interface{}) error) error {
	if c.kind == KindString {
		var args stringArguments
		if err := decode(body, &args); err != nil {
			return err
		}
		c.mu.Lock()
		defer c.mu.Unlock()
		c.texts, c.args = map[string]string{"": args.Content.Value}, args
		return nil
	}
	pointer := c.registration.NewArguments()
	if err := decode(body, pointer); err != nil {
		return err
	}
	args := reflect.ValueOf(pointer).Elem().Interface()
	managed, previous := c.Component(), c.Arguments()
	switch {
	case c.offline && c.registration.Asks != "":
		return &UnseenError{Reason: "asks " + c.registration.Asks}
	case managed == nil:
		built, err := c.registration.Build(c.options, args)
		if err != nil {
			return fmt.Errorf("%s component: %w", c.making, err)
		}
		managed = built
	case reflect.DeepEqual(previous, args):
		return nil
	default:
		if err := managed.Update(args); err != nil {
			return fmt.Errorf("updating component: %w", err)
		}
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.managed, c.args = managed, args
	return nil
}

// setExports is the OnStateChange callback of the component that reads the text.
func (c *Content) setExports(e component.Exports) {
	folder, ok := e.(component.Texts)
	if !ok {
		field := reflect.ValueOf(e).FieldByName("Content")
		content, ok := field.Interface().(rivertypes.OptionalSecret)
		if !ok {
			panic(fmt.Sprintf("%T does not export content", e))
		}
		folder.ByName = map[string]string{"": content.Value}
	}
	c.mu.Lock()
	c.texts, c.folder = folder.ByName, folder.Folder
	c.mu.Unlock()
	c.changed.Send(struct{}{})
}

// Run keeps the text up to date until ctx is done. It panics if the component that reads the text
// panics.
func (c *Content) Run(ctx context.Context) error {
	managed := c.Component()
	if managed == nil {
		<-ctx.Done()
		return nil
	}
	err := managed.Run(ctx)
	if err == nil && ctx.Err() == nil {
		err = errors.New("ended by itself")
	}
	return err
}

// Changed returns a channel that gets a token when there may be new text.
func (c *Content) Changed() <-chan struct{} { return c.changed.Receive() }

// Text returns the newest text of a source that is no folder.
func (c *Content) Text() string { return c.Texts()[""] }

// Texts returns the newest text of each file of a folder, by the file's name, or the only text, by the name "". The map
// is replaced, never changed.
func (c *Content) Texts() map[string]string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.texts
}

// isFolder reports whether the texts are the files of a folder.
func (c *Content) isFolder() bool {
	_, single := c.Texts()[""]
	return !single
}

// Folder returns the folder of the text: the folder of a file, or the URL without its last part and
// without credentials. For a Git repository it is the folder of a copy of its files, if a text uses
// module_path. For a string it returns "".
func (c *Content) Folder() string {
	switch c.kind {
	case "file":
		name := reflect.ValueOf(c.Arguments()).FieldByName("Filename").String()
		if c.isFolder() {
			return filepath.Clean(name)
		}
		return filepath.Dir(name)
	case "http":
		address, err := url.Parse(fmt.Sprint(reflect.ValueOf(c.Arguments()).FieldByName("URL").Interface()))
		if err != nil {
			return ""
		}
		address.User, address.RawQuery, address.Fragment = nil, "", "" // may be secrets
		return address.JoinPath("..").String()
	default:
		c.mu.Lock()
		defer c.mu.Unlock()
		return c.folder
	}
}

// Component returns the component that reads the text, or nil before the first successful Evaluate,
// and for a string.
func (c *Content) Component() component.Component {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.managed
}

// Arguments returns the arguments for the source of the text, or nil before the first successful
// Evaluate.
func (c *Content) Arguments() interface{} {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.args
}

// Worst returns the worse of health and the health of the component that reads the text.
func (c *Content) Worst(health component.Health) component.Health {
	if reporter, ok := c.Component().(component.HealthComponent); ok {
		return component.LeastHealthy(health, reporter.CurrentHealth())
	}
	return health
}
