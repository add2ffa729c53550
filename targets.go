package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"reflect"
	"strings"
	"sync"
	"time"

	"github.com/spf13/cobra"

	"github.com/headwater/headwater/component"
	"github.com/headwater/headwater/component/discovery/relabel"
	"github.com/headwater/headwater/component/pyroscope"
	"github.com/headwater/headwater/component/pyroscope/ebpf"
	"github.com/headwater/headwater/river"
)

func targetsCommand() *cobra.Command {
	var wait time.Duration
	var all bool
	cmd := &cobra.Command{
		Use:   "targets PATH",
		Short: "Show which target each process has, or why it has none",
		Long: `Loads a configuration, runs its discovery components until they have found their
targets, and shows for each pyroscope.ebpf which processes it would profile under
which labels, and why not the others. Nothing is profiled and nothing is sent.`,
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			if wait <= 0 {
				return fmt.Errorf("--wait must be longer than 0s, got %s", wait)
			}
			ctx, cancel := interruptible(cmd.ErrOrStderr())
			defer cancel()
			return showTargets(ctx, args[0], wait, all, cmd.OutOrStdout(), cmd.ErrOrStderr())
		},
	}
	cmd.Flags().DurationVar(&wait, "wait", 15*time.Second, "how long to wait for discovery components that have found nothing yet")
	cmd.Flags().BoolVar(&all, "all", false, "also show processes that are in no container and match no target")
	return cmd
}

func showTargets(ctx context.Context, path string, wait time.Duration, all bool, stdout, stderr io.Writer) error {
	survey := newSurvey()
	runtime, cleanUp, err := survey.load(path, stderr)
	if err != nil {
		return err
	}
	defer cleanUp()

	runCtx, stop := context.WithCancel(ctx)
	var running sync.WaitGroup
	running.Go(func() { runtime.Run(runCtx) })
	defer running.Wait()
	defer stop()
	survey.settle(ctx, wait)
	if ctx.Err() != nil {
		return errors.New("interrupted")
	}
	return survey.print(stdout, all)
}

// survey runs a configuration without profiling: discovery works, and all other
// components only take their arguments.
type survey struct {
	mu        sync.Mutex
	profilers map[string]ebpf.Settings      // by component ID
	relabels  map[string]*relabel.Component // by component ID
	waiting   map[string]component.Component
	changed   time.Time // the last export or update
}

func newSurvey() *survey {
	return &survey{
		profilers: map[string]ebpf.Settings{}, relabels: map[string]*relabel.Component{},
		waiting: map[string]component.Component{}, changed: time.Now(),
	}
}

// load loads the configuration at path. cleanUp removes what the components have
// written.
func (s *survey) load(path string, stderr io.Writer) (runtime *river.Runtime, cleanUp func(), err error) {
	registry, err := componentRegistry()
	if err != nil {
		return nil, nil, err
	}
	var regs []component.Registration
	for _, name := range registry.Names() {
		r, _ := registry.Get(name)
		regs = append(regs, s.wrap(r))
	}
	if registry, err = component.NewRegistry(regs...); err != nil {
		return nil, nil, err
	}
	scratch, err := os.MkdirTemp("", "headwater-targets-")
	if err != nil {
		return nil, nil, err
	}
	cleanUp = func() { _ = os.RemoveAll(scratch) }
	runtime = river.New(river.Options{Registry: registry, Logger: river.NewLogger(io.Discard), DataPath: scratch})
	if err := runtime.LoadPath(path); err != nil {
		cleanUp()
		printLoadError(stderr, err)
		return nil, nil, errors.New("could not load the configuration")
	}
	return runtime, cleanUp, nil
}

// wrap returns r with another Build.
func (s *survey) wrap(r component.Registration) component.Registration {
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
			s.waiting[opts.ID] = nil // before Build, which may export
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

// observed returns options that tell the survey of exports.
func (s *survey) observed(opts component.Options) component.Options {
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

// deafReceivers returns exports of the same type, whose receivers drop everything.
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

// passive is a component that does nothing but take its arguments.
type passive struct {
	survey *survey
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

// settle returns when all discovery components have found something and nothing
// has changed for a second, or after wait.
func (s *survey) settle(ctx context.Context, wait time.Duration) {
	ctx, cancel := context.WithTimeout(ctx, wait)
	defer cancel()
	ticker := time.NewTicker(50 * time.Millisecond)
	defer ticker.Stop()
	for {
		s.mu.Lock()
		settled := len(s.waiting) == 0 && time.Since(s.changed) > time.Second
		s.mu.Unlock()
		if settled {
			return
		}
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		}
	}
}
