// Package relabel is the component discovery.relabel: it applies Prometheus' relabeling rules to targets, which change
// labels and drop targets.
package relabel

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"

	"github.com/headwater/headwater/component"
	"github.com/headwater/headwater/component/common/relabel"
	"github.com/headwater/headwater/component/discovery"
)

// Name is the component's name in River.
const Name = "discovery.relabel"

// maxShown bounds the dropped targets in the debug info.
const maxShown = 100

// Registration returns what a host needs to offer the component.
func Registration() component.Registration { return component.NewRegistration(Name, Exports{}, New) }

// Arguments configure discovery.relabel.
type Arguments struct {
	Targets []discovery.Target `river:"targets,attr"`
	Rules   []*relabel.Config  `river:"rule,block,optional"`
}

// Exports are the values of discovery.relabel that other components can refer to.
type Exports struct {
	Output []discovery.Target `river:"output,attr"`
	Rules  relabel.Rules      `river:"rules,attr"`
}

// Component is a running discovery.relabel block. Its methods are safe for
// concurrent use.
type Component struct {
	opts component.Options

	mu      sync.Mutex
	kept    int
	dropped []Dropped
}

// Dropped is a target that a rule drops.
type Dropped struct {
	Labels map[string]string // before the rules are applied
	Rule   int               // from 1, in the order of the configuration
	Text   string            // the rule in a few words
}

// New makes the component and exports its first output.
func New(opts component.Options, args Arguments) (*Component, error) {
	c := &Component{opts: opts}
	return c, c.Update(args)
}

// Run implements component.Component. All work is done by Update.
func (c *Component) Run(ctx context.Context) error {
	<-ctx.Done()
	return nil
}

// Update implements component.Component.
func (c *Component) Update(args component.Arguments) error {
	fresh, ok := args.(Arguments)
	if !ok {
		return fmt.Errorf("arguments of %s are a %T", Name, args)
	}
	program := relabel.Compile(fresh.Rules)
	output := make([]discovery.Target, 0, len(fresh.Targets))
	var dropped []Dropped
	for _, t := range fresh.Targets {
		out, by := program.Map(t)
		switch {
		case by >= 0:
			dropped = append(dropped, Dropped{Labels: t, Rule: by + 1, Text: fresh.Rules[by].String()})
		case len(out) > 0:
			output = append(output, out)
		}
	}
	c.mu.Lock()
	c.kept, c.dropped = len(output), dropped
	c.mu.Unlock()
	c.opts.OnStateChange(Exports{Output: output, Rules: fresh.Rules})
	return nil
}

// Dropped returns the targets that the rules currently drop.
func (c *Component) Dropped() []Dropped {
	c.mu.Lock()
	defer c.mu.Unlock()
	return slices.Clone(c.dropped)
}

// DebugInfo is what the component reports about itself in River.
type DebugInfo struct {
	Kept    int            `river:"targets_kept,attr"`
	Dropped int            `river:"targets_dropped,attr"`
	Targets []DebugDropped `river:"dropped,block,optional"` // the first maxShown
}

// DebugDropped is a target that a rule drops.
type DebugDropped struct {
	Rule   int               `river:"rule,attr"`
	Text   string            `river:"does,attr"`
	Labels map[string]string `river:"labels,attr"`
}

// DebugInfo implements component.DebugComponent.
func (c *Component) DebugInfo() interface{} {
	c.mu.Lock()
	kept, dropped := c.kept, c.dropped
	c.mu.Unlock()
	info := DebugInfo{Kept: kept, Dropped: len(dropped)}
	for _, d := range dropped[:min(len(dropped), maxShown)] {
		info.Targets = append(info.Targets, DebugDropped{Rule: d.Rule, Text: d.Text, Labels: d.Labels})
	}
	return info
}

// String describes the dropped target and the rule.
func (d Dropped) String() string {
	var b strings.Builder
	fmt.Fprintf(&b, "rule %d (%s) dropped {", d.Rule, d.Text)
	for i, name := range slices.Sorted(maps.Keys(d.Labels)) {
		if i > 0 {
			b.WriteString(", ")
		}
		fmt.Fprintf(&b, "%s=%q", name, d.Labels[name])
	}
	b.WriteByte('}')
	return b.String()
}
