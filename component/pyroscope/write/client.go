package write

import (
	"context"
	"fmt"
	"net/http"
	"runtime/debug"
	"sync/atomic"
	"time"

	"connectrpc.com/connect"
	"github.com/grafana/pyroscope/api/gen/proto/go/push/v1/pushv1connect"
	"github.com/prometheus/common/config"
	"go.opentelemetry.io/otel/trace"
)

// MaxResponse bounds the bytes that are read from an answer, which is empty or an error text.
const MaxResponse = 1 << 20

// settings are the arguments of one endpoint.
type settings struct {
	opts    *EndpointOptions
	queue   *QueueOptions // nil: profiles wait in memory
	key     string        // of the queue's directory
	tracing Tracing
}

// client pushes to one endpoint with fixed settings. It is immutable.
type client struct {
	settings
	http     *http.Client
	idle     func() // closes idle connections
	pusher   pushv1connect.PusherServiceClient
	agent    string
	broken   error         // why its URL cannot be used, or nil
	replaced chan struct{} // closed when another client replaces this one
}

// newClient returns a client. If tracer is not nil, each request is a span of tracer.
func newClient(by settings, tracer trace.TracerProvider) (*client, error) {
	opts := by.opts
	_, broken := parseEndpointURL(opts.URL)
	httpClient, err := config.NewClientFromConfig(opts.HTTPClient.Convert(), opts.Name)
	if err != nil {
		return nil, fmt.Errorf("endpoint %s: %w", endpointName(opts), err)
	}
	idle := httpClient.CloseIdleConnections // before the transport is wrapped in one without this method
	if tracer != nil {
		httpClient.Transport = by.tracing.transport(httpClient.Transport, tracer)
	}
	return &client{
		settings: by,
		http:     httpClient,
		idle:     idle,
		pusher: pushv1connect.NewPusherServiceClient(observer{httpClient}, opts.URL,
			connect.WithReadMaxBytes(MaxResponse)),
		agent:    userAgent(),
		broken:   broken,
		replaced: make(chan struct{}),
	}, nil
}

// sendItem makes one attempt to deliver the item. The response holds the HTTP status and headers, if they have arrived.
func (c *client) sendItem(ctx context.Context, it *item) (response, error) {
	var seen atomic.Pointer[response] // an abandoned request may still be answered
	ctx, cancel := context.WithTimeout(context.WithValue(ctx, responseKey{}, &seen), c.opts.RemoteTimeout)
	defer cancel()
	var err error
	if it.push != nil {
		request := connect.NewRequest(it.push)
		c.setHeaders(request.Header())
		_, err = c.pusher.Push(ctx, request)
	} else {
		err = c.postIngest(ctx, it.ingest)
	}
	if got := seen.Load(); got != nil {
		return *got, err
	}
	return response{}, err
}

func (c *client) setHeaders(to http.Header) {
	to.Set("User-Agent", c.agent)
	for name, value := range c.opts.Headers {
		to.Set(name, value)
	}
}

// close closes idle connections.
func (c *client) close() { c.idle() }

// response is the part of an HTTP response that Connect does not report.
type response struct {
	status     int // 0 if no response came
	retryAfter time.Duration
}

type responseKey struct{}

// observer records the HTTP response for the push that its request belongs to.
type observer struct{ next *http.Client }

// Do implements connect.HTTPClient.
func (o observer) Do(request *http.Request) (*http.Response, error) {
	answer, err := o.next.Do(request)
	if seen, ok := request.Context().Value(responseKey{}).(*atomic.Pointer[response]); ok && err == nil {
		seen.Store(&response{
			status:     answer.StatusCode,
			retryAfter: retryAfter(answer.Header.Get("Retry-After"), time.Now()),
		})
	}
	return answer, err
}

const modulePath = "github.com/headwater/headwater"

// userAgent returns headwater/VERSION, also if another program uses this package as a library.
func userAgent() string {
	version := ""
	if info, ok := debug.ReadBuildInfo(); ok {
		for _, m := range append(info.Deps, &info.Main) {
			if m.Path == modulePath {
				version = m.Version
			}
		}
	}
	if version == "" || version == "(devel)" {
		version = "devel"
	}
	return "headwater/" + version
}
