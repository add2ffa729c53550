package kubernetes

import (
	"context"
	"errors"
	"log/slog"
	"net/url"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"
	promdiscovery "github.com/prometheus/prometheus/discovery"
	"github.com/prometheus/prometheus/discovery/kubernetes"
	"github.com/prometheus/prometheus/discovery/targetgroup"
)

// Prometheus' discoverer leaves the errors of its requests to the Kubernetes client. The client has one logger for the
// whole process, and an error there does not say which discoverer it belongs to. But right before it logs, the client
// increments a counter of the discoverer's component. So an error in that logger belongs to a discoverer whose counter
// has risen since its last error.
//
// The client does not count a refused connection, and logs it only at a more detailed level. That error names the
// server, and belongs to all components that use the server.

// calm is the time without a failed request after which the component is healthy again, unless new targets show that
// earlier. The client waits for at most a minute between two attempts.
const calm = 2 * time.Minute

// stale is the longest time between a count and its error. Some counts have no error: the client does not log that a
// watch has expired.
const stale = 2 * time.Second

// config is Prometheus' configuration; its discoverer also reports failed requests.
type config struct {
	*kubernetes.SDConfig
	calm time.Duration
}

// NewDiscovererMetrics implements discovery.Config.
func (c config) NewDiscovererMetrics(reg prometheus.Registerer,
	refresh promdiscovery.RefreshMetricsInstantiator) promdiscovery.DiscovererMetrics {
	m := &metrics{}
	m.DiscovererMetrics = c.SDConfig.NewDiscovererMetrics(finder{reg, m}, refresh)
	return m
}

// NewDiscoverer implements discovery.Config.
func (c config) NewDiscoverer(o promdiscovery.DiscovererOptions) (promdiscovery.Discoverer, error) {
	m := o.Metrics.(*metrics)
	o.Metrics = m.DiscovererMetrics
	d, err := c.SDConfig.NewDiscoverer(o)
	if err != nil {
		return nil, err
	}
	server := hostOf(c.SDConfig)
	return &discoverer{Discoverer: d, failures: m.failures, logger: o.Logger, calm: c.calm, server: server}, nil
}

// metrics are a discoverer's metrics, and the counter of failed requests once it is registered.
type metrics struct {
	promdiscovery.DiscovererMetrics
	failures prometheus.Counter // nil before it is registered
}

// finder finds the counter of failed requests among the metrics that are registered.
type finder struct {
	prometheus.Registerer
	into *metrics
}

// Register implements prometheus.Registerer.
func (f finder) Register(c prometheus.Collector) error {
	if counter, ok := c.(prometheus.Counter); ok &&
		strings.Contains(counter.Desc().String(), `"prometheus_sd_kubernetes_failures_total"`) {
		f.into.failures = counter
	}
	if f.Registerer == nil {
		return nil
	}
	return f.Registerer.Register(c)
}

// discoverer wraps a discoverer and attributes errors of the Kubernetes client to it.
type discoverer struct {
	promdiscovery.Discoverer
	failures prometheus.Counter
	logger   *slog.Logger
	calm     time.Duration
	server   string // host and port of the API server, "" if they are not in the configuration

	mu     sync.Mutex
	seen   float64   // the number of failures that are dealt with
	before float64   // the number of failures at the previous look
	last   time.Time // time of the last error; zero if there was none, or after recovery
}

// Run implements discovery.Discoverer.
func (d *discoverer) Run(ctx context.Context, up chan<- []*targetgroup.Group) {
	if d.failures == nil {
		d.Discoverer.Run(ctx, up)
		return
	}
	d.seen = d.count()
	d.before = d.seen
	running.addDiscoverer(d)
	defer running.remove(d)
	ended := make(chan struct{})
	defer func() { <-ended }()
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	go func() {
		defer close(ended)
		d.watchFailures(ctx, up)
	}()
	d.Discoverer.Run(ctx, up)
}

