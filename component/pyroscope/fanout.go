package pyroscope

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/prometheus/model/labels"
)

// Fanout is a receiver that passes every profile to several others, its
// children. It is safe for concurrent use.
type Fanout struct {
	componentID string
	latency     prometheus.Histogram

	mu       sync.RWMutex
	children []Appendable
}

// NewFanout returns a Fanout to children on behalf of the component of that ID.
// Nil children are skipped. The histogram pyroscope_fanout_latency, in seconds,
// is registered with register, unless that is nil.
func NewFanout(children []Appendable, componentID string, register prometheus.Registerer) *Fanout {
	f := &Fanout{componentID: componentID, latency: registerLatency(register)}
	f.UpdateChildren(children)
	return f
}

// registerLatency returns the histogram, the one that is there already if an
// earlier Fanout of the component registered it.
func registerLatency(register prometheus.Registerer) prometheus.Histogram {
	latency := prometheus.NewHistogram(prometheus.HistogramOpts{
		Name: "pyroscope_fanout_latency",
		Help: "Time to hand a profile to all receivers, in seconds.",
	})
	if register == nil {
		return latency
	}
	var taken prometheus.AlreadyRegisteredError
	if err := register.Register(latency); errors.As(err, &taken) {
		if existing, ok := taken.ExistingCollector.(prometheus.Histogram); ok {
			return existing
		}
	}
	return latency
}

// UpdateChildren sets the children of Appenders got from now on.
func (f *Fanout) UpdateChildren(children []Appendable) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.children = slices.Clone(children)
}

// Children returns the children.
func (f *Fanout) Children() []Appendable {
	f.mu.RLock()
	defer f.mu.RUnlock()
	return slices.Clone(f.children)
}

// Appender returns an Appender to the children of this moment.
func (f *Fanout) Appender() Appender {
	a := &fanoutAppender{componentID: f.componentID, latency: f.latency}
	for _, child := range f.Children() {
		if child != nil {
			a.children = append(a.children, child.Appender())
		}
	}
	return a
}

type fanoutAppender struct {
	children    []Appender
	componentID string
	latency     prometheus.Histogram
}

// Append passes the profiles to all children.
func (a *fanoutAppender) Append(ctx context.Context, labels labels.Labels, samples []*RawSample) error {
	return a.all(ctx, func(child Appender) error { return child.Append(ctx, labels, samples) })
}

// AppendIngest passes the profile to all children.
func (a *fanoutAppender) AppendIngest(ctx context.Context, profile *IncomingProfile) error {
	return a.all(ctx, func(child Appender) error { return child.AppendIngest(ctx, profile) })
}

// all hands something to all children at the same time, so that a slow one holds
// up none of the others (in Grafana Agent they wait for each other). It returns
// when all have answered or ctx is done; a child that has not answered then goes
// on by itself and counts as failed. The error joins those of all children.
func (a *fanoutAppender) all(ctx context.Context, hand func(Appender) error) error {
	start := time.Now()
	defer func() { a.latency.Observe(time.Since(start).Seconds()) }()

	answers := make(chan error, len(a.children))
	for _, child := range a.children {
		go func() { answers <- hand(child) }()
	}
	var errs []error
	for waiting := len(a.children); waiting > 0; waiting-- {
		select {
		case err := <-answers:
			errs = append(errs, err)
		case <-ctx.Done():
			errs = append(errs, fmt.Errorf("%d of %d receivers have not answered: %w", waiting, len(a.children), context.Cause(ctx)))
			return a.wrap(errors.Join(errs...))
		}
	}
	return a.wrap(errors.Join(errs...))
}

func (a *fanoutAppender) wrap(err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("%s: forward profile: %w", a.componentID, err)
}
