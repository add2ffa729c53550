package river

import (
	"sync"
	"time"
)

// changedNodes collects the nodes whose exports changed, until take is called. put never blocks.
// Each node is contained only once, because only its newest exports matter.
type changedNodes struct {
	signal chan struct{} // holds a token while there is something to take

	mu    sync.Mutex
	nodes []node
	seen  map[node]bool
}

func newChangedNodes() *changedNodes {
	return &changedNodes{signal: make(chan struct{}, 1), seen: map[node]bool{}}
}

func (c *changedNodes) putNode(n node) {
	c.mu.Lock()
	if !c.seen[n] {
		c.seen[n] = true
		c.nodes = append(c.nodes, n)
	}
	c.mu.Unlock()
	wakeUp(c.signal)
}

func (c *changedNodes) takeNodes() []node {
	c.mu.Lock()
	defer c.mu.Unlock()
	taken := c.nodes
	c.nodes, c.seen = nil, map[node]bool{}
	return taken
}

// wakeUp leaves a token in a channel of capacity one.
func wakeUp(signal chan struct{}) {
	select {
	case signal <- struct{}{}:
	default: // there is already a token
	}
}

// evaluationQueue distributes nodes to workers. Each node waits at most once, so the number of
// nodes bounds the queue. Two workers never get the same node: if a node is put while a worker has
// it, it waits for that worker.
type evaluationQueue struct {
	mu      sync.Mutex
	ready   *sync.Cond
	waiting []node
	since   map[node]time.Time // time when a waiting node was put
	busy    map[node]bool
	closed  bool
}

func newEvaluationQueue() *evaluationQueue {
	q := &evaluationQueue{since: map[node]time.Time{}, busy: map[node]bool{}}
	q.ready = sync.NewCond(&q.mu)
	return q
}

func (q *evaluationQueue) putNode(n node) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if _, waits := q.since[n]; waits || q.closed {
		return
	}
	q.waiting = append(q.waiting, n)
	q.since[n] = time.Now()
	q.ready.Signal()
}

// takeNode waits for a node and returns it with its waiting time, or false once the queue is closed.
// The caller must then call done.
func (q *evaluationQueue) takeNode() (node, time.Duration, bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	for !q.closed {
		for i, n := range q.waiting {
			if q.busy[n] {
				continue
			}
			q.waiting = append(q.waiting[:i:i], q.waiting[i+1:]...)
			waited := time.Since(q.since[n])
			delete(q.since, n)
			q.busy[n] = true
			return n, waited, true
		}
		q.ready.Wait()
	}
	return nil, 0, false
}

func (q *evaluationQueue) markDone(n node) {
	q.mu.Lock()
	defer q.mu.Unlock()
	delete(q.busy, n)
	q.ready.Signal()
}

func (q *evaluationQueue) len() int {
	q.mu.Lock()
	defer q.mu.Unlock()
	return len(q.waiting)
}

// close wakes all workers and drops the waiting nodes.
func (q *evaluationQueue) close() {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.closed = true
	q.ready.Broadcast()
}
