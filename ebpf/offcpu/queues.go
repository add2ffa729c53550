package offcpu

import (
	"time"

	"github.com/headwater/headwater/ebpf/kernel"
)

// A look displaces the thread that runs where the reader comes to run. So looks say where threads are queued for a CPU,
// but not for how long: that the kernel counts, and adds up once the thread has a CPU.

// queue is the time that one thread was queued for a CPU.
type queue struct {
	started uint64
	counted time.Duration // by the kernel, until the last look
	owed    time.Duration // of that, what no place has got; negative: places have got more, as the thread was still queued
	place   *thread       // where it was queued last, with its share; nil: it was not seen there, or it is a known thread
	looked  uint64        // the number of the last pass that has looked at it
}

// muchOwed is for how long a thread was queued before a look that has displaced it is taken for where it was queued.
const muchOwed = 10 * time.Millisecond

// queueOf returns the queue of a thread that is looked at, with what the kernel has counted since the last look; nil if
// this kernel does not count.
func (p *pass) queueOf(t *kernel.Thread) *queue {
	if t.Queued < 0 {
		return nil
	}
	q := p.queues[t.TID]
	if q == nil || q.started != t.Started {
		q = &queue{started: t.Started, counted: t.Queued}
		if p.before != 0 && t.Started >= p.before { // it has begun since the last pass
			q.counted = 0
		}
		p.queues[t.TID] = q
	}
	q.looked = p.passes
	p.owe(q, t.Queued-q.counted)
	q.counted = t.Queued
	q.pay(q.place)
	return q
}

// owe notes time that a thread was queued. Looks that have met it on a CPU or in the queue have taken that for running.
func (p *pass) owe(q *queue, d time.Duration) {
	q.owed += d
	p.times[kernel.Runnable] += d
	p.times[kernel.Running] -= d
}

// pay gives what is owed to a place where the thread was queued; nil is none.
func (q *queue) pay(place *thread) {
	if place != nil && q.owed > 0 {
		place.credit += q.owed
		q.owed = 0
	}
}

// unplace forgets where a thread was queued.
func (c *Clock) unplace(q *queue) {
	if q.place != nil {
		c.settle(q.place)
		q.place = nil
	}
}

// leaves notes that a known thread is not where it was. If it was queued there, the kernel has counted that by now.
func (p *pass) leaves(t *thread) {
	q := p.queues[t.TID]
	if q == nil || q.started != t.Started {
		return
	}
	p.owe(q, -t.ahead)
	t.ahead = 0
	if t.State != kernel.Runnable {
		return
	}
	q.pay(t)
	kept := *t
	kept.credit = 0
	p.unplace(q)
	q.place = &kept
}

// forgetQueues forgets the queues of threads that the pass has not seen.
func (p *pass) forgetQueues() {
	for tid, q := range p.queues {
		if q.looked != p.passes && p.threads[tid] == nil {
			p.unplace(q)
			delete(p.queues, tid)
		}
	}
}

// askQueues has the time of threads that were queued count for whom Target says now.
func (p *pass) askQueues() {
	for _, q := range p.queues {
		if q.place == nil {
			continue
		}
		o := p.owner(q.place.PID)
		if o.wanted && o.target == q.place.stack.Target {
			continue
		}
		c := q.place
		p.unplace(q)
		if o.wanted {
			c.stack.Target = o.target
			q.place = c
		}
	}
}
