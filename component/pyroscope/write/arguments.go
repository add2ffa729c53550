package write

import (
	"errors"
	"fmt"
	"maps"
	"net/url"
	"slices"
	"time"

	"golang.org/x/net/http/httpguts"

	"github.com/headwater/headwater/component"
	"github.com/headwater/headwater/component/common/config"
	"github.com/headwater/headwater/component/pyroscope"
)

// Arguments configure pyroscope.write.
type Arguments struct {
	// added to every profile; they overwrite its own labels
	ExternalLabels map[string]string  `river:"external_labels,attr,optional"`
	Endpoints      []*EndpointOptions `river:"endpoint,block,optional"`
	Queue          *QueueOptions      `river:"queue,block,optional"` // nil: profiles wait in memory
	Tracing        Tracing            `river:"tracing,block,optional"`
}

// Exports are the values of pyroscope.write that other components can refer to.
type Exports struct {
	Receiver pyroscope.Appendable `river:"receiver,attr"`
}

// SetToDefault implements river.Defaulter.
func (a *Arguments) SetToDefault() {
	*a = Arguments{}
	a.Tracing.SetToDefault()
}

// Validate implements river.Validator. It also checks the endpoints, because only here it is known which endpoint an
// error is about.
func (a *Arguments) Validate() error {
	for _, name := range slices.Sorted(maps.Keys(a.ExternalLabels)) {
		if err := pyroscope.CheckLabel(name, a.ExternalLabels[name]); err != nil {
			return component.Refuse("external_labels", "cannot be used: %s", err)
		}
	}
	if a.Queue != nil {
		if err := a.Queue.check(); err != nil {
			return err
		}
	}
	for i, o := range a.Endpoints {
		err := o.check()
		if err == nil {
			continue
		}
		var attribute *component.AttributeError
		if len(a.Endpoints) == 1 && errors.As(err, &attribute) {
			return component.Refuse("endpoint."+attribute.Attribute, "%s", attribute.Message)
		}
		return fmt.Errorf("endpoint %d of %d: %w", i+1, len(a.Endpoints), err)
	}
	return nil
}

// settings returns the settings of each endpoint.
func (a *Arguments) settings() []settings {
	all := make([]settings, len(a.Endpoints))
	keys := queueKeys(a.Endpoints)
	for i, o := range a.Endpoints {
		all[i] = settings{opts: o, tracing: a.Tracing}
		if a.Queue != nil {
			all[i].queue, all[i].key = a.Queue, keys[i]
		}
	}
	return all
}

// EndpointOptions say where and how profiles are pushed.
type EndpointOptions struct {
	Name          string                  `river:"name,attr,optional"` // of the HTTP client in metrics
	URL           string                  `river:"url,attr"`
	RemoteTimeout time.Duration           `river:"remote_timeout,attr,optional"` // of one attempt
	Headers       map[string]string       `river:"headers,attr,optional"`
	HTTPClient    config.HTTPClientConfig `river:",squash"`
	MinBackoff    time.Duration           `river:"min_backoff_period,attr,optional"` // wait before the first retry
	// longest wait between two retries
	MaxBackoff        time.Duration `river:"max_backoff_period,attr,optional"`
	MaxBackoffRetries int           `river:"max_backoff_retries,attr,optional"` // 0: no limit
	// retry when the server answers with status 429 (too many requests)
	RetryOnHTTP429 bool `river:"retry_on_http_429,attr,optional"`

	// DebugInfoUploadTimeout is accepted because Grafana Alloy has it, but has no effect.
	DebugInfoUploadTimeout time.Duration `river:"debug_info_upload_timeout,attr,optional"`
}

// SetToDefault implements river.Defaulter.
func (o *EndpointOptions) SetToDefault() {
	*o = EndpointOptions{
		RemoteTimeout:     10 * time.Second,
		MinBackoff:        500 * time.Millisecond,
		MaxBackoff:        5 * time.Minute,
		MaxBackoffRetries: 10,
		RetryOnHTTP429:    true,
	}
	o.HTTPClient.SetToDefault()
}

// check returns an error that names the first argument that cannot be used.
func (o *EndpointOptions) check() error {
	switch {
	case o.RemoteTimeout <= 0:
		return component.Refuse("remote_timeout", "must be longer than 0s, got %s", o.RemoteTimeout)
	case o.MinBackoff < 0:
		return component.Refuse("min_backoff_period", "must not be negative, got %s", o.MinBackoff)
	case o.MaxBackoff < 0:
		return component.Refuse("max_backoff_period", "must not be negative, got %s", o.MaxBackoff)
	case o.MaxBackoffRetries < 0:
		return component.Refuse("max_backoff_retries", "must not be negative, got %d", o.MaxBackoffRetries)
	}
	for _, name := range slices.Sorted(maps.Keys(o.Headers)) {
		if err := config.CheckHeaderName("headers", name); err != nil {
			return err
		}
		if !httpguts.ValidHeaderFieldValue(o.Headers[name]) { // do not show the value, it may be a secret
			return component.Refuse("headers", "has a value for %q that is not valid in an HTTP header", name)
		}
	}
	return o.HTTPClient.Validate()
}

// parseEndpointURL parses the URL of an endpoint. Its errors do not show the URL.
func parseEndpointURL(raw string) (*url.URL, error) {
	u, err := url.Parse(raw)
	if err != nil {
		return nil, config.HideURL(err)
	}
	switch {
	case u.Scheme != "http" && u.Scheme != "https":
		return nil, fmt.Errorf("must be absolute and start with http:// or https://, got %q", u.Redacted())
	case u.Hostname() == "":
		return nil, errors.New("names no host")
	case u.RawQuery != "" || u.Fragment != "":
		return nil, errors.New("must have neither query nor fragment, since the path of the push API is appended")
	}
	return u, nil
}

// Warnings implements component.Warner. A URL that profiles cannot be pushed to is no reason to refuse a configuration,
// because Grafana Alloy runs it: the endpoint is unhealthy, and drops and counts its profiles.
func (a *Arguments) Warnings() []*component.AttributeError {
	var warnings []*component.AttributeError
	for i, o := range a.Endpoints {
		of := ""
		if len(a.Endpoints) > 1 {
			of = fmt.Sprintf("of endpoint %d of %d ", i+1, len(a.Endpoints))
		}
		if _, err := parseEndpointURL(o.URL); err != nil {
			warnings = append(warnings, &component.AttributeError{Attribute: "endpoint.url", Message: of + err.Error()})
		}
		if o.DebugInfoUploadTimeout != 0 {
			warnings = append(warnings, component.NoEffect("endpoint.debug_info_upload_timeout", ""))
		}
	}
	return warnings
}
