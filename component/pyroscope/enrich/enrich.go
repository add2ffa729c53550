// Package enrich is the component pyroscope.enrich: it adds the labels of a discovery target to profiles that share the
// value of one label with the target.
package enrich

import (
	"context"
	"fmt"
	"sync/atomic"

	"github.com/prometheus/prometheus/model/labels"

	"github.com/headwater/headwater/component"
	"github.com/headwater/headwater/component/discovery"
	"github.com/headwater/headwater/component/pyroscope"
)

// Name is the component's name in River.
const Name = "pyroscope.enrich"

// Registration returns what a host needs to offer the component.
func Registration() component.Registration {
	return component.NewRegistration(Name, Exports{}, func(opts component.Options, args Arguments) (*Component, error) {
		return New(opts, args), nil
	})
}

// Arguments configure pyroscope.enrich.
type Arguments struct {
	Targets            []discovery.Target     `river:"targets,attr"`
	TargetMatchLabel   string                 `river:"target_match_label,attr"`
	ProfilesMatchLabel string                 `river:"profiles_match_label,attr,optional"` // "": TargetMatchLabel
	LabelsToCopy       []string               `river:"labels_to_copy,attr,optional"`       // none: all
	ForwardTo          []pyroscope.Appendable `river:"forward_to,attr"`
}

// Exports are the values of pyroscope.enrich that other components can refer to.
type Exports struct {
	Receiver pyroscope.Appendable `river:"receiver,attr"`
}

// Component is a running pyroscope.enrich block, and its receiver. Its methods are
// safe for concurrent use.
type Component struct {
	fanout *pyroscope.Fanout
	table  atomic.Pointer[table]
}

// table is an immutable form of the arguments.
type table struct {
	match   string
	copied  []string
	targets map[string]discovery.Target // by the value of the match label
}

// New makes the component and exports its receiver.
func New(opts component.Options, args Arguments) *Component {
	c := &Component{fanout: pyroscope.NewFanout(args.ForwardTo, opts.ID, opts.Registerer)}
	c.table.Store(newTable(args))
	opts.OnStateChange(Exports{Receiver: c})
	return c
}

func newTable(args Arguments) *table {
	t := &table{match: args.ProfilesMatchLabel, copied: args.LabelsToCopy,
		targets: make(map[string]discovery.Target, len(args.Targets))}
	if t.match == "" {
		t.match = args.TargetMatchLabel
	}
	for _, target := range args.Targets {
		if value := target[args.TargetMatchLabel]; value != "" {
			t.targets[value] = target
		}
	}
	return t
}

// Update implements component.Component.
func (c *Component) Update(args component.Arguments) error {
	fresh, ok := args.(Arguments)
	if !ok {
		return fmt.Errorf("arguments of %s are a %T", Name, args)
	}
	c.table.Store(newTable(fresh))
	c.fanout.UpdateChildren(fresh.ForwardTo)
	return nil
}

// Run implements component.Component. Append does the work.
func (c *Component) Run(ctx context.Context) error {
	<-ctx.Done()
	return nil
}

// Appender implements pyroscope.Appendable.
func (c *Component) Appender() pyroscope.Appender { return c }

// Append implements pyroscope.Appender.
func (c *Component) Append(ctx context.Context, in labels.Labels, samples []*pyroscope.RawSample) error {
	return c.fanout.Appender().Append(ctx, c.table.Load().enrich(in), samples)
}

// AppendIngest implements pyroscope.Appender.
func (c *Component) AppendIngest(ctx context.Context, profile *pyroscope.IncomingProfile) error {
	enriched := *profile
	enriched.Labels = c.table.Load().enrich(profile.Labels)
	return c.fanout.Appender().AppendIngest(ctx, &enriched)
}

// enrich adds the labels of the matching target and overwrites labels of the same name. A profile without the match
// label, or with a value that no target has, stays unchanged.
func (t *table) enrich(in labels.Labels) labels.Labels {
	target := t.targets[in.Get(t.match)]
	if target == nil {
		return in
	}
	out := labels.NewBuilder(in)
	if len(t.copied) == 0 {
		for name, value := range target {
			out.Set(name, value)
		}
	}
	for _, name := range t.copied {
		if value := target[name]; value != "" {
			out.Set(name, value)
		}
	}
	return out.Labels()
}
