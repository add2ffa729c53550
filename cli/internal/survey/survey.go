// Package survey runs a configuration without profiling, to show which processes would be profiled.
package survey

import (
	"context"
	"errors"
	"io"
	"os"
	"reflect"
	"strings"
	"sync"
	"time"

	"github.com/headwater/headwater/component"
	"github.com/headwater/headwater/component/all"
	"github.com/headwater/headwater/component/discovery/relabel"
	"github.com/headwater/headwater/component/pyroscope"
	"github.com/headwater/headwater/component/pyroscope/ebpf"
	"github.com/headwater/headwater/river"
)

// Survey is a configuration that only runs discovery; all other components only receive their arguments. Its
// methods must be called from one goroutine.
type Survey struct {
	runtime *river.Runtime
	scratch string // folder of the components
	stop    context.CancelFunc
	running sync.WaitGroup

	mu        sync.Mutex
	profilers map[string]ebpf.Settings      // by component ID
	relabels  map[string]*relabel.Component // by component ID
	waiting   map[string]component.Component
	changed   time.Time // time of the last export or update
}

// Start loads the configuration at path and runs it until Close. Errors in the configuration are returned as a
// *river.LoadError.
func Start(path string) (*Survey, error) {
	s := &Survey{
		profilers: map[string]ebpf.Settings{}, relabels: map[string]*relabel.Component{},
		waiting: map[string]component.Component{}, changed: time.Now(),
	}
	registry, err := s.registry()
	if err != nil {
		return nil, err
	}
	if s.scratch, err = os.MkdirTemp("", "headwater-targets-"); err != nil {
		return nil, err
	}
	s.runtime = river.New(river.Options{Registry: registry, Logger: river.NewLogger(io.Discard), DataPath: s.scratch})
	ctx, stop := context.WithCancel(context.Background())
	s.stop = stop
	if err := s.runtime.LoadPath(path); err != nil {
		s.Close()
		return nil, err
	}
	s.running.Go(func() { s.runtime.Run(ctx) })
	return s, nil
}

// Close stops the components and removes their files.
func (s *Survey) Close() {
	s.stop()
	s.running.Wait()
	_ = os.RemoveAll(s.scratch) // a temporary folder
}

// registry returns all components, each wrapped.
func (s *Survey) registry() (component.Registry, error) {
	registry, err := all.Registry()
	if err != nil {
		return component.Registry{}, err
	}
	var regs []component.Registration
	for _, name := range registry.Names() {
		r, _ := registry.Get(name)
		regs = append(regs, s.wrapComponent(r))
	}
	return component.NewRegistry(regs...)
}

// wrapComponent returns r with a different Build.
func (s *Survey) wrapComponent(r component.Registration) component.Registration {
	build := r.Build
	switch {
	case r.Name == relabel.Name:
		r.Build = func(opts component.Options, args component.Arguments) (component.Component, error) {
			built, err := build(s.observed(opts), args)
			if c, ok := built.(*relabel.Component); ok && err == nil {
				s.mu.Lock()
				s.relabels[opts.ID] = c
				s.mu.Unlock()
			}
			return built, err
		}
	case strings.HasPrefix(r.Name, "discovery."):
		r.Build = func(opts component.Options, args component.Arguments) (component.Component, error) {
			s.mu.Lock()
			s.waiting[opts.ID] = nil // set before Build, which may export
			s.mu.Unlock()
			built, err := build(s.observed(opts), args)
			s.mu.Lock()
			if _, still := s.waiting[opts.ID]; still {
				s.waiting[opts.ID] = built
			}
			s.mu.Unlock()
			return built, err
		}
	case strings.HasPrefix(r.Name, "pyroscope."):
		exports := r.Exports
		r.Build = func(opts component.Options, args component.Arguments) (component.Component, error) {
			if exports != nil {
				opts.OnStateChange(deafReceivers(exports))
			}
			c := passive{survey: s, id: opts.ID}
			return c, c.Update(args)
		}
	}
	return r
}

// observed returns options that notify the survey of exports.
func (s *Survey) observed(opts component.Options) component.Options {
	export := opts.OnStateChange
	opts.OnStateChange = func(e component.Exports) {
		s.mu.Lock()
		delete(s.waiting, opts.ID)
		s.changed = time.Now()
		s.mu.Unlock()
		export(e)
	}
	return opts
}

// deafReceivers returns exports of the same type with receivers that drop all profiles.
func deafReceivers(exports component.Exports) component.Exports {
	deaf := reflect.New(reflect.TypeOf(exports)).Elem()
	receiver := reflect.ValueOf(pyroscope.Appendable(pyroscope.NoopAppendable{}))
	for i := range deaf.NumField() {
		if field := deaf.Field(i); field.Type() == reflect.TypeFor[pyroscope.Appendable]() {
			field.Set(receiver)
		}
	}
	return deaf.Interface()
}

// passive is a component that only receives its arguments.
type passive struct {
	survey *Survey
	id     string
}

// Run implements component.Component.
func (p passive) Run(ctx context.Context) error {
	<-ctx.Done()
	return nil
}

// Update implements component.Component.
func (p passive) Update(args component.Arguments) error {
	p.survey.mu.Lock()
	defer p.survey.mu.Unlock()
	p.survey.changed = time.Now()
	if profiler, ok := args.(ebpf.Arguments); ok {
		p.survey.profilers[p.id] = profiler.Settings
	}
	return nil
}

// Wait returns when all discovery components have exported targets and no component has changed for a second, or after
// wait. It returns an error if ctx is done first.
func (s *Survey) Wait(ctx context.Context, wait time.Duration) error {
	waiting, cancel := context.WithTimeout(ctx, wait)
	defer cancel()
	ticker := time.NewTicker(50 * time.Millisecond)
	defer ticker.Stop()
	for {
		s.mu.Lock()
		stable := len(s.waiting) == 0 && time.Since(s.changed) > time.Second
		s.mu.Unlock()
		if stable {
			return nil
		}
		select {
		case <-waiting.Done():
			if ctx.Err() != nil {
				return errors.New("interrupted")
			}
			return nil
		case <-ticker.C:
		}
	}
}
