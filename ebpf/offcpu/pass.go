package offcpu

import (
	"cmp"
	"errors"
	"maps"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/headwater/headwater/ebpf/kernel"
	"github.com/headwater/headwater/ebpf/kind"
	"github.com/headwater/headwater/ebpf/sampler"
	"github.com/headwater/headwater/ebpf/snapshot"
	"github.com/headwater/headwater/ebpf/target"
	"github.com/headwater/headwater/ebpf/unwind"
)

// thread is one that was on no CPU at the last pass.
type thread struct {
	kernel.Thread                 // as it was when the stack was read, but with the State of the last pass; no Kernel
	stack         *sampler.Sample // where it is
	credit        time.Duration   // what Use has not got yet
	had           time.Duration   // what of its mark's Stayed was added to that, ever
	ahead         time.Duration   // what it got for being queued for a CPU while the kernel had not counted that yet
	seen          uint64          // the last pass that has looked at it
}

// stayedFor credits a thread with what its mark has got since the last time.
func (t *thread) stayedFor(mark time.Duration) {
	t.credit += mark - t.had
	if t.State == kernel.Runnable && t.Queued >= 0 {
		t.ahead += mark - t.had
	}
	t.had = mark
}

// settle hands to Use what a thread is credited with.
func (c *Clock) settle(t *thread) {
	if t.credit > 0 {
		c.use(t.stack, &t.Thread, t.credit, c.wakers.ender(&t.Thread))
	}
	t.credit = 0
}

func (c *Clock) use(s *sampler.Sample, t *kernel.Thread, d time.Duration, ender *kernel.Waker) {
	s.Kind, s.Value, s.Thread, s.Waker, s.Time = kind.OffCPU, uint64(d), t, ender, c.options.now()
	c.options.Use(s)
}

// pass is one look at all threads.
type pass struct {
	*Clock
	interval time.Duration
	before   uint64                // when the last pass began; 0: there was none
	asking   bool                  // whose threads are wanted
	owners   map[uint32]owner      // by PID
	handed   int                   // threads that were looked at
	kept     int                   // those that are known and were not: they are where they were, or have ended
	keptIn   [kernel.Ended + 1]int // of kept, by state
	err      error                 // of marks
	moved    []*kernel.Thread      // they are on no CPU, and their stacks have to be read
	seen     []uint32              // threads that were handed over
	ended    []thread              // what was over when the pass came by, to be settled
}

// owner is what Options.Target says of a process.
type owner struct {
	target *target.Target
	wanted bool
}

// owner returns whom the time of a process counts for.
func (p *pass) owner(pid uint32) owner {
	o, known := p.owners[pid]
	if !known {
		o.target, o.wanted = p.options.Target(pid)
		if !o.wanted { // it may have begun just now, as a child of a process that is wanted
			p.note(p.options.Completer.CatchUp(p.options.now()))
			o.target, o.wanted = p.options.Target(pid)
		}
		p.owners[pid] = o
	}
	return o
}

// ask asks again about processes that were not wanted, if that is due, and whom the time of kept threads counts for.
func (p *pass) ask(now uint64) error {
	due := now-p.asked >= uint64(askAgain)
	if !due && !p.flushed {
		return nil
	}
	p.flushed = false
	if p.asking = due; due {
		p.asked = now
		if err := p.options.Passes.WantAll(); err != nil {
			return err
		}
	}
	p.askQueues()
	var changed []*thread
	for _, t := range p.threads {
		if o := p.owner(t.PID); !o.wanted || o.target != t.stack.Target {
			changed = append(changed, t)
		}
	}
	if len(changed) == 0 {
		return nil
	}
	err := p.readStayed()
	for _, t := range changed {
		if o := p.owner(t.PID); o.wanted {
			p.settle(t)
			t.stack.Target = o.target
		} else {
			p.drop(t)
		}
	}
	return err
}

