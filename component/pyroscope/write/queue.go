package write

import (
	"time"

	pushv1 "github.com/grafana/pyroscope/api/gen/proto/go/push/v1"
)

// item is one profile to be pushed, by the push API or by the older ingest API.
// Endpoints share it, so it never changes.
type item struct {
	push   *pushv1.PushRequest
	ingest *ingestRequest // set if push is nil
	size   int            // bytes of the profile
	taken  time.Time
	place  uint64 // in a queue on disk, 0 if it has none
	stored bool   // read from disk, where it still is
}

// service returns the service that the profile is of; "" for one of the ingest API, or if it has none.
func (it *item) service() string {
	if it.push == nil {
		return ""
	}
	for _, s := range it.push.Series {
		for _, l := range s.Labels {
			if l.Name == "service_name" {
				return l.Value
			}
		}
	}
	return ""
}

// queue holds the profiles that wait for one endpoint, the oldest first. It is
// bounded: a new profile pushes the oldest out, since people look at the newest. Queues are safe for concurrent use.
type queue interface {
	// start lets the queue use the disk. It does not block; run runs the part that
	// blocks.
	start(run func(func()))

	// push adds an item. Items that had to make room are lost; so is the item itself
	// if it is bigger than the whole queue. If the queue is closed it reports false and
	// does not take the item.
	push(it *item) (lost []loss, ok bool)

	// pop hands out the oldest item, or nil if no item can be handed out now. extra
	// allows one more than the configured number to be under way.
	pop(extra bool) (it *item, lost []loss)

	// done says that an item from pop has arrived, or is given up for good.
	done(it *item)

	// giveBack keeps an item from pop for the next start of the program. It
	// reports false if that is not possible.
	giveBack(it *item) bool

	// ready holds a token while there is something to pop.
	ready() <-chan struct{}

	// close refuses further items and keeps those in the queue.
	close()

	// release ends the use of the queue. It returns the items that are lost with it,
	// and how many are kept for the next start.
	release() (lost []loss, kept int)

	// keeps reports whether items survive the end of the process.
	keeps() bool

	usage() usage
}

// usage is what a queue holds.
type usage struct {
	profiles, bytes int
	inMemory        int    // of the profiles
	diskBytes       int64  // of all files
	trouble         string // what is wrong with the disk, or ""
}

// loss describes profiles that are given up.
type loss struct {
	why             string // one of the texts below
	profiles, bytes int
}

// Why profiles are lost, in the words of the log.
const (
	lostToRoom    = "dropped profiles, the queue is full"
	lostToTooBig  = "dropped profiles, too big"
	lostToRead    = "lost profiles, the queue on disk cannot be read"
	lostToAge     = "dropped profiles, too old for the server"
	lostToStop    = "dropped profiles, stopped before they were sent"
	lostToRefusal = "dropped profiles, the endpoint refused them"
	lostToLabels  = "dropped profiles, no server takes their labels"
	lostToRetries = "dropped profiles, retries are used up"
)

// reason returns why in a word, for metrics.
func (l loss) reason() string {
	return map[string]string{
		lostToRoom: "queue_full", lostToTooBig: "too_big", lostToRead: "queue_damaged", lostToAge: "too_old",
		lostToStop: "stopped", lostToRefusal: "refused", lostToRetries: "retries_used_up",
		lostToLabels: "labels",
	}[l.why]
}

// token is the channel that ready returns.
type token chan struct{}

func newToken() token { return make(token, 1) }

// put puts the token in. A reader that takes the token takes an item, and the queue
// puts the token back if more are left.
func (t token) put() {
	select {
	case t <- struct{}{}:
	default:
	}
}

// meter reports changes of a queue's usage.
type meter struct {
	report          func(profiles, bytes int) // differences; may be nil
	profiles, bytes int
}

func (m *meter) set(profiles, bytes int) {
	if m.report != nil && (profiles != m.profiles || bytes != m.bytes) {
		m.report(profiles-m.profiles, bytes-m.bytes)
	}
	m.profiles, m.bytes = profiles, bytes
}
