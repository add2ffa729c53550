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

// SwarmName is the name of discovery.dockerswarm in River.
const SwarmName = "discovery.dockerswarm"

// SwarmRegistration returns what a host needs to offer discovery.dockerswarm.
func SwarmRegistration() component.Registration {
	return discovery.Registration(SwarmName, convertSwarm).Asking("a Docker engine")
}

// SwarmArguments configure discovery.dockerswarm.
type SwarmArguments struct {
	Host            string                  `river:"host,attr"`
	Role            string                  `river:"role,attr"`          // services, tasks or nodes
	Port            int                     `river:"port,attr,optional"` // of targets that publish no port
	RefreshInterval time.Duration           `river:"refresh_interval,attr,optional"`
	Filters         []Filter                `river:"filter,block,optional"`
	HTTPClient      config.HTTPClientConfig `river:",squash"`
}

// SetToDefault implements river.Defaulter.
func (a *SwarmArguments) SetToDefault() {
	*a = SwarmArguments{Port: 80, RefreshInterval: time.Minute}
	a.HTTPClient.SetToDefault()
}

// Validate implements river.Validator.
func (a *SwarmArguments) Validate() error {
	if err := check(a.Host, a.RefreshInterval, a.HTTPClient); err != nil {
		return err
	}
	_, err := convertSwarm(*a)
	return err
}

func convertSwarm(a SwarmArguments) (promdiscovery.Config, error) {
	out := &moby.DockerSwarmSDConfig{
		HTTPClientConfig: a.HTTPClient.Convert(),
		Host:             a.Host,
		Role:             a.Role,
		Port:             a.Port,
		RefreshInterval:  model.Duration(a.RefreshInterval),
		Filters:          filters(a.Filters),
	}
	return out, discovery.Check(out)
}
