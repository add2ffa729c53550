package write

import (
	"context"
	"path/filepath"
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
	maxAge                 time.Duration // of a profile, counted from Append
	probeEvery             time.Duration // at most between two attempts while an endpoint is unreachable
	retryDisk              time.Duration // between two attempts to use a disk that failed
	logEvery               time.Duration // between two lines of one kind
	growthWindow           time.Duration // for the least number of waiting profiles, see growth
	grace                  time.Duration // time to accept profiles after ctx is done
	flush                  time.Duration // time to send the waiting profiles after that
}

func defaultTuning() tuning {
	return tuning{
		queueBytes:   32 << 20,
		queueItems:   4096,
		senders:      4,
		maxAge:       time.Hour, // Pyroscope refuses older profiles
		probeEvery:   10 * time.Second,
		retryDisk:    time.Second,
		logEvery:     10 * time.Second,
		growthWindow: 30 * time.Second,
		grace:        500 * time.Millisecond,
		flush:        2500 * time.Millisecond, // and grace before it: less than river.DefaultStopTimeout
	}
}

// endpoint delivers profiles to one URL. It has its own queue and goroutines, so it never delays other endpoints.
type endpoint struct {
	name    string // its URL without password, for metrics, logs and health
	tuning  tuning
	metrics endpointMetrics
	journal *journal
	queue   queue
	client  atomic.Pointer[client]
	status  status
	growth  *growth
	scout   atomic.Bool // set while one of the waiting senders checks whether the endpoint is back

	kept       atomic.Int64 // profiles in flight that stay on disk for the next start
	pauseUntil atomic.Int64 // no pushes before then, in nanoseconds since 1970

	abort    context.Context // when done, deliveries under way are abandoned
	cancel   context.CancelFunc
	draining chan struct{} // when closed, senders end as soon as the queue is empty
	senders  sync.WaitGroup
}

