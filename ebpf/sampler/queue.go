package sampler

import (
	"sync"

	"github.com/headwater/headwater/ebpf/kernel"
)

const (
	// queueBytes bounds the copies of stacks in the queue. With them, a small buffer in the kernel is enough: no burst
	// of misses overflows it while other stacks are completed.
	queueBytes = 32 << 20
	// queueSamples bounds the samples in the queue.
	queueSamples = 1 << 14
	// spareSamples is the number of unused samples that are kept.
	spareSamples = 1 << 10
	// spareBytes bounds the memory for copies of stacks in unused samples: copies of 64 to 512 KiB come in bursts, and
	// would otherwise be most of the garbage.
	spareBytes = 2 << 20
)

// queue holds samples between the goroutine that drains the kernel's buffer and the goroutine that uses them:
// completing one may take long on a busy machine.
type queue struct {
	mu      sync.Mutex
	changed *sync.Cond
	waiting []item
	bytes   int // of the copies of stacks in waiting
	spare   []*kernel.Sample
	buffers []*kernel.Sample // unused samples with memory for a copy of a stack
	spared  int              // bytes of memory in buffers
	ending  bool             // put no longer waits for room
}

// item is a sample, or else the end of a round of draining.
type item struct {
	sample *kernel.Sample
	end    end
}

// end is how a round of draining ended.
type end struct {
	upTo    uint64 // all samples taken until this time are before it
	flushed bool
	last    bool // no round follows
	err     error
}

func newQueue() *queue {
	q := &queue{}
	q.changed = sync.NewCond(&q.mu)
	return q
}

// putSample adds a copy of a sample. It waits while the queue is full.
func (q *queue) putSample(s *kernel.Sample) {
	kept := q.roomFor(s)
	kept.CopyFrom(s) // without the lock, as it takes long if the memory is new
	q.mu.Lock()
	defer q.mu.Unlock()
	q.bytes += kept.Stack.Len()
	q.waiting = append(q.waiting, item{sample: kept})
	q.changed.Broadcast()
}

// roomFor waits until one more sample may be kept, and returns a sample to copy it to. Only one goroutine calls put, so
// the room stays.
func (q *queue) roomFor(s *kernel.Sample) *kernel.Sample {
	q.mu.Lock()
	defer q.mu.Unlock()
	for !q.ending && len(q.waiting) > 0 && (q.bytes+s.Stack.Len() > queueBytes || len(q.waiting) >= queueSamples) {
		q.changed.Wait()
	}
	return q.unused(s.Stack.Len() > 0)
}

// close adds the end of a round.
func (q *queue) close(e end) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if n := len(q.waiting); n > 0 && q.waiting[n-1].sample == nil && !q.waiting[n-1].end.last {
		e.flushed = e.flushed || q.waiting[n-1].end.flushed
		q.waiting = q.waiting[:n-1]
	}
	q.waiting = append(q.waiting, item{end: e})
	q.changed.Broadcast()
}

// takeItem waits for the next item and returns it. The last end stays in the queue.
func (q *queue) takeItem() item {
	q.mu.Lock()
	defer q.mu.Unlock()
	for len(q.waiting) == 0 {
		q.changed.Wait()
	}
	next := q.waiting[0]
	if next.end.last {
		return next
	}
	q.waiting[0] = item{}
	q.waiting = q.waiting[1:]
	if next.sample != nil {
		q.bytes -= next.sample.Stack.Len()
	}
	q.changed.Broadcast()
	return next
}

// empty reports whether the queue is empty.
func (q *queue) empty() bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	return len(q.waiting) == 0
}

// endRound makes put stop waiting, now and later.
func (q *queue) endRound() {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.ending = true
	q.changed.Broadcast()
}

// reuse takes a sample back.
func (q *queue) reuse(s *kernel.Sample) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if n := s.Buffer(); n > 0 && q.spared+n <= spareBytes {
		q.buffers, q.spared = append(q.buffers, s), q.spared+n
		return
	}
	s.DropStack()
	if len(q.spare) < spareSamples {
		q.spare = append(q.spare, s)
	}
}

// unused returns an unused sample, if possible with memory for a copy of a stack if withStack is set.
func (q *queue) unused(withStack bool) *kernel.Sample {
	from := &q.spare
	if withStack && len(q.buffers) > 0 {
		from = &q.buffers
	}
	n := len(*from)
	if n == 0 {
		return &kernel.Sample{}
	}
	s := (*from)[n-1]
	*from = (*from)[:n-1]
	q.spared -= s.Buffer()
	return s
}
