// Package process is the component discovery.process: the processes of this host.
package process

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/go-kit/log/level"

	"github.com/headwater/headwater/component"
	"github.com/headwater/headwater/component/common/mailbox"
	"github.com/headwater/headwater/component/discovery"
	"github.com/headwater/headwater/ebpf/procfs"
)

// Name is the component's name in River.
const Name = "discovery.process"

// Registration returns what a host needs to offer the component.
func Registration() component.Registration {
	return component.Registration{
		Name:    Name,
		Args:    Arguments{},
		Exports: discovery.Exports{},
		Build: func(opts component.Options, args component.Arguments) (component.Component, error) {
			return newComponent(opts, args.(Arguments), procfs.Default), nil
		},
	}
}

// Component is a running discovery.process block. Its methods are safe for
// concurrent use.
type Component struct {
	opts    component.Options
	fs      procfs.FS
	updates *mailbox.Mailbox[Arguments]

	mu     sync.Mutex
	health component.Health
}

func newComponent(opts component.Options, args Arguments, fs procfs.FS) *Component {
	c := &Component{opts: opts, fs: fs, updates: mailbox.New[Arguments]()}
	c.setHealth(component.HealthTypeUnknown, "nothing discovered yet")
	c.updates.Send(args)
	return c
}

// Update implements component.Component.
func (c *Component) Update(args component.Arguments) error {
	fresh, ok := args.(Arguments)
	if !ok {
		return fmt.Errorf("arguments of %s are a %T", Name, args)
	}
	c.updates.Send(fresh)
	return nil
}

// Run implements component.Component. A list that cannot be made is made again
// after the next interval.
func (c *Component) Run(ctx context.Context) error {
	lister := newLister(c.fs, c.opts.Logger)
	defer lister.close()
	var args Arguments
	ticker := time.NewTicker(time.Hour)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case args = <-c.updates.Receive():
			ticker.Reset(args.RefreshInterval)
		case <-ticker.C:
		}
		found, err := lister.list(args.Discover)
		if err != nil {
			level.Error(c.opts.Logger).Log("msg", "failed to discover processes", "err", err)
			c.setHealth(component.HealthTypeUnhealthy, "listing processes: "+err.Error())
			continue
		}
		c.setHealth(component.HealthTypeHealthy, fmt.Sprintf("%d processes", len(found)))
		c.opts.OnStateChange(discovery.Exports{Targets: join(found, args.Join)})
	}
}

// CurrentHealth implements component.HealthComponent.
func (c *Component) CurrentHealth() component.Health {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.health
}

func (c *Component) setHealth(kind component.HealthType, message string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.health = component.Health{Health: kind, Message: message, UpdateTime: time.Now()}
}
