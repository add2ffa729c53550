// Package ebpf is the component pyroscope.ebpf: it profiles the processes of this host with package ebpf of this
// module, and forwards one pprof profile per target and interval. Its web page shows the profiles of the last minutes.
package ebpf

import (
	"context"
	"fmt"
	"net/http"
	"sync"
	"time"

	"github.com/go-kit/log/level"
	"github.com/google/pprof/profile"

	"github.com/headwater/headwater/component"
	"github.com/headwater/headwater/component/common/mailbox"
	"github.com/headwater/headwater/component/pyroscope"
	"github.com/headwater/headwater/ebpf"
	"github.com/headwater/headwater/ebpf/common/clock"
	"github.com/headwater/headwater/ebpf/process/target"
	"github.com/headwater/headwater/flame/pprof"
	"github.com/headwater/headwater/flame/server"
)

// Name is the component's name in River.
const Name = "pyroscope.ebpf"

// Registration returns what a host needs to offer the component.
func Registration() component.Registration { return component.NewRegistration(Name, nil, New) }

// session is the part of *ebpf.Session that the component uses.
type session interface {
	Update(ebpf.Options) error
	Collect() ([]ebpf.Profile, error)
	StopSampling() error
	Stats() ebpf.Stats
	Waiting() map[string]time.Duration
	Done() <-chan struct{}
	Err() error
	Close() error
}

// startSession starts the profiler.
func startSession(o ebpf.Options) (session, error) {
	s, err := ebpf.Start(o)
	if err != nil {
		return nil, err // not s: a nil *Session would make a non-nil session
	}
	return s, nil
}

// Component is a running pyroscope.ebpf block. Its methods are safe for concurrent use.
type Component struct {
	opts    component.Options
	start   func(ebpf.Options) (session, error)
	encode  func(*profile.Profile) ([]byte, error)
	cpuTime func() time.Duration // of this process so far
	memory  func() int64         // of this process, in bytes
	fanout  *pyroscope.Fanout
	page    *server.Page
	metrics *metrics
	updates *mailbox.Mailbox[Settings]
	status  statusBoard
	component.Condition

	mu     sync.Mutex
	warned []*component.AttributeError // warnings about the newest arguments
}

var (
	_ component.DebugComponent  = (*Component)(nil)
	_ component.HealthComponent = (*Component)(nil)
	_ component.HTTPComponent   = (*Component)(nil)
)

// New makes a component that profiles once Run is called.
func New(opts component.Options, args Arguments) (*Component, error) {
	c := &Component{
		opts:    opts,
		start:   startSession,
		encode:  pprof.Encode,
		cpuTime: ownCPUTime,
		memory:  ownMemory,
		fanout:  pyroscope.NewFanout(args.ForwardTo, opts.ID, opts.Registerer),
		updates: mailbox.New[Settings](),
	}
	c.page = server.New(server.Options{
		Name: opts.ID, Status: c.pageStatus, Started: started, Log: c.logHistoryDisk, Record: recordProcess,
		CPUTime: clock.CPUTime,
	})
	c.SetHealth(component.HealthTypeUnknown, "not started yet")

	if err := c.checkHistoryDisk(args.Settings); err != nil {
		return nil, err
	}
	var err error
	if c.metrics, err = newMetrics(opts.Registerer, c.page.Changes); err != nil {
		return nil, fmt.Errorf("registering metrics: %w", err)
	}
	c.takeSettings(args.Settings)
	return c, nil
}

// Update implements component.Component. It never blocks; Run applies the newest arguments soon afterwards.
func (c *Component) Update(args component.Arguments) error {
	fresh, ok := args.(Arguments)
	if !ok {
		return fmt.Errorf("arguments of %s are a %T", Name, args)
	}
	if err := c.checkHistoryDisk(fresh.Settings); err != nil {
		return err
	}
	c.takeSettings(fresh.Settings)
	c.fanout.UpdateChildren(fresh.ForwardTo)
	c.updates.Send(fresh.Settings)
	return nil
}

// takeSettings stores args and logs problems with them.
func (c *Component) takeSettings(args Settings) {
	targets := usableTargets(args)
	c.status.publish(func(s *status) { s.args, s.targets = args, targets })
	c.metrics.count(func(n *counts) { n.targets = uint64(len(targets)) })
	c.logWarnings(args.Warnings())
	if len(targets) == 0 && len(args.Targets) > 0 {
		level.Warn(c.opts.Logger).Log("msg", "No targets found: no target names a process or a container",
			"targets", len(args.Targets))
	}
}

// logWarnings logs the warnings that the previous arguments did not have.
func (c *Component) logWarnings(warnings []*component.AttributeError) {
	c.mu.Lock()
	defer c.mu.Unlock()
	component.LogWarnings(c.opts.Logger, warnings, c.warned)
	c.warned = warnings
}

// usableTargets describes the targets that specify a process or a container.
func usableTargets(args Settings) []string {
	found := target.NewFinder(target.Options{Targets: args.Targets}).Targets()
	names := make([]string, 0, len(found))
	for _, t := range found {
		names = append(names, t.String())
	}
	return names
}

// Run implements component.Component. It returns an error if the profiler cannot be started. It restarts a profiler
// that fails later.
func (c *Component) Run(ctx context.Context) error {
	l := newLoop(ctx, c, c.status.readStatus().args)
	defer l.close()
	c.keepHistoryOnDisk(l.args)
	if err := l.startSession(); err != nil {
		return err
	}
	l.runUntilDone(ctx)
	return nil
}

// Handler implements component.HTTPComponent.
func (c *Component) Handler() http.Handler { return c.page }
