package write

import "sync"

// memoryQueue is a queue in memory.
type memoryQueue struct {
	token token

	mu     sync.Mutex
	items  ring
	meter  meter
	closed bool
}

func newMemoryQueue(maxBytes, maxItems int, report func(profiles, bytes int)) *memoryQueue {
	return &memoryQueue{token: newToken(), items: ring{maxBytes: maxBytes, maxItems: maxItems},
		meter: meter{report: report}}
}

func (q *memoryQueue) start(func(func())) {}

func (q *memoryQueue) push(it *item) (lost []loss, ok bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.closed {
		return nil, false
	}
	lost = q.items.push(it)
	q.changed()
	return lost, true
}

func (q *memoryQueue) pop(bool) (*item, []loss) {
	q.mu.Lock()
	defer q.mu.Unlock()
	it := q.items.pop()
	q.changed()
	return it, nil
}

func (q *memoryQueue) changed() {
	q.meter.setWaiting(q.items.len(), q.items.bytes)
	if q.items.len() > 0 {
		q.token.putBack()
	}
}

func (q *memoryQueue) done(*item) {}

func (q *memoryQueue) giveBack(*item) bool { return false }

func (q *memoryQueue) ready() <-chan struct{} { return q.token }

func (q *memoryQueue) close() {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.closed = true
}

func (q *memoryQueue) release() (lost []loss, kept int) {
	q.mu.Lock()
	defer q.mu.Unlock()
	for it := q.items.pop(); it != nil; it = q.items.pop() {
		lost = append(lost, loss{why: lostToStop, profiles: 1, bytes: it.size})
	}
	q.meter.setWaiting(0, 0)
	return lost, 0
}

func (q *memoryQueue) keeps() bool { return false }

func (q *memoryQueue) usage() usage {
	q.mu.Lock()
	defer q.mu.Unlock()
	return usage{profiles: q.items.len(), bytes: q.items.bytes, inMemory: q.items.len()}
}

// ring holds items in order, within limits. It is not safe for concurrent use.
type ring struct {
	maxBytes, maxItems int

	items []*item // the first head items are already taken
	head  int
	bytes int
}

// push adds an item. It returns the older items that it dropped to make room as lost.
func (r *ring) push(it *item) (lost []loss) {
	r.items = append(r.items, it)
	r.bytes += it.size
	for r.bytes > r.maxBytes || r.len() > r.maxItems {
		gone := r.pop()
		lost = append(lost, loss{why: lostToRoom, profiles: 1, bytes: gone.size})
	}
	return lost
}

func (r *ring) len() int { return len(r.items) - r.head }

// first returns the oldest item, or nil if the ring is empty.
func (r *ring) first() *item {
	if r.len() == 0 {
		return nil
	}
	return r.items[r.head]
}

// pop removes the oldest item and returns it, or nil if the ring is empty.
func (r *ring) pop() *item {
	it := r.first()
	if it == nil {
		return nil
	}
	r.items[r.head] = nil
	r.head++
	r.bytes -= it.size
	if r.head > len(r.items)/2 { // keep the taken part small
		n := copy(r.items, r.items[r.head:])
		clear(r.items[n:])
		r.items, r.head = r.items[:n], 0
	}
	return it
}
