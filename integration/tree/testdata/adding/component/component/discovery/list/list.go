// Package list is the component discovery.list: targets by their addresses, all of
// them with the same labels.
package list

import (
	"context"
	"fmt"
	"maps"

	"github.com/headwater/headwater/component"
	"github.com/headwater/headwater/component/common/mailbox"
	"github.com/headwater/headwater/component/discovery"
)

// Name is the component's name in River.
const Name = "discovery.list"

// Registration returns what a host needs to offer the component.
func Registration() component.Registration {
	return component.NewRegistration(Name, discovery.Exports{}, New)
}

// Arguments configure discovery.list.
type Arguments struct {
	Addresses []string          `river:"addresses,attr"`
	Labels    map[string]string `river:"labels,attr,optional"` // of every target
}

// Validate implements river.Validator.
func (a *Arguments) Validate() error {
	if len(a.Addresses) == 0 {
		return component.Refuse("addresses", "must have at least one address")
	}
	return nil
}

// Component is a running discovery.list block. Its methods are safe for concurrent
// use.
type Component struct {
	component.Condition
	opts    component.Options
	updates *mailbox.Mailbox[Arguments]
}

// New makes a component that exports its targets once Run is called.
func New(opts component.Options, args Arguments) (*Component, error) {
	c := &Component{opts: opts, updates: mailbox.New[Arguments]()}
	c.updates.Send(args)
	return c, nil
}

// Update implements component.Component.
func (c *Component) Update(args component.Arguments) error { return c.updates.Update(args) }

// Run implements component.Component.
func (c *Component) Run(ctx context.Context) error {
	for {
		select {
		case <-ctx.Done():
			return nil
		case args := <-c.updates.Receive():
			found := targets(args)
			c.SetHealth(component.HealthTypeHealthy, fmt.Sprintf("%d targets", len(found)))
			c.opts.OnStateChange(discovery.Exports{Targets: found})
		}
	}
}

func targets(args Arguments) []discovery.Target {
	found := make([]discovery.Target, 0, len(args.Addresses))
	for _, address := range args.Addresses {
		t := discovery.Target{}
		maps.Copy(t, args.Labels)
		t["__address__"] = address
		found = append(found, t)
	}
	return found
}
