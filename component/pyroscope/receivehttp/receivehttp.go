// Package receivehttp is the component pyroscope.receive_http: a server that receives profiles from Pyroscope's
// clients, over the push API and over POST /ingest, and forwards them.
package receivehttp

import (
	"context"
	"crypto/tls"
	"fmt"
	"net"
	"net/http"
	"reflect"
	"sync/atomic"
	"time"

	"github.com/go-kit/log/level"
	"github.com/prometheus/client_golang/prometheus"
	"golang.org/x/net/netutil"

	"github.com/headwater/headwater/component"
	"github.com/headwater/headwater/component/common/mailbox"
	"github.com/headwater/headwater/component/pyroscope"
)

// Name is the component's name in River.
const Name = "pyroscope.receive_http"

// retryListen is the wait after the component could not listen on its address.
const retryListen = 5 * time.Second

// Registration returns what a host needs to offer the component.
func Registration() component.Registration {
	return component.NewRegistration(Name, nil, func(opts component.Options, args Arguments) (*Component, error) {
		return New(opts, args), nil
	})
}

// Component is a running pyroscope.receive_http block. Its methods are safe for
// concurrent use.
type Component struct {
	component.Condition
	opts    component.Options
	fanout  *pyroscope.Fanout
	updates *mailbox.Mailbox[Arguments]
	room    *room
	partial prometheus.Counter
	addr    atomic.Value // string: the address it listens on; "" if it does not listen
}

// New makes a component that listens once Run is called.
func New(opts component.Options, args Arguments) *Component {
	c := &Component{opts: opts, fanout: pyroscope.NewFanout(args.ForwardTo, opts.ID, opts.Registerer),
		updates: mailbox.New[Arguments](),
		room:    newRoom(MaxInFlight, opts.Registerer),
		partial: component.Registered(opts.Registerer, prometheus.NewCounter(prometheus.CounterOpts{
			Name: "pyroscope_receive_http_partial_total",
			Help: "Requests answered with 200 although a receiver failed, because another receiver accepted the profile.",
		}))}
	c.SetHealth(component.HealthTypeUnknown, "not started yet")
	c.updates.Send(args)
	return c
}

// Update implements component.Component.
func (c *Component) Update(args component.Arguments) error {
	fresh, ok := args.(Arguments)
	if !ok {
		return fmt.Errorf("arguments of %s are a %T", Name, args)
	}
	c.fanout.UpdateChildren(fresh.ForwardTo)
	c.updates.Send(fresh)
	return nil
}

// Run implements component.Component. If it cannot listen on its address, it tries again.
func (c *Component) Run(ctx context.Context) error {
	var args Arguments
	var running *server
	defer func() { running.stopServer() }()
	retry := time.NewTimer(time.Hour)
	defer retry.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case fresh := <-c.updates.Receive():
			component.LogWarnings(c.opts.Logger, fresh.Warnings(), args.Warnings())
			same := reflect.DeepEqual(fresh.HTTP, args.HTTP)
			args = fresh
			if running != nil && same {
				running.grace = args.GracefulShutdownTimeout
				continue
			}
		case <-retry.C:
			if running != nil {
				continue
			}
		}
		running.stopServer()
		var err error
		if running, err = c.startServer(args); err != nil {
			level.Error(c.opts.Logger).Log("msg", "no profiles can be received", "err", err, "retry_in", retryListen)
			c.addr.Store("")
			c.SetHealth(component.HealthTypeUnhealthy, err.Error())
			retry.Reset(retryListen)
			continue
		}
		c.SetHealth(component.HealthTypeHealthy, "listening on "+running.addr)
		c.addr.Store(running.addr)
	}
}

// server is a listening HTTP server.
type server struct {
	http  *http.Server
	addr  string
	grace time.Duration // for requests in flight when it ends
	done  chan struct{} // closed when it has ended
}

func (c *Component) startServer(args Arguments) (*server, error) {
	config := args.HTTP
	var secure *tls.Config
	if config.TLS != nil {
		var err error
		if secure, err = config.TLS.server().Config(c.opts.Logger); err != nil {
			return nil, err
		}
	}
	listener, err := net.Listen("tcp", config.address())
	if err != nil {
		return nil, err
	}
	if config.ConnLimit > 0 {
		listener = netutil.LimitListener(listener, config.ConnLimit)
	}
	protocols := new(http.Protocols)
	protocols.SetHTTP1(true)
	protocols.SetHTTP2(true)
	protocols.SetUnencryptedHTTP2(true)
	s := &server{
		addr: listener.Addr().String(), grace: args.GracefulShutdownTimeout, done: make(chan struct{}),
		http: &http.Server{
			Handler: c.handler(config.ServerReadTimeout), MaxHeaderBytes: MaxHeader, Protocols: protocols,
			HTTP2: config.HTTP2.config(), TLSConfig: secure,
			ReadTimeout: config.ServerReadTimeout, WriteTimeout: config.ServerWriteTimeout,
			IdleTimeout: config.ServerIdleTimeout,
		},
	}
	go func() {
		defer close(s.done)
		if secure == nil {
			_ = s.http.Serve(listener) // returns when the server is stopped
		} else {
			_ = s.http.ServeTLS(listener, "", "")
		}
	}()
	return s, nil
}

// stopServer waits for requests in flight, then closes their connections. It accepts a nil server.
func (s *server) stopServer() {
	if s == nil {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), s.grace)
	defer cancel()
	if s.http.Shutdown(ctx) != nil {
		_ = s.http.Close() // the error does not matter any longer
	}
	<-s.done
}
