package offcpu

import (
	"time"

	"github.com/headwater/headwater/ebpf/kernel"
)

// A look displaces the thread that runs on the CPU where the reader comes to run. So looks show where threads are
// queued for a CPU, but not for how long. The kernel counts that time, and adds it up once the thread has a CPU.

// queue is the time that one thread was queued for a CPU.
type queue struct {
	started uint64
	counted time.Duration // by the kernel, until the last look
	owed    time.Duration // part of counted that no place has got; negative if places got more in advance
	place   *thread       // where it was last queued, with its share; nil if not seen there, or a known thread
	looked  uint64        // the number of the last pass that has looked at it
}

// muchOwed is how long a thread must have been queued for a look that displaces it to count as its place in the queue.
const muchOwed = 10 * time.Millisecond

// queueOf returns the queue of a thread that is looked at, with the time that the kernel has counted since the last
// look; nil if this kernel does not count.
func (p *pass) queueOf(t *kernel.Thread) *queue {
	if t.Queued < 0 {
		return nil
	}
	q := p.queues[t.TID]
	if q == nil || q.started != t.Started {
		q = &queue{started: t.Started, counted: t.Queued}
		if p.before != 0 && t.Started >= p.before { // it has started since the last pass
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

// owe adds time that a thread was queued. Looks that met the thread on a CPU or in the queue have counted it as
// running.
func (p *pass) owe(q *queue, d time.Duration) {
	q.owed += d
	p.times[kernel.Runnable] += d
	p.times[kernel.Running] -= d
}

// pay credits the owed time to a place where the thread was queued, unless it is nil.
func (q *queue) pay(place *thread) {
	if place != nil && q.owed > 0 {
		place.credit += q.owed
		q.owed = 0
	}
}

// unplace settles and forgets the place where a thread was queued.
func (c *Clock) unplace(q *queue) {
	if q.place != nil {
		c.settle(q.place)
		q.place = nil
	}
}

// leaves notes that a known thread is no longer where it was. If it was queued, the kernel has counted that by now.
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

// askQueues asks Target again about the processes of threads that were queued.
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
