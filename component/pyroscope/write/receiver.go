package write

import (
	"context"
	"fmt"
	"maps"
	"sync/atomic"
	"time"

	pushv1 "github.com/grafana/pyroscope/api/gen/proto/go/push/v1"
	"github.com/prometheus/prometheus/model/labels"

	"github.com/headwater/headwater/component/pyroscope"
	"github.com/headwater/headwater/component/pyroscope/limits"
)

// receiver is the component's Appendable. It stays the same across updates, so that other components can keep it.
type receiver struct {
	componentID string
	routes      atomic.Pointer[routes] // nil: the component has ended
}

// routes are the destinations of profiles. They are immutable.
type routes struct {
	external  map[string]string
	endpoints []*endpoint
}

var _ pyroscope.Appendable = (*receiver)(nil)

func newReceiver(componentID string) *receiver {
	return &receiver{componentID: componentID}
}

func (r *receiver) update(external map[string]string, endpoints []*endpoint) {
	r.routes.Store(&routes{external: maps.Clone(external), endpoints: endpoints})
}

// close makes every Append fail.
func (r *receiver) close() { r.routes.Store(nil) }

// Appender implements pyroscope.Appendable.
func (r *receiver) Appender() pyroscope.Appender { return r }

// Append implements pyroscope.Appender: it puts the profiles into the queue of every endpoint. It ignores ctx and never
// blocks. An error means that the profiles were not queued; metrics, log and health report their later fate.
//
// Append splits a profile that exceeds Pyroscope's limits. It pushes each part in its own request: Pyroscope stores the
// valid profiles of a batch even when it refuses the batch, and a retry would store them twice.
func (r *receiver) Append(_ context.Context, of labels.Labels, samples []*pyroscope.RawSample) error {
	to := r.routes.Load()
	if to == nil {
		return fmt.Errorf("%s has exited", r.componentID)
	}
	pairs, err := pushLabels(of, to.external)
	if err != nil {
		for _, sample := range samples {
			to.refuse(loss{why: lostToLabels, profiles: 1, bytes: len(sample.RawProfile)}, err)
		}
		return &pyroscope.RefusedError{Err: err}
	}
	now := time.Now()
	var got pyroscope.Answers
	for _, sample := range samples {
		parts, err := limits.Server().Split(sample.RawProfile, now)
		if err != nil {
			to.refuse(loss{why: lostToTooBig, profiles: 1, bytes: len(sample.RawProfile)}, err)
			got.Add(&pyroscope.RefusedError{Err: err, TooLarge: true})
			continue
		}
		for _, part := range parts {
			got.Add(to.enqueue(&item{
				size:  len(part),
				taken: now,
				push: &pushv1.PushRequest{Series: []*pushv1.RawProfileSeries{{
					Labels:  pairs,
					Samples: []*pushv1.RawSample{{ID: sample.ID, RawProfile: part}},
				}}},
			}))
		}
	}
	return got.Err()
}

// refuse counts a profile that no endpoint gets.
func (to *routes) refuse(l loss, err error) {
	for _, e := range to.endpoints {
		e.status.refused(err)
		e.count(l, err)
	}
}

// AppendIngest implements pyroscope.Appender in the same way as Append.
func (r *receiver) AppendIngest(_ context.Context, profile *pyroscope.IncomingProfile) error {
	to := r.routes.Load()
	if to == nil {
		return fmt.Errorf("%s has exited", r.componentID)
	}
	request, err := newIngestRequest(profile, to.external)
	if err != nil {
		to.refuse(loss{why: lostToLabels, profiles: 1, bytes: len(profile.RawBody)}, err)
		return &pyroscope.RefusedError{Err: err}
	}
	return to.enqueue(&item{size: len(profile.RawBody), taken: time.Now(), ingest: request})
}

// enqueue hands an item to all endpoints.
func (to *routes) enqueue(it *item) error {
	var got pyroscope.Answers
	for _, e := range to.endpoints {
		if e.enqueue(it) {
			got.Add(nil)
		} else {
			got.Add(fmt.Errorf("endpoint %s has been removed", e.name))
		}
	}
	return got.Err()
}
