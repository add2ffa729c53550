// Package polled makes components that read a value from another machine, export it, and read it again at intervals.
package polled

import (
	"context"
	"fmt"
	"reflect"
	"time"

	"github.com/go-kit/log/level"

	"github.com/headwater/headwater/component"
	"github.com/headwater/headwater/component/common/mailbox"
)

// Kind is a kind of component, with the arguments A and the exports E.
type Kind[A any, E component.Exports] struct {
	// Interval returns the time between two reads.
	Interval func(A) time.Duration
	// Open returns a client of the other machine. It sends no request.
	Open func(A) (Client[E], error)
	// Healthy is the message of a component whose last read has succeeded.
	Healthy string
}

// A Client reads a value. Its methods are called one after another.
type Client[E component.Exports] interface {
	// Read returns the value. It must end when ctx is done, and within the timeout that the arguments set.
	Read(ctx context.Context) (E, error)
	// Close closes idle connections.
	Close()
}

// Component is a running block. Its methods are safe for concurrent use.
type Component[A any, E component.Exports] struct {
	component.Condition
	kind    Kind[A, E]
	opts    component.Options
	updates *mailbox.Mailbox[A]
	last    *E // set by New, then by Run
}

// New reads the value and exports it. It returns an error if that fails, since components that refer to the value would
// get none.
func (k Kind[A, E]) New(opts component.Options, args A) (*Component[A, E], error) {
	c := &Component[A, E]{kind: k, opts: opts, updates: mailbox.New[A]()}
	client, err := k.Open(args)
	if err != nil {
		return nil, err
	}
	defer client.Close()
	if err := c.pollOnce(context.Background(), client); err != nil {
		return nil, err
	}
	c.updates.Send(args)
	return c, nil
}

// Update implements component.Component. Run then reads with the new arguments at once.
func (c *Component[A, E]) Update(args component.Arguments) error {
	fresh, ok := args.(A)
	if !ok {
		return fmt.Errorf("arguments are a %T, not a %T", args, fresh)
	}
	client, err := c.kind.Open(fresh)
	if err != nil {
		return err
	}
	client.Close()
	c.updates.Send(fresh)
	return nil
}

// Run implements component.Component. While reads fail, the last value stays exported.
func (c *Component[A, E]) Run(ctx context.Context) error {
	var client Client[E]
	defer func() {
		if client != nil {
			client.Close()
		}
	}()
	for args, fresh := range c.updates.Turns(ctx, c.kind.Interval) {
		if fresh {
			next, err := c.kind.Open(args)
			if err != nil { // Update has checked this
				level.Error(c.opts.Logger).Log("msg", "the new arguments cannot be used", "err", err)
				continue
			}
			if client != nil {
				client.Close()
			}
			client = next
		}
		if err := c.pollOnce(ctx, client); err != nil && ctx.Err() == nil {
			level.Error(c.opts.Logger).Log("msg", "the last value stays in use", "err", err)
		}
	}
	return nil
}

func (c *Component[A, E]) pollOnce(ctx context.Context, client Client[E]) error {
	value, err := client.Read(ctx)
	if err != nil {
		c.SetHealth(component.HealthTypeUnhealthy, "polling failed: "+err.Error())
		return err
	}
	c.SetHealth(component.HealthTypeHealthy, c.kind.Healthy)
	if c.last == nil || !reflect.DeepEqual(*c.last, value) {
		c.last = &value
		c.opts.OnStateChange(value)
	}
	return nil
}
