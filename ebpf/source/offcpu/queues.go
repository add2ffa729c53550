package offcpu

import (
	"time"

	"github.com/headwater/headwater/ebpf/kernel"
	"github.com/headwater/headwater/ebpf/process/target"
	"github.com/headwater/headwater/ebpf/source/snapshot"
	"github.com/headwater/headwater/ebpf/unwind"
)

// A look displaces the thread that runs on the CPU where the reader comes to run. So looks show where threads are
// queued for a CPU, but not for how long. The kernel counts that time, and adds it up once the thread has a CPU.
//
// A thread that ends takes with it what the kernel has counted since the last look: of a thread that lives for less
// than the time between two passes, all. So while a thread is young, its time in the queue is that of the looks that
// find it there, as in any other state. A thread that grows old gets what the kernel has counted instead.

// young is the number of passes for which a thread counts as young.
const young = 20

// queue is the time that one thread was queued for a CPU.
type queue struct {
	pid, tid uint32
	cpu      uint32 // where the thread has run last
	comm     string
	target   *target.Target
	started  uint64
	young    bool          // at the last look
	given    time.Duration // credit of looks that found the thread queued while it was young
	counted  time.Duration // by the kernel, until the last look, or the first one while it is young
	owed     time.Duration // part of counted that no place has got; negative if places got more in advance
	place    *thread       // where it was last queued, with its share; nil if not seen there, or a known thread
	looked   uint64        // the number of the last pass that has looked at it
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
		if q != nil {
			p.finish(q)
		}
		q = &queue{pid: t.PID, tid: t.TID, started: t.Started, counted: t.Queued}
		if p.before != 0 && t.Started >= p.before { // it has started since the last pass
			q.counted = 0
		}
		p.queues[t.TID] = q
	}
	q.cpu, q.comm, q.target, q.looked = t.CPU, t.Comm, p.owner(t.PID).target, p.passes
	if q.young = t.Time < t.Started+uint64(young*p.interval); !q.young {
		p.oweTime(q, t.Queued-q.counted-q.given)
		q.counted, q.given = t.Queued, 0
	}
	return q
}

// oweTime adds time that a thread was queued. Looks that met the thread on a CPU or in the queue have counted it as
// running.
func (c *Clock) oweTime(q *queue, d time.Duration) {
	q.owed += d
	c.times[kernel.Runnable] += d
	c.times[kernel.Running] -= d
}

// payTime credits the owed time to a place where the thread was queued, unless it is nil.
func (q *queue) payTime(place *thread) {
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

// finish settles the queue of a thread that no pass will look at again. Time that is still owed goes to Use without a
// stack: no pass has seen where the thread was queued.
func (c *Clock) finish(q *queue) {
	c.unplace(q)
	if q.owed < 0 { // the kernel has counted less than places got in advance
		c.oweTime(q, -q.owed)
	}
	if q.owed == 0 {
		return
	}
	t := &kernel.Thread{
		PID: q.pid, TID: q.tid, Comm: q.comm, Started: q.started, State: kernel.Runnable, CPU: q.cpu, Call: kernel.NoCall,
		Queued: q.counted, Outcome: unwind.Moved,
	}
	s := c.options.Completer.CompleteThread(t, snapshot.MemoryOf(c.options.Completer.Memory(q.pid), t, nil))
	s.Target = q.target
	c.useSample(s, t, q.owed, nil)
	q.owed = 0
}

// leaves notes that a known thread is no longer where it was. If it was queued, the kernel has counted that by now.
func (p *pass) leaves(t *thread) {
	q := p.queues[t.TID]
	if q == nil || q.started != t.Started {
		return
	}
	if q.young {
		q.given += t.ahead
	} else {
		p.oweTime(q, -t.ahead)
	}
	t.ahead = 0
	if t.State != kernel.Runnable {
		return
	}
	q.payTime(t)
	kept := *t
	kept.credit = 0
	p.unplace(q)
	q.place = &kept
}

// forgetQueues forgets the queues of threads that the pass has not seen.
func (p *pass) forgetQueues() {
	for tid, q := range p.queues {
		if q.looked != p.passes && p.threads[tid] == nil {
			p.finish(q)
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
