// Package process is the component discovery.process: the processes of this host.
package process

import (
	"context"
	"fmt"
	"time"

	"github.com/go-kit/log/level"

	"github.com/headwater/headwater/component"
	"github.com/headwater/headwater/component/common/mailbox"
	"github.com/headwater/headwater/component/discovery"
	"github.com/headwater/headwater/ebpf/host/procfs"
)

// Name is the component's name in River.
const Name = "discovery.process"

// Registration returns what a host needs to offer the component.
func Registration() component.Registration {
	return component.NewRegistration(Name, discovery.Exports{},
		func(opts component.Options, args Arguments) (*Component, error) {
			return newComponent(opts, args, procfs.Default), nil
		})
}

// Component is a running discovery.process block. Its methods are safe for
// concurrent use.
type Component struct {
	component.Condition
	opts    component.Options
	fs      procfs.FS
	updates *mailbox.Mailbox[Arguments]
}

func newComponent(opts component.Options, args Arguments, fs procfs.FS) *Component {
	c := &Component{opts: opts, fs: fs, updates: mailbox.New[Arguments]()}
	c.SetHealth(component.HealthTypeUnknown, "nothing discovered yet")
	c.updates.Send(args)
	return c
}

// Update implements component.Component.
func (c *Component) Update(args component.Arguments) error { return c.updates.Update(args) }

// Run implements component.Component. After a failure it tries again at the next interval.
func (c *Component) Run(ctx context.Context) error {
	lister := newLister(c.fs, c.opts.Logger)
	defer lister.close()
	for args := range c.updates.Turns(ctx, func(args Arguments) time.Duration { return args.RefreshInterval }) {
		found, err := lister.listTargets(args.Discover, args.RefreshInterval)
		if err != nil {
			level.Error(c.opts.Logger).Log("msg", "failed to discover processes", "err", err)
			c.SetHealth(component.HealthTypeUnhealthy, "listing processes: "+err.Error())
			continue
		}
		c.SetHealth(component.HealthTypeHealthy, fmt.Sprintf("%d processes", len(found)))
		c.opts.OnStateChange(discovery.Exports{Targets: joinContainers(found, args.Join)})
	}
	return nil
}
