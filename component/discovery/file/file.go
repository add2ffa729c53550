// Package file is the component discovery.file: targets from JSON and YAML files, which Prometheus' discoverer reads.
package file

import (
	"time"

	"github.com/prometheus/common/model"
	promdiscovery "github.com/prometheus/prometheus/discovery"
	"github.com/prometheus/prometheus/discovery/file"

	"github.com/headwater/headwater/component"
	"github.com/headwater/headwater/component/discovery"
)

// Name is the component's name in River.
const Name = "discovery.file"

// Registration returns what a host needs to offer the component.
func Registration() component.Registration { return discovery.Registration(Name, convert) }

// Arguments configure discovery.file.
type Arguments struct {
	Files           []string      `river:"files,attr"` // paths; the last element may hold a *
	RefreshInterval time.Duration `river:"refresh_interval,attr,optional"`
}

// SetToDefault implements river.Defaulter.
func (a *Arguments) SetToDefault() { *a = Arguments{RefreshInterval: 5 * time.Minute} }

// Validate implements river.Validator.
func (a *Arguments) Validate() error {
	if err := discovery.CheckInterval(a.RefreshInterval); err != nil {
		return err
	}
	_, err := convert(*a)
	return err
}

func convert(a Arguments) (promdiscovery.Config, error) {
	out := &file.SDConfig{Files: a.Files, RefreshInterval: model.Duration(a.RefreshInterval)}
	return out, discovery.Check(out)
}
