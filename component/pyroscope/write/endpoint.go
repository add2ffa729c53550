package write

import (
	"context"
	"reflect"
	"sync"
	"sync/atomic"
	"time"

	"github.com/go-kit/log"
)

// tuning are the limits of an endpoint that cannot be configured.
type tuning struct {
	queueBytes, queueItems int           // profiles that wait for one endpoint
	senders                int           // profiles under way to one endpoint
	maxAge                 time.Duration // of a profile, from when it was handed over
	logEvery               time.Duration // between two lines of one kind
	grace                  time.Duration // for profiles that come when we are told to stop
	flush                  time.Duration // for what waits then
}

func defaultTuning() tuning {
	return tuning{
		queueBytes: 32 << 20,
		queueItems: 4096,
		senders:    4,
		maxAge:     time.Hour, // Pyroscope refuses what is older
		logEvery:   10 * time.Second,
		grace:      500 * time.Millisecond,
		flush:      5 * time.Second,
	}
}

// endpoint delivers profiles to one URL, from a queue of its own by goroutines of
// its own, so that it never holds up others.
type endpoint struct {
	name    string // its URL without password, as in metrics, logs and health
	tuning  tuning
	metrics endpointMetrics
	journal *journal
	queue   *queue
	client  atomic.Pointer[client]
	status  status

	pauseUntil atomic.Int64 // no pushes before then, in nanoseconds since 1970

	abort    context.Context // done: give up what is under way
	cancel   context.CancelFunc
	draining chan struct{} // closed: end when the queue is empty
	senders  sync.WaitGroup
}

func newEndpoint(c *client, t tuning, m *metrics, logger log.Logger) *endpoint {
	name := endpointName(c.opts)
	e := &endpoint{
		name:     name,
		tuning:   t,
		metrics:  m.of(name),
		journal:  newJournal(log.With(logger, "endpoint", name), t.logEvery),
		queue:    newQueue(t.queueBytes, t.queueItems),
		draining: make(chan struct{}),
	}
	e.abort, e.cancel = context.WithCancel(context.Background())
	e.client.Store(c)
	return e
}

// endpointName returns the URL of an endpoint without its password.
func endpointName(o *EndpointOptions) string {
	u, err := parseEndpointURL(o.URL)
	if err != nil {
		return "invalid URL"
	}
	return u.Redacted()
}

// uses reports whether the endpoint already works with these options.
func (e *endpoint) uses(o *EndpointOptions) bool {
	return reflect.DeepEqual(e.client.Load().opts, o)
}

// configure puts c in force for every attempt that begins from now on, retries
// of profiles that wait included.
func (e *endpoint) configure(c *client) {
	old := e.client.Swap(c)
	e.pauseUntil.Store(0)
	close(old.replaced)
	old.close()
}

// enqueue hands over a profile and never blocks. It reports false if the endpoint
// has been stopped.
func (e *endpoint) enqueue(it *item) bool {
	dropped, ok := e.queue.push(it)
	if !ok {
		return false
	}
	e.metrics.queued(it, 1)
	for _, d := range dropped {
		e.metrics.queued(d, -1)
		e.drop(d, "dropped profiles, the queue is full", nil)
	}
	return true
}

// next takes the oldest profile out of the queue, nil if there is none.
func (e *endpoint) next() *item {
	it := e.queue.pop()
	if it != nil {
		e.metrics.queued(it, -1)
	}
	return it
}

// start begins to send.
func (e *endpoint) start() {
	for range e.tuning.senders {
		e.senders.Go(e.send)
	}
}

// stop takes no more profiles, sends what waits for at most flush, and drops the
// rest. It returns when all is quiet, also if start was never called.
func (e *endpoint) stop(flush time.Duration) {
	e.queue.close()
	close(e.draining)
	deadline := time.AfterFunc(flush, e.cancel)
	e.senders.Wait()
	deadline.Stop()
	e.cancel()
	for it := e.next(); it != nil; it = e.next() {
		e.drop(it, "dropped profiles, stopped before they were sent", nil)
	}
	e.client.Load().close()
	e.journal.close()
}

// send delivers profiles until the endpoint is stopped.
func (e *endpoint) send() {
	for e.abort.Err() == nil {
		draining := isClosed(e.draining) // before looking: nothing comes after that
		if it := e.next(); it != nil {
			e.deliver(it)
			continue
		}
		if draining {
			return
		}
		select {
		case <-e.queue.ready:
		case <-e.draining:
		case <-e.abort.Done():
		}
	}
}

// drop counts a profile that will not arrive.
func (e *endpoint) drop(it *item, why string, err error) {
	e.metrics.droppedProfiles.Inc()
	e.metrics.droppedBytes.Add(float64(it.size))
	e.status.dropped()
	e.journal.warn(why, it.size, err)
}
