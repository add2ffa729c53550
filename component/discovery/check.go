package discovery

import (
	"net/url"
	"reflect"
	"time"

	"github.com/headwater/headwater/component"
	"github.com/headwater/headwater/component/common/config"
)

// Check applies the same checks to config that Prometheus' library applies to a configuration in YAML. config is a
// pointer with a method UnmarshalYAML that decodes and then checks.
func Check(config interface {
	UnmarshalYAML(unmarshal func(any) error) error
}) error {
	wanted := reflect.ValueOf(config).Elem()
	scratch := reflect.New(wanted.Type())
	return scratch.Interface().(interface {
		UnmarshalYAML(func(any) error) error
	}).UnmarshalYAML(func(into any) error {
		// into points to a type with the same fields, but without methods.
		target := reflect.ValueOf(into).Elem()
		target.Set(wanted.Convert(target.Type()))
		return nil
	})
}

// CheckHost refuses a host that cannot be the address of a Docker engine, such as unix:///var/run/docker.sock or
// http://10.0.0.1:2375. Its errors do not show the host, which may contain a password.
func CheckHost(host string) error {
	u, err := url.Parse(host)
	switch {
	case err != nil:
		return component.Refuse("host", "%s", config.HideURL(err))
	case u.Scheme == "":
		return component.Refuse("host", "must be a URL, such as unix:///var/run/docker.sock or http://localhost:2375")
	}
	return nil
}

// CheckInterval refuses a refresh_interval that is zero or negative.
func CheckInterval(interval time.Duration) error {
	if interval <= 0 {
		return component.Refuse("refresh_interval", "must be greater than 0, got %s", interval)
	}
	return nil
}