// newEndpoint returns an endpoint. If its client has a queue on disk, the queue gets its own directory below root.
func newEndpoint(c *client, root string, t tuning, m *metrics, logger log.Logger) *endpoint {
	name := endpointName(c.opts)
	logger = log.With(logger, "endpoint", name)
	e := &endpoint{
		name:     name,
		tuning:   t,
		metrics:  m.ofEndpoint(name),
		journal:  newJournal(logger, t.logEvery),
		growth:   newGrowth(t.growthWindow),
		draining: make(chan struct{}),
	}
	if c.queue == nil {
		e.queue = newMemoryQueue(t.queueBytes, t.queueItems, e.metrics.queued)
	} else {
		e.queue = newDiskQueue(filepath.Join(root, c.key), *c.queue, t.queueBytes, t.queueItems, diskHooks{
			logger:     logger,
			report:     e.metrics.queued,
			failed:     e.metrics.diskErrors.Inc,
			fellBack:   e.fellBack,
			retryEvery: t.retryDisk,
		})
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

// usesSettings reports whether the endpoint already has these settings.
func (e *endpoint) usesSettings(by settings) bool {
	return reflect.DeepEqual(e.client.Load().settings, by)
}

// fitsSettings reports whether the endpoint can continue with these settings: its profiles go to the same server and
// wait in the same place.
func (e *endpoint) fitsSettings(by settings) bool {
	c := e.client.Load()
	return c.opts.URL == by.opts.URL && c.key == by.key && (c.queue == nil) == (by.queue == nil)
}

// configure uses c for every attempt that starts from now on, including retries of waiting profiles.
func (e *endpoint) configure(c *client) {
	old := e.client.Swap(c)
	e.pauseUntil.Store(0)
	if disk, ok := e.queue.(*diskQueue); ok {
		disk.configure(*c.queue)
		e.growth.reset()
	}
	close(old.replaced)
	old.close()
}

// enqueue hands over a profile. It never blocks because of the endpoint. It returns false if the endpoint has been
// stopped.
func (e *endpoint) enqueue(it *item) bool {
	lost, ok := e.queue.push(it)
	e.countLosses(lost...)
	e.lookAtGrowth(false)
	return ok
}

// lookAtGrowth warns once that the queue on disk grows although the endpoint is healthy. A queue in memory soon drops
// profiles, and warns about the drops instead.
func (e *endpoint) lookAtGrowth(arrived bool) {
	c := e.client.Load()
	if c.queue == nil {
		return
	}
	waiting := e.queue.usage().profiles
	if e.growth.lookAtQueue(time.Now(), waiting, arrived, c.queue.MaxInFlight) {
		e.journal.advise(growthText(c.queue.MaxInFlight), "profiles", waiting)
	}
}

// advice returns a suggestion how to change the endpoint's settings, or "".
func (e *endpoint) advice() string {
	c := e.client.Load()
	if c.queue == nil {
		return ""
	}
	return e.growth.warning(c.queue.MaxInFlight)
}

// nextItem takes the oldest profile out of the queue; it returns nil if the queue is empty.
func (e *endpoint) nextItem(extra bool) *item {
	it, lost := e.queue.pop(extra)
	e.countLosses(lost...)
	return it
}

// start starts sending.
func (e *endpoint) start() {
	e.queue.start(e.senders.Go)
	senders := e.tuning.senders
	if e.queue.keeps() {
		senders = mostInFlight // the queue itself limits the profiles under way to MaxInFlight
	}
	for range senders {
		e.senders.Go(e.sendItems)
	}
}

// stopWithin refuses further profiles, sends the waiting profiles for at most flush, and drops the remaining ones
// unless the queue keeps them. It returns when all goroutines have ended. It may be called without start.
func (e *endpoint) stopWithin(flush time.Duration) {
	e.queue.close()
	close(e.draining)
	deadline := time.AfterFunc(flush, e.cancel)
	e.senders.Wait()
	deadline.Stop()
	e.cancel()
	lost, kept := e.queue.release()
	e.countLosses(lost...)
	if kept += int(e.kept.Load()); kept > 0 {
		e.journal.logInfo("profiles stay in the queue on disk", "profiles", kept)
	}
	e.client.Load().close()
	e.journal.close()
}

// sendItems delivers profiles until the endpoint is stopped.
func (e *endpoint) sendItems() {
	var ahead []*item // taken from the queue out of order
	for e.abort.Err() == nil {
		draining := isClosed(e.draining) // read before next: the queue gets no items after draining is closed
		var it *item
		if len(ahead) > 0 {
			it, ahead = ahead[0], ahead[1:]
		} else {
			it = e.nextItem(false)
		}
		if it != nil {
			ahead = e.deliver(it, ahead)
			continue
		}
		if draining {
			return
		}
		select {
		case <-e.queue.ready():
		case <-e.draining:
		case <-e.abort.Done():
		}
	}
	for _, it := range ahead {
		e.keepItem(it, nil)
	}
}

// dropItem counts a profile that will not arrive.
func (e *endpoint) dropItem(it *item, why string, err error) {
	e.queue.done(it)
	if why == lostToRefusal {
		e.status.refused(err)
	}
	e.count(loss{why: why, profiles: 1, bytes: it.size}, err)
}

// keepItem leaves an unsent profile to the next run, if the queue supports that.
func (e *endpoint) keepItem(it *item, err error) {
	if e.queue.giveBack(it) {
		e.kept.Add(1)
		return
	}
	e.dropItem(it, lostToStop, err)
}

// countLosses counts the profiles that the queue has given up.
func (e *endpoint) countLosses(lost ...loss) {
	for _, l := range lost {
		e.count(l, nil)
	}
}

// count counts profiles that are given up. It updates the number of profiles last: a reader that sees the number also
// sees all other effects.
func (e *endpoint) count(l loss, err error) {
	e.journal.warnOf(l.why, l.profiles, l.bytes, err)
	e.status.dropped(l.profiles)
	e.metrics.lostTo(l)
	e.metrics.droppedBytes.Add(float64(l.bytes))
	e.metrics.droppedProfiles.Add(float64(l.profiles))
}

// fellBack counts a profile that waits in memory because the disk cannot take it.
func (e *endpoint) fellBack(it *item, err error) {
	e.metrics.inMemory.Inc()
	e.journal.warnOf("the queue on disk cannot be used, profiles wait in memory", 1, it.size, err)
}
