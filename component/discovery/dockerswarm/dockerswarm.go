// Package dockerswarm is the component discovery.dockerswarm: the services, tasks
// or nodes of a Docker swarm, found by Prometheus' discoverer.
package dockerswarm

import (
	"time"

	"github.com/prometheus/common/model"
	promdiscovery "github.com/prometheus/prometheus/discovery"
	"github.com/prometheus/prometheus/discovery/moby"

	"github.com/headwater/headwater/component"
	"github.com/headwater/headwater/component/common/config"
	"github.com/headwater/headwater/component/discovery"
)

// Name is the component's name in River.
const Name = "discovery.dockerswarm"

// Registration returns what a host needs to offer the component.
func Registration() component.Registration { return discovery.Registration(Name, convert) }

// Arguments configure discovery.dockerswarm.
type Arguments struct {
	Host            string                  `river:"host,attr"`
	Role            string                  `river:"role,attr"`          // services, tasks or nodes
	Port            int                     `river:"port,attr,optional"` // of targets that publish none
	RefreshInterval time.Duration           `river:"refresh_interval,attr,optional"`
	Filters         []Filter                `river:"filter,block,optional"`
	HTTPClient      config.HTTPClientConfig `river:",squash"`
}

// Filter is a filter of Docker's API.
type Filter struct {
	Name   string   `river:"name,attr"`
	Values []string `river:"values,attr"`
}

// SetToDefault implements river.Defaulter.
func (a *Arguments) SetToDefault() {
	*a = Arguments{Port: 80, RefreshInterval: time.Minute}
	a.HTTPClient.SetToDefault()
}

// Validate implements river.Validator.
func (a *Arguments) Validate() error {
	if err := discovery.CheckHost(a.Host); err != nil {
		return err
	}
	if err := discovery.CheckInterval(a.RefreshInterval); err != nil {
		return err
	}
	if err := a.HTTPClient.Validate(); err != nil {
		return err
	}
	_, err := convert(*a)
	return err
}

func convert(a Arguments) (promdiscovery.Config, error) {
	out := &moby.DockerSwarmSDConfig{
		HTTPClientConfig: a.HTTPClient.Convert(),
		Host:             a.Host,
		Role:             a.Role,
		Port:             a.Port,
		RefreshInterval:  model.Duration(a.RefreshInterval),
	}
	for _, f := range a.Filters {
		out.Filters = append(out.Filters, moby.Filter{Name: f.Name, Values: f.Values})
	}
	return out, discovery.Check(out)
}
