// Package ebpf registers Headwater's pyroscope.ebpf with Grafana Agent Flow, in place of the Agent's own. Import it for
// its side effect, and do not import the Agent's component/pyroscope/ebpf or component/all, which register a component
// with the same name.
package ebpf

import (
	"context"
	"fmt"
	"time"

	agent "github.com/grafana/agent/component"
	agentpyroscope "github.com/grafana/agent/component/pyroscope"
	"github.com/prometheus/prometheus/model/labels"

	"github.com/headwater/headwater/component"
	"github.com/headwater/headwater/component/pyroscope"
	"github.com/headwater/headwater/component/pyroscope/ebpf"
	"github.com/headwater/headwater/component/pyroscope/limits"
	"github.com/headwater/headwater/integration/agent/adapter"
)

// The Agent's components register themselves when they are imported.
func init() {
	agent.Register(Registration())
}

// Arguments are the arguments of Headwater's pyroscope.ebpf, with the Agent's receivers.
type Arguments struct {
	ForwardTo []agentpyroscope.Appendable `river:"forward_to,attr"`
	Settings  ebpf.Settings               `river:",squash"`
}

// SetToDefault implements river.Defaulter.
func (a *Arguments) SetToDefault() {
	a.ForwardTo = nil
	a.Settings.SetToDefault()
}

// Validate implements river.Validator.
func (a *Arguments) Validate() error { return a.Settings.Validate() }

// Registration returns what the Agent needs to offer the component.
func Registration() agent.Registration {
	return adapter.Registration(ebpf.Registration(), Arguments{}, convert)
}

func convert(args agent.Arguments) (component.Arguments, error) {
	decoded, ok := args.(Arguments)
	if !ok {
		return nil, fmt.Errorf("arguments of %s are a %T", ebpf.Name, args)
	}
	converted := ebpf.Arguments{Settings: decoded.Settings}
	for _, to := range decoded.ForwardTo {
		if to == nil { // its component has not exported yet
			continue
		}
		converted.ForwardTo = append(converted.ForwardTo, receiver(to))
	}
	return converted, nil
}

// receiver wraps a receiver of the Agent for Headwater. It splits profiles that exceed a server's limits, because the
// Agent's pyroscope.write does not.
func receiver(of agentpyroscope.Appendable) pyroscope.Appendable {
	return pyroscope.AppendableFunc(func(ctx context.Context, labels labels.Labels, samples []*pyroscope.RawSample) error {
		var converted []*agentpyroscope.RawSample
		for _, sample := range samples {
			parts, err := limits.Server().Split(sample.RawProfile, time.Now())
			if err != nil {
				return err
			}
			for _, part := range parts {
				converted = append(converted, &agentpyroscope.RawSample{RawProfile: part})
			}
		}
		return of.Appender().Append(ctx, labels, converted)
	})
}
