// Package http is the component discovery.http: targets that a web server lists as JSON, fetched by Prometheus'
// discoverer.
package http

import (
	"time"

	"github.com/prometheus/common/model"
	promdiscovery "github.com/prometheus/prometheus/discovery"
	"github.com/prometheus/prometheus/discovery/http"

	"github.com/headwater/headwater/component"
	"github.com/headwater/headwater/component/common/config"
	"github.com/headwater/headwater/component/discovery"
)

// Name is the component's name in River.
const Name = "discovery.http"

// Registration returns what a host needs to offer the component.
func Registration() component.Registration {
	return discovery.Registration(Name, convert).Asking("a web server")
}

// Arguments configure discovery.http.
type Arguments struct {
	URL             config.URL              `river:"url,attr"`
	RefreshInterval time.Duration           `river:"refresh_interval,attr,optional"`
	HTTPClient      config.HTTPClientConfig `river:",squash"`
}

// SetToDefault implements river.Defaulter.
func (a *Arguments) SetToDefault() {
	*a = Arguments{RefreshInterval: time.Minute}
	a.HTTPClient.SetToDefault()
}

// Validate implements river.Validator.
func (a *Arguments) Validate() error {
	if err := discovery.CheckInterval(a.RefreshInterval); err != nil {
		return err
	}
	return a.HTTPClient.Validate()
}

// Warnings implements component.Warner. A URL that cannot be asked is no reason to refuse a configuration, because
// Grafana Alloy runs it: each request fails, and the component is unhealthy.
func (a *Arguments) Warnings() []*component.AttributeError {
	if u := a.URL.URL; u == nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "" {
		return []*component.AttributeError{{Attribute: "url", Message: "must be absolute and start with http:// or https://"}}
	}
	return nil
}

func convert(a Arguments) (promdiscovery.Config, error) {
	out := &http.SDConfig{
		HTTPClientConfig: a.HTTPClient.Convert(),
		RefreshInterval:  model.Duration(a.RefreshInterval),
	}
	if a.URL.URL != nil {
		out.URL = a.URL.String()
	}
	return out, out.HTTPClientConfig.Validate()
}
