package discovery

import (
	"context"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/prometheus/prometheus/discovery"
	"github.com/prometheus/prometheus/discovery/targetgroup"

	"github.com/headwater/headwater/component"
	"github.com/headwater/headwater/component/common/mailbox"
)

// MaxUpdateFrequency is the shortest time between two exports of a component. The first targets of a discoverer are
// exported at once.
const MaxUpdateFrequency = 5 * time.Second

// Convert converts the arguments of a component to Prometheus' configuration.
type Convert[A any] func(A) (discovery.Config, error)

// Registration returns the registration of a component that runs one of
// Prometheus' discoverers. A is the type of its arguments.
func Registration[A any](name string, convert Convert[A]) component.Registration {
	return component.NewRegistration(name, Exports{}, func(opts component.Options, args A) (*Component[A], error) {
		return New(opts, args, convert)
	})
}

// Component runs a discoverer and exports the targets that it finds. Its methods
// are safe for concurrent use.
type Component[A any] struct {
	component.Condition
	opts    component.Options
	convert Convert[A]
	metrics discovery.DiscovererMetrics
	next    *mailbox.Mailbox[discovery.Discoverer]
	every   time.Duration // MaxUpdateFrequency

	targets atomic.Int64 // exported last
}

// New makes a component that discovers once Run is called.
func New[A any](opts component.Options, args A, convert Convert[A]) (*Component[A], error) {
	c := &Component[A]{
		opts: opts, convert: convert,
		next:  mailbox.New[discovery.Discoverer](),
		every: MaxUpdateFrequency,
	}
	c.SetHealth(component.HealthTypeUnknown, "nothing discovered yet")
	config, err := convert(args)
	if err != nil {
		return nil, err
	}
	refresh := discovery.NewRefreshMetrics(opts.Registerer)
	if err := refresh.Register(); err != nil {
		return nil, fmt.Errorf("registering metrics: %w", err)
	}
	c.metrics = config.NewDiscovererMetrics(opts.Registerer, refresh)
	if err := c.metrics.Register(); err != nil {
		return nil, fmt.Errorf("registering metrics: %w", err)
	}
	return c, c.useConfig(config)
}

// Update implements component.Component. The targets found with the old arguments stay exported until the new
// discoverer finds targets.
func (c *Component[A]) Update(args component.Arguments) error {
	fresh, ok := args.(A)
	if !ok {
		return fmt.Errorf("arguments of %s are a %T", c.opts.ID, args)
	}
	config, err := c.convert(fresh)
	if err != nil {
		return err
	}
	return c.useConfig(config)
}

func (c *Component[A]) useConfig(config discovery.Config) error {
	discoverer, err := config.NewDiscoverer(discovery.DiscovererOptions{
		Logger:  newLogger(c.opts.Logger, c.failed),
		Metrics: c.metrics,
		SetName: c.opts.ID,
	})
	if err != nil {
		return err
	}
	boundAnswers(discoverer)
	c.next.Send(discoverer)
	return nil
}

// Run implements component.Component.
func (c *Component[A]) Run(ctx context.Context) error {
	stop := func() {}
	defer func() { stop() }()
	var (
		found    <-chan []*targetgroup.Group
		known    = groups{}
		fresh    bool // the next groups are the first of a discoverer
		timer    = time.NewTimer(time.Hour)
		exportAt time.Time // earliest
		waiting  bool      // for exportAt
	)
	defer timer.Stop()
	timer.Stop()
	export := func() {
		c.export(known.targets())
		waiting, exportAt = false, time.Now().Add(c.every)
	}
	for {
		select {
		case <-ctx.Done():
			return nil
		case d := <-c.next.Receive():
			stop()
			found, stop = start(ctx, d)
			fresh = true
		case newer := <-found:
			if fresh {
				known = groups{}
			}
			known.addGroups(newer)
			switch {
			case fresh || !time.Now().Before(exportAt):
				export()
			case !waiting:
				waiting = true
				timer.Reset(time.Until(exportAt))
			}
			fresh = false
		case <-timer.C:
			if waiting {
				export()
			}
		}
	}
}

// start runs a discoverer. stop ends it and returns after the discoverer has ended.
func start(ctx context.Context, d discovery.Discoverer) (found <-chan []*targetgroup.Group, stop func()) {
	ctx, cancel := context.WithCancel(ctx)
	ch := make(chan []*targetgroup.Group)
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		d.Run(ctx, ch)
	}()
	return ch, func() {
		cancel()
		for {
			select {
			case <-ch: // the discoverer may be blocked on the send
			case <-ended:
				return
			}
		}
	}
}

func (c *Component[A]) export(targets []Target) {
	c.targets.Store(int64(len(targets)))
	c.SetHealth(component.HealthTypeHealthy, fmt.Sprintf("%d targets", len(targets)))
	c.opts.OnStateChange(Exports{Targets: targets})
}

// failed reports an error that the discoverer has logged. The discoverer keeps trying by itself.
func (c *Component[A]) failed(message string) {
	if targets := c.targets.Load(); targets > 0 {
		message += fmt.Sprintf("; the previous %d targets stay in use", targets)
	}
	c.SetHealth(component.HealthTypeUnhealthy, message)
}
