// Package dns is the component discovery.dns: targets from DNS records, which Prometheus' discoverer looks up.
package dns

import (
	"time"

	"github.com/prometheus/common/model"
	promdiscovery "github.com/prometheus/prometheus/discovery"
	"github.com/prometheus/prometheus/discovery/dns"

	"github.com/headwater/headwater/component"
	"github.com/headwater/headwater/component/discovery"
)

// Name is the component's name in River.
const Name = "discovery.dns"

// Registration returns what a host needs to offer the component.
func Registration() component.Registration {
	return discovery.Registration(Name, convert).Asking("a name server")
}

// Arguments configure discovery.dns.
type Arguments struct {
	Names           []string      `river:"names,attr"`
	RefreshInterval time.Duration `river:"refresh_interval,attr,optional"`
	Type            string        `river:"type,attr,optional"` // SRV, A, AAAA, MX or NS
	Port            int           `river:"port,attr,optional"` // of the targets; SRV records contain their own
}

// SetToDefault implements river.Defaulter.
func (a *Arguments) SetToDefault() { *a = Arguments{RefreshInterval: 30 * time.Second, Type: "SRV"} }

// Validate implements river.Validator.
func (a *Arguments) Validate() error {
	if err := discovery.CheckInterval(a.RefreshInterval); err != nil {
		return err
	}
	_, err := convert(*a)
	return err
}

func convert(a Arguments) (promdiscovery.Config, error) {
	out := &dns.SDConfig{
		Names: a.Names, Type: a.Type, Port: a.Port,
		RefreshInterval: model.Duration(a.RefreshInterval),
	}
	return out, discovery.Check(out)
}
