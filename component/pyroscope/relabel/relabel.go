// Package relabel is the component pyroscope.relabel: it applies Prometheus' relabeling rules to profiles, which change
// labels and drop profiles.
package relabel

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/prometheus/prometheus/model/labels"

	"github.com/headwater/headwater/component"
	"github.com/headwater/headwater/component/common/relabel"
	"github.com/headwater/headwater/component/pyroscope"
)

// Name is the component's name in River.
const Name = "pyroscope.relabel"

// Registration returns what a host needs to offer the component.
func Registration() component.Registration { return component.NewRegistration(Name, Exports{}, New) }

// Arguments configure pyroscope.relabel.
type Arguments struct {
	ForwardTo    []pyroscope.Appendable `river:"forward_to,attr"`
	Rules        []*relabel.Config      `river:"rule,block,optional"`
	MaxCacheSize int                    `river:"max_cache_size,attr,optional"` // label sets whose result is remembered
}

// Exports are the values of pyroscope.relabel that other components can refer to.
type Exports struct {
	Receiver pyroscope.Appendable `river:"receiver,attr"`
	Rules    relabel.Rules        `river:"rules,attr"`
}

// SetToDefault implements river.Defaulter.
func (a *Arguments) SetToDefault() { *a = Arguments{MaxCacheSize: 10_000} }

// Validate implements river.Validator.
func (a *Arguments) Validate() error {
	if a.MaxCacheSize <= 0 {
		return component.Refuse("max_cache_size", "must be greater than 0 and is %d", a.MaxCacheSize)
	}
	return nil
}

// Component is a running pyroscope.relabel block, and its receiver. Its methods
// are safe for concurrent use.
type Component struct {
	id      string
	onState func(component.Exports)
	fanout  *pyroscope.Fanout
	metrics *metrics
	exited  atomic.Bool

	mu    sync.Mutex
	rules []*relabel.Config
	cache *cache
}

// New makes the component and exports its receiver.
func New(opts component.Options, args Arguments) (*Component, error) {
	c := &Component{
		id: opts.ID, onState: opts.OnStateChange,
		fanout: pyroscope.NewFanout(args.ForwardTo, opts.ID, opts.Registerer),
	}
	var err error
	if c.metrics, err = newMetrics(opts.Registerer); err != nil {
		return nil, fmt.Errorf("registering metrics: %w", err)
	}
	return c, c.Update(args)
}

// Update implements component.Component.
func (c *Component) Update(args component.Arguments) error {
	fresh, ok := args.(Arguments)
	if !ok {
		return fmt.Errorf("arguments of %s are a %T", Name, args)
	}
	c.mu.Lock()
	c.rules = slices.Clone(fresh.Rules)
	c.cache = newCache(relabel.Compile(c.rules), fresh.MaxCacheSize)
	c.mu.Unlock()
	c.metrics.size.Set(0)
	c.fanout.UpdateChildren(fresh.ForwardTo)
	c.onState(Exports{Receiver: c, Rules: fresh.Rules})
	return nil
}

// Run implements component.Component. Append and AppendIngest do the work.
func (c *Component) Run(ctx context.Context) error {
	<-ctx.Done()
	c.exited.Store(true)
	return nil
}

// Appender implements pyroscope.Appendable.
func (c *Component) Appender() pyroscope.Appender { return c }

// Append implements pyroscope.Appender. It returns no error for a profile that the rules drop.
func (c *Component) Append(ctx context.Context, in labels.Labels, samples []*pyroscope.RawSample) error {
	out, kept, err := c.relabel(in)
	if err != nil || !kept {
		return err
	}
	return c.fanout.Appender().Append(ctx, out, samples)
}

// AppendIngest implements pyroscope.Appender.
func (c *Component) AppendIngest(ctx context.Context, profile *pyroscope.IncomingProfile) error {
	out, kept, err := c.relabel(profile.Labels)
	if err != nil || !kept {
		return err
	}
	changed := *profile
	changed.Labels = out
	return c.fanout.Appender().AppendIngest(ctx, &changed)
}

// relabel applies the rules. A profile without labels passes unchanged.
func (c *Component) relabel(in labels.Labels) (out labels.Labels, kept bool, err error) {
	if c.exited.Load() {
		return in, false, fmt.Errorf("%s has exited", c.id)
	}
	c.metrics.processed.Inc()
	if in.IsEmpty() {
		c.metrics.written.Inc()
		return in, true, nil
	}
	c.mu.Lock()
	out, kept, hit := c.cache.getLabels(in)
	size := c.cache.order.Len()
	c.mu.Unlock()

	c.metrics.size.Set(float64(size))
	if hit {
		c.metrics.hits.Inc()
	} else {
		c.metrics.misses.Inc()
	}
	if kept {
		c.metrics.written.Inc()
	} else {
		c.metrics.dropped.Inc()
	}
	return out, kept, nil
}
