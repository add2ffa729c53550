// Package adapter lets a component of Headwater run in Grafana Agent Flow. Both have the same contract in separate
// packages, so the adapter only converts between the types.
package adapter

import (
	"context"
	"net/http"

	agent "github.com/grafana/agent/component"
	agenthttp "github.com/grafana/agent/service/http"

	"github.com/headwater/headwater/component"
)

// Convert converts the arguments that the Agent has decoded to the arguments of a component of Headwater.
type Convert func(agent.Arguments) (component.Arguments, error)

// Registration returns r for the Agent. If convert is nil, the Agent decodes r.Args itself; otherwise args is the zero
// value of the type that the Agent decodes, and convert converts it to the arguments of r.Build.
func Registration(r component.Registration, args agent.Arguments, convert Convert) agent.Registration {
	if convert == nil {
		args = r.Args
		convert = func(args agent.Arguments) (component.Arguments, error) { return args, nil }
	}
	return agent.Registration{
		Name:    r.Name,
		Args:    args,
		Exports: r.Exports,
		Build: func(opts agent.Options, args agent.Arguments) (agent.Component, error) {
			converted, err := convert(args)
			if err != nil {
				return nil, err
			}
			built, err := r.Build(options(opts), converted)
			if err != nil || built == nil {
				return nil, err
			}
			return &adapted{inner: built, convert: convert}, nil
		},
	}
}

func options(o agent.Options) component.Options {
	return component.Options{
		ID:            o.ID,
		Logger:        o.Logger,
		DataPath:      o.DataPath,
		OnStateChange: func(e component.Exports) { o.OnStateChange(e) },
		Registerer:    o.Registerer,
	}
}

// adapted wraps a component of Headwater as a component of the Agent.
type adapted struct {
	inner   component.Component
	convert Convert
}

var (
	_ agent.DebugComponent  = (*adapted)(nil)
	_ agent.HealthComponent = (*adapted)(nil)
	_ agenthttp.Component   = (*adapted)(nil)
)

// Run implements the Agent's component.Component.
func (a *adapted) Run(ctx context.Context) error { return a.inner.Run(ctx) }

// Update implements the Agent's component.Component.
func (a *adapted) Update(args agent.Arguments) error {
	converted, err := a.convert(args)
	if err != nil {
		return err
	}
	return a.inner.Update(converted)
}

// DebugInfo implements the Agent's component.DebugComponent.
func (a *adapted) DebugInfo() interface{} {
	if debugger, ok := a.inner.(component.DebugComponent); ok {
		return debugger.DebugInfo()
	}
	return nil
}

// CurrentHealth implements the Agent's component.HealthComponent. A component that reports no health is always healthy,
// with a zero time: the Agent then prefers every other source of health.
func (a *adapted) CurrentHealth() agent.Health {
	teller, ok := a.inner.(component.HealthComponent)
	if !ok {
		return agent.Health{Health: agent.HealthTypeHealthy}
	}
	health := teller.CurrentHealth()
	return agent.Health{Health: healthTypes[health.Health], Message: health.Message, UpdateTime: health.UpdateTime}
}

var healthTypes = map[component.HealthType]agent.HealthType{
	component.HealthTypeUnknown:   agent.HealthTypeUnknown,
	component.HealthTypeHealthy:   agent.HealthTypeHealthy,
	component.HealthTypeUnhealthy: agent.HealthTypeUnhealthy,
	component.HealthTypeExited:    agent.HealthTypeExited,
}

// Handler implements the Agent's http.Component: it returns the handler for paths below /api/v0/component/ID/, or nil.
func (a *adapted) Handler() http.Handler {
	if server, ok := a.inner.(component.HTTPComponent); ok {
		return server.Handler()
	}
	return nil
}