// look takes note of a thread that is not where its mark says.
func (p *pass) look(t *kernel.Thread) {
	if t.State == kernel.Ended || t.Outcome == unwind.KernelThread {
		return
	}
	if !p.owner(t.PID).wanted {
		p.note(p.options.Passes.MarkUnwanted(t.PID))
		return
	}
	q := p.queueOf(t)
	if t.Displaced && (q == nil || q.place != nil || q.owed < muchOwed) { // it would run if nobody looked
		t.State = kernel.Running
	}
	p.handed++
	p.seen = append(p.seen, t.TID)
	known := p.threads[t.TID]
	stays := known != nil && t.State != kernel.Running && known.Started == t.Started && known.Switches == t.Switches
	credit := p.interval
	if q != nil && t.State == kernel.Runnable && !(stays && known.State == kernel.Runnable) {
		p.times[kernel.Running] += p.interval // until the kernel says how much of it the thread was queued
		credit = 0
	} else {
		p.times[t.State] += p.interval
	}
	if known != nil {
		known.seen = p.passes
		known.stayedFor(t.Stayed)
		p.keep(known, -1)
	}
	if known != nil && !stays {
		p.leaves(known)
		p.drop(known)
		known = nil
	}
	switch {
	case t.State == kernel.Running: // the CPU clock has it
	case known == nil && t.Unmoved: // a mark of before: the next pass reads it
		p.note(p.options.Passes.Unmark(t.TID))
	case known == nil:
		kept := *t
		kept.Kernel = slices.Clone(t.Kernel)
		p.moved = append(p.moved, &kept)
	default:
		if known.State != t.State { // it was woken, say, and is queued for a CPU
			p.end(known)
			known.State = t.State
		}
		known.credit += credit
		if q != nil && t.State == kernel.Runnable {
			known.ahead += credit
		}
	}
}

// end has what a thread is credited with settled after the pass: who has ended its wait is known then.
func (p *pass) end(t *thread) {
	p.ended = append(p.ended, *t)
	t.credit = 0
}

// drop ends the credit of a thread that is not where it was.
func (p *pass) drop(t *thread) {
	p.end(t)
	delete(p.threads, t.TID)
	p.note(p.options.Passes.Unmark(t.TID))
}

// note keeps the first error.
func (p *pass) note(err error) {
	if p.err == nil {
		p.err = err
	}
}

// keep counts a known thread, or with -1 no longer.
func (p *pass) keep(t *thread, n int) {
	p.keptIn[t.State] += n
	p.kept += n
}

// forget drops the threads that the pass has not seen: they have ended, or are not watched any more.
func (p *pass) forget() error {
	var strangers []uint32
	err := p.options.Passes.ReadMarks(func(m kernel.Mark) {
		t := p.threads[m.TID]
		if t == nil {
			strangers = append(strangers, m.TID)
			return
		}
		t.stayedFor(m.Stayed)
		if m.Seen {
			t.seen = p.passes
		}
	})
	if err != nil {
		return err
	}
	for _, tid := range strangers {
		p.note(p.options.Passes.Unmark(tid))
	}
	for _, t := range p.threads {
		if t.seen != p.passes {
			p.keep(t, -1)
			p.drop(t)
		}
	}
	p.forgetQueues()
	return nil
}

// looking notes the CPU time of a pass that has found few threads elsewhere. Others say nothing of those to come: the
// first ones see all threads, until their stacks are read, and so do those that ask whose are wanted.
func (p *pass) looking(took time.Duration) {
	const few = 8
	switch {
	case p.handed > p.kept/few:
		p.looked = 0
	case !p.asking:
		p.looked = took
	}
}

// count adds up what threads have done.
func (p *pass) count() {
	for state, n := range p.keptIn {
		p.times[state] += p.interval * time.Duration(n)
	}
	p.stats.Passes++
	p.stats.Threads = uint64(p.handed + p.kept)
}

// readsAtOnce is how many stacks are read between looks at where their threads are. The fewer, the less time has a
// thread to move.
const readsAtOnce = 16

// readMoved reads the stacks of threads that have moved, or of a random subset that stands for all of them. Those that
// were not copied come first: they are there as long as their threads do not run.
func (p *pass) readMoved() error {
	chosen := p.choose()
	slices.SortStableFunc(chosen, func(a, b reading) int {
		return cmp.Compare(ofBool(a.thread.Copied), ofBool(b.thread.Copied))
	})
	var err error
	var had []reading
	for next := range slices.Chunk(chosen, readsAtOnce) {
		err = errors.Join(err, p.check(had, next))
		for i := range next {
			p.note(next[i].read(p))
		}
		had = next
	}
	return errors.Join(err, p.check(had, nil))
}

// choose returns whose stacks are read. If that is a subset, restless threads are in it as others are: of the former
// those that were watched stand for all, who are a random subset of them.
func (p *pass) choose() (chosen []reading) {
	var restless, others, queued []*kernel.Thread
	for _, t := range p.moved {
		if t.State == kernel.Runnable && t.Queued >= 0 {
			queued = append(queued, t)
		} else if p.restless[t.TID] > 0 {
			restless = append(restless, t)
		} else {
			others = append(others, t)
		}
	}
	all, most := len(p.moved), p.options.MaxReads
	for i, some := range [][]*kernel.Thread{restless, others, queued} {
		n, credit := len(some), p.interval*time.Duration(len(some))
		if i == 2 {
			credit = 0 // the kernel counts it
		}
		if all > most && n > 0 {
			rand.Shuffle(n, func(i, j int) { some[i], some[j] = some[j], some[i] })
			slices.SortStableFunc(some, func(a, b *kernel.Thread) int {
				return cmp.Compare(ofBool(p.watched[b.TID]), ofBool(p.watched[a.TID]))
			})
			n = max(1, most*n/all)
		}
		for i, share := range shares(credit, n) {
			chosen = append(chosen, reading{thread: some[i], share: share})
		}
		p.stats.Unread += uint64(len(some) - n)
	}
	return chosen
}

