// Package docker holds the components discovery.docker, which finds the containers of a Docker engine, and
// discovery.dockerswarm, which finds the services, tasks or nodes of a swarm. Prometheus' discoverers do the work.
package docker

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
const Name = "discovery.docker"

// Registration returns what a host needs to offer the component.
func Registration() component.Registration {
	return discovery.Registration(Name, convert).Asking("a Docker engine")
}

// Arguments configure discovery.docker.
type Arguments struct {
	Host               string        `river:"host,attr"`
	Port               int           `river:"port,attr,optional"` // of targets that publish no port
	HostNetworkingHost string        `river:"host_networking_host,attr,optional"`
	RefreshInterval    time.Duration `river:"refresh_interval,attr,optional"`
	// one target per container, not one per network
	MatchFirstNetwork bool                    `river:"match_first_network,attr,optional"`
	Filters           []Filter                `river:"filter,block,optional"`
	HTTPClient        config.HTTPClientConfig `river:",squash"`
}

// Filter is a filter of Docker's API: it keeps objects that have one of the values.
type Filter struct {
	Name   string   `river:"name,attr"`
	Values []string `river:"values,attr"`
}

// SetToDefault implements river.Defaulter.
func (a *Arguments) SetToDefault() {
	*a = Arguments{Port: 80, HostNetworkingHost: "localhost", RefreshInterval: time.Minute, MatchFirstNetwork: true}
	a.HTTPClient.SetToDefault()
}

// Validate implements river.Validator.
func (a *Arguments) Validate() error {
	return check(a.Host, a.RefreshInterval, a.HTTPClient)
}

// check checks the arguments that both components share.
func check(host string, refreshInterval time.Duration, client config.HTTPClientConfig) error {
	if err := discovery.CheckHost(host); err != nil {
		return err
	}
	if err := discovery.CheckInterval(refreshInterval); err != nil {
		return err
	}
	return client.Validate()
}

func convert(a Arguments) (promdiscovery.Config, error) {
	out := &moby.DockerSDConfig{
		HTTPClientConfig:   a.HTTPClient.Convert(),
		Host:               a.Host,
		Port:               a.Port,
		HostNetworkingHost: a.HostNetworkingHost,
		RefreshInterval:    model.Duration(a.RefreshInterval),
		MatchFirstNetwork:  a.MatchFirstNetwork,
		Filters:            filters(a.Filters),
	}
	return out, discovery.Check(out)
}

func filters(all []Filter) []moby.Filter {
	var out []moby.Filter
	for _, f := range all {
		out = append(out, moby.Filter{Name: f.Name, Values: f.Values})
	}
	return out
}
