// Package http is the component remote.http: the body of a web resource, kept up to date.
package http

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/grafana/river/rivertypes"
	promconfig "github.com/prometheus/common/config"

	"github.com/headwater/headwater/component"
	"github.com/headwater/headwater/component/common/config"
	"github.com/headwater/headwater/component/remote/polled"
)

// Name is the component's name in River.
const Name = "remote.http"

// maxBody bounds the body of an answer, in bytes.
const maxBody = 32 << 20

// Registration returns what a host needs to offer the component.
func Registration() component.Registration {
	return component.NewRegistration(Name, Exports{}, New).Answering("a web server")
}

// Arguments configure remote.http.
type Arguments struct {
	URL           config.URL        `river:"url,attr"`
	PollFrequency time.Duration     `river:"poll_frequency,attr,optional"`
	PollTimeout   time.Duration     `river:"poll_timeout,attr,optional"`
	IsSecret      bool              `river:"is_secret,attr,optional"`
	Method        string            `river:"method,attr,optional"`
	Headers       map[string]string `river:"headers,attr,optional"`
	Body          string            `river:"body,attr,optional"`
	Client        Client            `river:"client,block,optional"`
}

// Client is the block with the HTTP client's arguments.
type Client struct {
	HTTP config.HTTPClientConfig `river:",squash"`
}

// SetToDefault implements river.Defaulter.
func (c *Client) SetToDefault() { c.HTTP.SetToDefault() }

// Validate implements river.Validator.
func (c *Client) Validate() error { return c.HTTP.Validate() }

// Exports are the values of remote.http that other components can refer to.
type Exports struct {
	Content rivertypes.OptionalSecret `river:"content,attr"`
}

// SetToDefault implements river.Defaulter.
func (a *Arguments) SetToDefault() {
	*a = Arguments{PollFrequency: time.Minute, PollTimeout: 10 * time.Second, Method: http.MethodGet}
	a.Client.SetToDefault()
}

// Validate implements river.Validator.
func (a *Arguments) Validate() error {
	switch {
	case a.URL.URL == nil || a.URL.Scheme != "http" && a.URL.Scheme != "https" || a.URL.Hostname() == "":
		return errors.New("url must be absolute and start with http:// or https://")
	case a.PollFrequency <= 0:
		return errors.New("poll_frequency must be greater than 0")
	case a.PollTimeout <= 0:
		return errors.New("poll_timeout must be greater than 0")
	case a.PollTimeout >= a.PollFrequency:
		return errors.New("poll_timeout must be less than poll_frequency")
	}
	for name := range a.Headers {
		if err := config.CheckHeaderName("headers", name); err != nil {
			return err
		}
	}
	_, err := a.request(context.Background())
	return err
}

func (a *Arguments) request(ctx context.Context) (*http.Request, error) {
	request, err := http.NewRequestWithContext(ctx, a.Method, a.URL.String(), strings.NewReader(a.Body))
	if err != nil {
		return nil, config.HideURL(err)
	}
	for name, value := range a.Headers {
		request.Header.Set(name, value)
	}
	return request, nil
}

// Component is a running remote.http block.
type Component = polled.Component[Arguments, Exports]

var kind = polled.Kind[Arguments, Exports]{
	Interval: func(a Arguments) time.Duration { return a.PollFrequency },
	Open:     openClient,
	Healthy:  "polled endpoint",
}

// New requests the content and exports it. It returns an error if that fails, since components that refer to the
// content would get none.
func New(opts component.Options, args Arguments) (*Component, error) { return kind.New(opts, args) }

func openClient(args Arguments) (polled.Client[Exports], error) {
	client, err := promconfig.NewClientFromConfig(args.Client.HTTP.Convert(), Name)
	return &reader{args, client}, err
}

// reader reads the content of a web resource.
type reader struct {
	args   Arguments
	client *http.Client
}

// Read implements polled.Client.
func (r *reader) Read(ctx context.Context) (Exports, error) {
	content, err := requestText(ctx, r.args, r.client)
	return Exports{Content: rivertypes.OptionalSecret{IsSecret: r.args.IsSecret, Value: content}}, err
}

// Close implements polled.Client.
func (r *reader) Close() { r.client.CloseIdleConnections() }

// requestText returns the body of the answer without surrounding white space. Its errors do not show the URL, which may
// contain a password.
func requestText(ctx context.Context, args Arguments, client *http.Client) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, args.PollTimeout)
	defer cancel()
	request, err := args.request(ctx)
	if err != nil {
		return "", err
	}
	response, err := client.Do(request)
	if err != nil {
		var failed *url.Error
		if errors.As(err, &failed) {
			err = failed.Err
		}
		return "", fmt.Errorf("performing request to %s: %w", args.URL.Redacted(), err)
	}
	defer response.Body.Close()
	body, err := io.ReadAll(io.LimitReader(response.Body, maxBody+1))
	switch {
	case err != nil:
		return "", fmt.Errorf("reading answer of %s: %w", args.URL.Redacted(), err)
	case response.StatusCode != http.StatusOK:
		return "", fmt.Errorf("unexpected status code %s from %s", response.Status, args.URL.Redacted())
	case len(body) > maxBody:
		return "", fmt.Errorf("answer of %s is longer than %d bytes", args.URL.Redacted(), maxBody)
	}
	return strings.TrimSpace(string(body)), nil
}