// restlessFor is for how many passes a thread counts as restless after it has moved. Where all CPUs are busy, it may be
// queued for one meanwhile.
const restlessFor = 8

// calm notes which threads are restless after a pass.
func (p *pass) calm() {
	for _, tid := range p.seen {
		p.restless[tid] = p.passes
	}
	maps.DeleteFunc(p.restless, func(_ uint32, last uint64) bool { return p.passes-last >= restlessFor })
}

// ofBool returns 1 for true.
func ofBool(b bool) int {
	if b {
		return 1
	}
	return 0
}

// reading is of one thread.
type reading struct {
	thread *kernel.Thread
	share  time.Duration // what it is credited with
	stack  *sampler.Sample
	whole  bool // the stack is the one of the pass, whether the thread has moved since or not
}

func find(some []reading, tid uint32) *reading {
	if at := slices.IndexFunc(some, func(r reading) bool { return r.thread.TID == tid }); at >= 0 {
		return &some[at]
	}
	return nil
}

// shares divides a time into n parts whose sum it is.
func shares(of time.Duration, n int) []time.Duration {
	out := make([]time.Duration, n)
	for i := range out {
		out[i] = of / time.Duration(n-i)
		of -= out[i]
	}
	return out
}

// read reads the stack of a thread. What languages keep of it elsewhere is not copied.
func (r *reading) read(p *pass) error {
	copied, err := p.options.Passes.CopiedStack(r.thread)
	memory := snapshot.MemoryOf(p.options.Completer.Memory(r.thread.PID), r.thread, copied)
	r.stack = p.options.Completer.CompleteThread(r.thread, memory)
	r.whole = memory.OfCopy() && r.stack.Interpreted == nil
	p.stats.Read++
	return err
}

// check credits threads that were read, if there are any: it looks whether they have stayed. Those that are next may
// have moved since the pass has seen them, as reading others takes time. They are where they are now, unless they run
// or their stacks were copied. After an error no thread is taken to have stayed.
func (p *pass) check(had, next []reading) error {
	stays := map[uint32]bool{}
	threads := make([]*kernel.Thread, 0, len(next))
	for i := range next {
		threads = append(threads, next[i].thread)
	}
	err := p.options.Passes.Check(threads, func(now *kernel.Thread) {
		if r := find(had, now.TID); r != nil {
			stays[now.TID] = !snapshot.Moved(r.thread, now)
		} else if r := find(next, now.TID); r != nil && !r.thread.Copied {
			r.thread = later(r.thread, now)
		}
	})
	for i := range had {
		p.take(&had[i], err == nil && stays[had[i].thread.TID])
	}
	return err
}

// later returns a thread as it is now if it has moved and is on no CPU, and else as it was.
func later(was, now *kernel.Thread) *kernel.Thread {
	off := now.State != kernel.Running && now.State != kernel.Ended && !now.Displaced
	if !off || now.Started != was.Started || now.Switches == was.Switches {
		return was
	}
	if was.Queued >= 0 && (was.State == kernel.Runnable) != (now.State == kernel.Runnable) {
		return was // time in the queue is not counted by looks
	}
	kept := *now
	kept.Kernel = slices.Clone(now.Kernel)
	return &kept
}

// take credits a thread with being where its stack says. The kernel's part was seen at one moment with the state; the
// user's was copied then, or was read later and is right only if the thread has stayed.
func (p *pass) take(r *reading, stays bool) {
	t, stack := r.thread, r.stack
	if !stays && !r.whole && stack.Outcome.HasUserPart() {
		p.stats.Dropped++
		stack.User, stack.Interpreted, stack.Outcome = nil, nil, unwind.Moved
	}
	t.Kernel = nil // the sample has it
	stack.Target = p.owner(t.PID).target
	at := &thread{Thread: *t, stack: stack, credit: r.share, seen: p.passes}
	q := p.queues[t.TID]
	if t.State != kernel.Runnable || t.Queued < 0 {
		q = nil
	}
	if q != nil {
		p.unplace(q)
		q.pay(at)
	}
	if stays && len(p.threads) < p.options.MaxThreads {
		p.threads[t.TID] = at
		return
	}
	if q != nil {
		q.place = at
	} else {
		p.settle(at)
	}
	p.note(p.options.Passes.Unmark(t.TID))
}
