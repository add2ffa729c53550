package pyroscope

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/prometheus/model/labels"

	"github.com/headwater/headwater/component"
)

// Fanout is a receiver that passes every profile to several receivers, its children. It is safe for concurrent use.
type Fanout struct {
	componentID string
	metrics     fanoutMetrics

	mu       sync.RWMutex
	children []Appendable
}

// fanoutMetrics are the metrics of a Fanout.
type fanoutMetrics struct {
	latency   prometheus.Histogram
	forwarded prometheus.Counter
}

// NewFanout returns a Fanout to children for the component with that ID. It skips nil children. It registers the
// metrics pyroscope_fanout_latency, in seconds, and pyroscope_forwarded_entries_total with register, unless register is
// nil.
func NewFanout(children []Appendable, componentID string, register prometheus.Registerer) *Fanout {
	f := &Fanout{componentID: componentID, metrics: fanoutMetrics{
		latency: component.Registered(register, prometheus.NewHistogram(prometheus.HistogramOpts{
			Name: "pyroscope_fanout_latency",
			Help: "Time to hand a profile to all receivers, in seconds.",
		})),
		forwarded: component.Registered(register, prometheus.NewCounter(prometheus.CounterOpts{
			Name: "pyroscope_forwarded_entries_total",
			Help: "Profiles that at least one receiver accepted.",
		})),
	}}
	f.UpdateChildren(children)
	return f
}

// UpdateChildren sets the children for Appenders that are created from now on.
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

// Appender returns an Appender to the current children.
func (f *Fanout) Appender() Appender {
	a := &fanoutAppender{componentID: f.componentID, metrics: f.metrics}
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
	metrics     fanoutMetrics
}

// Append passes the profiles to all children.
func (a *fanoutAppender) Append(ctx context.Context, labels labels.Labels, samples []*RawSample) error {
	return a.appendToAll(ctx, len(samples), func(child Appender) error { return child.Append(ctx, labels, samples) })
}

// AppendIngest passes the profile to all children.
func (a *fanoutAppender) AppendIngest(ctx context.Context, profile *IncomingProfile) error {
	return a.appendToAll(ctx, 1, func(child Appender) error { return child.AppendIngest(ctx, profile) })
}

// appendToAll hands profiles to all children at the same time, so that a slow child does not delay the other children
// (in Grafana Agent it does). It returns when all children have answered or ctx is done. A child that has not answered
// by then continues by itself and counts as failed. The error is Answers.Err of all children's answers.
func (a *fanoutAppender) appendToAll(ctx context.Context, profiles int, hand func(Appender) error) error {
	start := time.Now()
	defer func() { a.metrics.latency.Observe(time.Since(start).Seconds()) }()

	answers := make(chan error, len(a.children))
	for _, child := range a.children {
		go func() { answers <- hand(child) }()
	}
	var got Answers
	forwarded := false
	for waiting := len(a.children); waiting > 0; waiting-- {
		select {
		case err := <-answers:
			got.Add(err)
			if err == nil && !forwarded {
				forwarded = true
				a.metrics.forwarded.Add(float64(profiles))
			}
		case <-ctx.Done():
			got.Add(fmt.Errorf("%d of %d receivers have not answered: %w", waiting, len(a.children), context.Cause(ctx)))
			return a.wrapError(got.Err())
		}
	}
	return a.wrapError(got.Err())
}

func (a *fanoutAppender) wrapError(err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("%s: forward profile: %w", a.componentID, err)
}
