package write

import (
	"time"

	pushv1 "github.com/grafana/pyroscope/api/gen/proto/go/push/v1"
)

// item is one profile to be pushed, over the push API or the older ingest API. Endpoints share it, so it never changes.
type item struct {
	push   *pushv1.PushRequest
	ingest *ingestRequest // set if push is nil
	size   int            // bytes of the profile
	taken  time.Time
	place  uint64 // in a queue on disk, 0 if none
	stored bool   // read from disk, and still stored there
}

// service returns the profile's service_name; it returns "" if there is none, and for a profile of the ingest API.
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

// queue holds the profiles that wait for one endpoint, oldest first. It is bounded: a new profile displaces the oldest,
// since users look at the newest. Queues are safe for concurrent use.
type queue interface {
	// start lets the queue use the disk. It does not block; it passes the blocking part to run.
	start(run func(func()))

	// push adds an item. Items dropped to make room are returned as lost, and so is the item itself if it is bigger
	// than the whole queue. If the queue is closed, push returns false and does not take the item.
	push(it *item) (lost []loss, ok bool)

	// pop hands out the oldest item, or nil if no item can be handed out now. extra allows one more item to be under
	// way than configured.
	pop(extra bool) (it *item, lost []loss)

	// done says that an item from pop has arrived, or is given up permanently.
	done(it *item)

	// giveBack keeps an item from pop for the next start of the program. It returns false if that is not possible.
	giveBack(it *item) bool

	// ready holds a token while there is an item to pop.
	ready() <-chan struct{}

	// close refuses further items and keeps those in the queue.
	close()

	// release ends the use of the queue. It returns the items that are lost, and the number of items kept for the next
	// start.
	release() (lost []loss, kept int)

	// keeps reports whether items survive the end of the process.
	keeps() bool

	usage() usage
}

// usage describes the contents of a queue.
type usage struct {
	profiles, bytes int
	inMemory        int    // number of profiles in memory
	diskBytes       int64  // of all files
	trouble         string // the error of the disk, or ""
}

// loss describes profiles that were given up.
type loss struct {
	why             string // one of the texts below
	profiles, bytes int
}

// Reasons for lost profiles, as written to the log.
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

// reason returns why as one word, for metrics.
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

// putBack puts the token in. A reader that takes the token also takes an item; the queue puts the token back if items
// are left.
func (t token) putBack() {
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

func (m *meter) setWaiting(profiles, bytes int) {
	if m.report != nil && (profiles != m.profiles || bytes != m.bytes) {
		m.report(profiles-m.profiles, bytes-m.bytes)
	}
	m.profiles, m.bytes = profiles, bytes
}