// watchFailures forgets counts without an error, and reports a recovery by sending an empty list of changed groups.
func (d *discoverer) watchFailures(ctx context.Context, up chan<- []*targetgroup.Group) {
	ticker := time.NewTicker(min(stale, d.calm/2))
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		}
		if !d.recovered() {
			continue
		}
		select {
		case <-ctx.Done():
			return
		case up <- nil:
		}
	}
}

// recovered reports whether no request has failed for the calm time after a failure.
func (d *discoverer) recovered() bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.seen = max(d.seen, d.before)
	d.before = d.count()
	if d.last.IsZero() || time.Since(d.last) < d.calm {
		return false
	}
	d.last = time.Time{}
	return true
}

func (d *discoverer) count() float64 {
	var m dto.Metric
	if d.failures.Write(&m) != nil {
		return 0
	}
	return m.GetCounter().GetValue()
}

// claim reports whether a request of this discoverer has failed and that failure has not been claimed yet.
func (d *discoverer) claim() bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.count() <= d.seen {
		return false
	}
	d.seen++
	d.last = time.Now()
	return true
}

// discoverers are the discoverers of this process, which share the client's logger.
type discoverers struct {
	mu  sync.Mutex
	all []*discoverer
}

var running discoverers

func (r *discoverers) addDiscoverer(d *discoverer) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.all = append(r.all, d)
}

func (r *discoverers) remove(d *discoverer) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for i, other := range r.all {
		if other == d {
			r.all = append(r.all[:i:i], r.all[i+1:]...)
			return
		}
	}
}

// owner returns the logger of the discoverer whose request has just failed, or nil.
func (r *discoverers) owner() *slog.Logger {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, d := range r.all {
		if d.claim() {
			return d.logger
		}
	}
	return nil
}

// visitors returns the loggers of the discoverers that talk to a server.
func (r *discoverers) visitors(server string) []*slog.Logger {
	r.mu.Lock()
	defer r.mu.Unlock()
	var known, unknown []*slog.Logger
	for _, d := range r.all {
		switch d.server {
		case server:
			known = append(known, d.logger)
		case "":
			unknown = append(unknown, d.logger)
		default:
			continue
		}
		d.mu.Lock()
		d.last = time.Now()
		d.mu.Unlock()
	}
	return append(known, unknown...)
}

func hostOf(c *kubernetes.SDConfig) string {
	if c.APIServer.URL == nil {
		return ""
	}
	return c.APIServer.Host
}

// verbosity is the level of detail at which the client logs that a connection is
// refused.
const verbosity = 4

// sorter is the handler of the client's log. It passes an error to the discoverer that the error belongs to, and every
// other record to the logger that it was made with. Of the more detailed records it uses only reports of refused
// connections.
type sorter struct{ slog.Handler }

// Handle implements slog.Handler.
func (s sorter) Handle(ctx context.Context, r slog.Record) error {
	switch {
	case r.Level >= slog.LevelError:
		if owner := running.owner(); owner != nil {
			return owner.Handler().Handle(ctx, r)
		}
	case r.Level < slog.LevelInfo:
		server, ok := unreachable(r)
		if !ok {
			return nil
		}
		r.Level = slog.LevelError
		var errs []error
		for _, logger := range running.visitors(server) {
			errs = append(errs, logger.Handler().Handle(ctx, r))
		}
		return errors.Join(errs...)
	}
	return s.Handler.Handle(ctx, r)
}

// unreachable returns the server that refused a connection, according to a log record.
func unreachable(r slog.Record) (server string, ok bool) {
	r.Attrs(func(a slog.Attr) bool {
		err, _ := a.Value.Any().(error)
		var failed *url.Error
		if errors.Is(err, syscall.ECONNREFUSED) && errors.As(err, &failed) {
			if u, err := url.Parse(failed.URL); err == nil {
				server, ok = u.Host, true
			}
		}
		return !ok
	})
	return server, ok
}

// WithAttrs implements slog.Handler.
func (s sorter) WithAttrs(attrs []slog.Attr) slog.Handler { return sorter{s.Handler.WithAttrs(attrs)} }

// WithGroup implements slog.Handler.
func (s sorter) WithGroup(name string) slog.Handler { return sorter{s.Handler.WithGroup(name)} }
