package write

import (
	"sync"
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
}

// queue holds the profiles that wait for one endpoint, the oldest first. It is
// bounded: a new profile pushes the oldest out, since the newest are what people
// look at. It is safe for concurrent use.
type queue struct {
	maxBytes, maxItems int

	ready chan struct{} // holds a token while the queue is not empty

	mu     sync.Mutex
	items  []*item // the first head of them are taken
	head   int
	bytes  int
	closed bool
}

func newQueue(maxBytes, maxItems int) *queue {
	return &queue{maxBytes: maxBytes, maxItems: maxItems, ready: make(chan struct{}, 1)}
}

// push adds it and returns the items that had to make room, it itself if it is
// bigger than the whole queue. It reports false, and drops it, if the queue is
// closed.
func (q *queue) push(it *item) (dropped []*item, ok bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.closed {
		return nil, false
	}
	q.items = append(q.items, it)
	q.bytes += it.size
	for q.bytes > q.maxBytes || q.len() > q.maxItems {
		dropped = append(dropped, q.take())
	}
	q.signal()
	return dropped, true
}

// pop returns the oldest item, or nil if there is none.
func (q *queue) pop() *item {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.len() == 0 {
		return nil
	}
	it := q.take()
	q.signal()
	return it
}

// close refuses further items. Those that are in stay.
func (q *queue) close() {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.closed = true
}

// usage returns the number and bytes of the items that wait.
func (q *queue) usage() (items, bytes int) {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.len(), q.bytes
}

func (q *queue) len() int { return len(q.items) - q.head }

// take removes the oldest item.
func (q *queue) take() *item {
	it := q.items[q.head]
	q.items[q.head] = nil
	q.head++
	q.bytes -= it.size
	if q.head > len(q.items)/2 { // keep the taken part small
		n := copy(q.items, q.items[q.head:])
		clear(q.items[n:])
		q.items, q.head = q.items[:n], 0
	}
	return it
}

// signal puts a token into ready if there is something to take. A reader that
// takes the token takes an item, and puts the token back if more are left.
func (q *queue) signal() {
	if q.len() == 0 {
		return
	}
	select {
	case q.ready <- struct{}{}:
	default:
	}
}
