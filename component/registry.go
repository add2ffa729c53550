package component

import (
	"errors"
	"fmt"
	"path"
	"reflect"
	"sort"
	"strings"

	"github.com/go-kit/log"
	"github.com/grafana/river/scanner"
	"github.com/prometheus/client_golang/prometheus"
	"go.opentelemetry.io/otel/trace"
)

// Options are the values that a component gets from its host.
type Options struct {
	// ID is the component's name in the configuration with its label, such as
	// pyroscope.ebpf.instance. It is unique in the process.
	ID string

	// Logger adds the component's ID to every line.
	Logger log.Logger

	// DataPath is a directory for this component only. It need not exist.
	DataPath string

	// OnStateChange publishes new exports. It may be called from Build, Run and
	// Update, from any goroutine, and does not block. A component whose
	// Registration has no Exports must not call it.
	OnStateChange func(e Exports)

	// Registerer registers the component's metrics, which are collected with a component_id label while the component
	// is loaded.
	Registerer prometheus.Registerer

	// Tracer receives the component's spans. If it is nil, no spans are recorded.
	Tracer trace.TracerProvider

	// Folders is set for the component that reads the text of an import block. If its path names a folder, it exports
	// the configuration files in the folder as Texts.
	Folders bool
}

// Texts are the exports of a component that reads a folder, see Options.Folders.
type Texts struct {
	ByName map[string]string // the text of each file, by the file's name in the folder; of a single text, by ""
	Folder string            // the folder of the files on this machine, if the arguments do not say it
}

// IsConfigFile reports whether a file with that name is a configuration file in a folder of configuration files.
func IsConfigFile(name string) bool { return path.Ext(name) == ".river" || path.Ext(name) == ".alloy" }

// Registration names a kind of component and says how to build it.
type Registration struct {
	// Name is the component's name in River, such as pyroscope.ebpf.
	Name string

	// Args is a zero value (not a pointer) of the struct that River decodes.
	Args Arguments

	// Exports is a zero value (not a pointer) of the struct that the component
	// exports, or nil if it has no exports.
	Exports Exports

	// Build makes a component. args has the type of Args.
	Build func(opts Options, args Arguments) (Component, error)

	// Asks names what Build or Run asks outside of this machine's files, such as "a web server". A host that checks a
	// configuration without a network does not build such a component. It is "" if there is nothing.
	Asks string

	// Answers says that Build asks and exports the answer. Otherwise Exports is what other blocks see at first.
	Answers bool
}

// Asking returns r with Asks set to what.
func (r Registration) Asking(what string) Registration {
	r.Asks = what
	return r
}

// Answering returns r with Asks set to what, and with Answers set.
func (r Registration) Answering(what string) Registration {
	r.Asks, r.Answers = what, true
	return r
}

// NewRegistration returns a registration whose Build calls build with arguments of type A. exports is the same as in
// Registration.
func NewRegistration[A any, C Component](name string, exports Exports, build func(Options, A) (C, error)) Registration {
	var none A
	return Registration{
		Name:    name,
		Args:    none,
		Exports: exports,
		Build: func(opts Options, args Arguments) (Component, error) {
			c, err := build(opts, args.(A))
			if err != nil {
				return nil, err
			}
			return c, nil
		},
	}
}

// NewArguments returns a pointer to a new zero value of the type of r.Args.
func (r Registration) NewArguments() interface{} {
	return reflect.New(reflect.TypeOf(r.Args)).Interface()
}

func (r Registration) check() error {
	for _, word := range strings.Split(r.Name, ".") {
		if !scanner.IsValidIdentifier(word) {
			return fmt.Errorf("component name %q is not made of identifiers", r.Name)
		}
	}
	if r.Args == nil || reflect.TypeOf(r.Args).Kind() != reflect.Struct {
		return fmt.Errorf("component %q: arguments are a %T, not a struct", r.Name, r.Args)
	}
	if r.Exports != nil && reflect.TypeOf(r.Exports).Kind() != reflect.Struct {
		return fmt.Errorf("component %q: exports are a %T, not a struct", r.Name, r.Exports)
	}
	if r.Build == nil {
		return fmt.Errorf("component %q has no Build function", r.Name)
	}
	return nil
}

// Registry is a set of registrations. It never changes after NewRegistry, so it is safe for concurrent use. The zero
// value is empty.
type Registry struct {
	byName map[string]Registration
}

// NewRegistry returns a registry of regs. It refuses an incomplete registration, a duplicate name, and a name that
// starts with all the words of another name (a.b and a.b.c): a reference such as a.b.c.d could mean either.
func NewRegistry(regs ...Registration) (Registry, error) {
	registry := Registry{byName: make(map[string]Registration, len(regs))}
	var errs []error
	for _, r := range regs {
		if err := r.check(); err != nil {
			errs = append(errs, err)
			continue
		}
		if err := registry.checkName(r.Name); err != nil {
			errs = append(errs, err)
			continue
		}
		registry.byName[r.Name] = r
	}
	return registry, errors.Join(errs...)
}

func (r Registry) checkName(name string) error {
	if _, taken := r.byName[name]; taken {
		return fmt.Errorf("component name %q is registered twice", name)
	}
	for other := range r.byName {
		if strings.HasPrefix(other, name+".") || strings.HasPrefix(name, other+".") {
			return fmt.Errorf("component names %q and %q collide: one starts with the other", name, other)
		}
	}
	return nil
}

// Get returns the registration with that name.
func (r Registry) Get(name string) (Registration, bool) {
	reg, found := r.byName[name]
	return reg, found
}

// Names returns the names of all registrations in alphabetical order.
func (r Registry) Names() []string {
	names := make([]string, 0, len(r.byName))
	for name := range r.byName {
		names = append(names, name)
	}
	sort.Strings(names)
	return names
}

// Registered registers c and returns it. If a component of the same host has registered an equal collector before, it
// returns that collector. If register is nil, c is not registered.
func Registered[C prometheus.Collector](register prometheus.Registerer, c C) C {
	if register == nil {
		return c
	}
	var taken prometheus.AlreadyRegisteredError
	if err := register.Register(c); errors.As(err, &taken) {
		if existing, ok := taken.ExistingCollector.(C); ok {
			return existing
		}
	}
	return c
}
