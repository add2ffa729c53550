package offcpu

import (
	"cmp"
	"errors"
	"maps"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/headwater/headwater/ebpf/kernel"
	"github.com/headwater/headwater/ebpf/process/target"
	"github.com/headwater/headwater/ebpf/sampler"
	"github.com/headwater/headwater/ebpf/source/snapshot"
	"github.com/headwater/headwater/ebpf/unwind"
	"github.com/headwater/headwater/flame/kind"
)

// thread is a thread that was on no CPU at the last pass.
type thread struct {
	kernel.Thread                 // as it was when the stack was read, but with the State of the last pass; no Kernel
	stack         *sampler.Sample // of its place
	credit        time.Duration   // time that Use has not got yet
	had           time.Duration   // part of its mark's Stayed that was added to credit
	ahead         time.Duration   // credit for time in the queue for a CPU that the kernel had not counted yet
	seen          uint64          // the last pass that has looked at it
}

// stayedFor credits a thread with the time that its mark has gained since the last call; mark is the total.
func (t *thread) stayedFor(mark time.Duration) {
	t.credit += mark - t.had
	if t.State == kernel.Runnable && t.Queued >= 0 {
		t.ahead += mark - t.had
	}
	t.had = mark
}

// settle hands the credit of a thread to Use.
func (c *Clock) settle(t *thread) {
	if t.credit > 0 {
		c.useSample(t.stack, &t.Thread, t.credit, c.wakers.ender(&t.Thread))
	}
	t.credit = 0
}

func (c *Clock) useSample(s *sampler.Sample, t *kernel.Thread, d time.Duration, ender *kernel.Waker) {
	s.Kind, s.Value, s.Thread, s.Waker, s.Time = kind.OffCPU, uint64(d), t, ender, c.options.now()
	c.options.Use(s)
}

// pass is one pass over all threads.
type pass struct {
	*Clock
	interval time.Duration
	before   uint64                // start of the last pass; 0 if there was none
	asking   bool                  // this pass asks Target about all processes
	owners   map[uint32]owner      // by PID
	handed   int                   // threads that were looked at
	kept     int                   // known threads that were not looked at: they are where they were, or have ended
	keptIn   [kernel.Ended + 1]int // of kept, by state
	err      error                 // first error, see note
	moved    []*kernel.Thread      // threads on no CPU whose stacks have to be read
	seen     []uint32              // threads that were handed over
	ended    []thread              // threads whose place or state was over at this pass, to be settled
}

// owner is the result of Options.Target for a process.
type owner struct {
	target *target.Target
	wanted bool
}

// owner returns the owner of the time of a process.
func (p *pass) owner(pid uint32) owner {
	o, known := p.owners[pid]
	if !known {
		o.target, o.wanted = p.options.Target(pid)
		if !o.wanted { // it may be a new child of a wanted process
			p.noteError(p.options.Completer.CatchUp(p.options.now()))
			o.target, o.wanted = p.options.Target(pid)
		}
		p.owners[pid] = o
	}
	return o
}

// askThreads asks Target again about unwanted processes, if that is due, and about the processes of kept threads.
func (p *pass) askThreads(now uint64) error {
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
			p.dropThread(t)
		}
	}
	return err
}

// lookAtThread handles a thread that is not where its mark says.
func (p *pass) lookAtThread(t *kernel.Thread) {
	if t.State == kernel.Ended || t.Outcome == unwind.KernelThread {
		return
	}
	if !p.owner(t.PID).wanted {
		p.noteError(p.options.Passes.MarkUnwanted(t.PID))
		return
	}
	q := p.queueOf(t)
	if t.Displaced && (q == nil || q.place != nil || q.owed < muchOwed) { // it would run without this look
		t.State = kernel.Running
	}
	p.handed++
	p.seen = append(p.seen, t.TID)
	known := p.threads[t.TID]
	stays := known != nil && t.State != kernel.Running && known.Started == t.Started && known.Switches == t.Switches
	credit := p.interval
	if q != nil && !q.young && t.State == kernel.Runnable && !(stays && known.State == kernel.Runnable) {
		p.times[kernel.Running] += p.interval // until the kernel reports how long the thread was queued
		credit = 0
	} else {
		p.times[t.State] += p.interval
	}
	if known != nil {
		known.seen = p.passes
		known.stayedFor(t.Stayed)
		p.keepThread(known, -1)
	}
	if known != nil && !stays {
		p.leaves(known)
		p.dropThread(known)
		known = nil
	}
	if q != nil {
		q.payTime(q.place)
	}
	switch {
	case t.State == kernel.Running: // the CPU clock has it
	case known == nil && t.Unmoved: // an old mark: the next pass reads the thread
		p.noteError(p.options.Passes.Unmark(t.TID))
	case known == nil:
		kept := *t
		kept.Kernel = slices.Clone(t.Kernel)
		p.moved = append(p.moved, &kept)
		if q != nil && t.State == kernel.Runnable {
			q.given += credit
		}
	default:
		if known.State != t.State { // for example, it was woken and is queued for a CPU
			p.endThread(known)
			known.State = t.State
		}
		known.credit += credit
		if q != nil && t.State == kernel.Runnable {
			known.ahead += credit
		}
	}
}

// endThread has the credit of a thread settled after the pass: the waker that ended its wait is known then.
func (p *pass) endThread(t *thread) {
	p.ended = append(p.ended, *t)
	t.credit = 0
}

// dropThread ends the credit of a thread that is no longer where it was.
func (p *pass) dropThread(t *thread) {
	p.endThread(t)
	delete(p.threads, t.TID)
	p.noteError(p.options.Passes.Unmark(t.TID))
}

// noteError keeps the first error.
func (p *pass) noteError(err error) {
	if p.err == nil {
		p.err = err
	}
}

// keepThread counts a known thread as kept, or with -1 no longer.
func (p *pass) keepThread(t *thread, n int) {
	p.keptIn[t.State] += n
	p.kept += n
}

// forget drops the threads that the pass has not seen: they have ended, or are no longer watched.
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
		p.noteError(p.options.Passes.Unmark(tid))
	}
	for _, t := range p.threads {
		if t.seen != p.passes {
			p.keepThread(t, -1)
			p.dropThread(t)
		}
	}
	p.forgetQueues()
	return nil
}

// looking notes the CPU time of a pass that has found few threads moved. Other passes do not predict the next ones: the
// first passes look at all threads, until their stacks are read, and so do passes that ask Target again.
func (p *pass) looking(took time.Duration) {
	const few = 8
	switch {
	case p.handed > p.kept/few:
		p.looked = 0
	case !p.asking:
		p.looked = took
	}
}

// count adds up the times of the kept threads, and counts the pass.
func (p *pass) count() {
	for state, n := range p.keptIn {
		p.times[state] += p.interval * time.Duration(n)
	}
	p.stats.Passes++
	p.stats.Threads = uint64(p.handed + p.kept)
}

// readsAtOnce is how many stacks are read between looks at where their threads are. The smaller it is, the less time a
// thread has to move.
const readsAtOnce = 16

// readMoved reads the stacks of threads that have moved, or of a random subset that stands for all. Stacks that were
// not copied come first: they exist only as long as their threads do not run.
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
			p.noteError(next[i].readStack(p))
		}
		had = next
	}
	return errors.Join(err, p.check(had, nil))
}

// choose returns the threads whose stacks are read. In a subset, restless and other threads have the same share. Among
// the restless ones it prefers watched threads, which are a random subset.
func (p *pass) choose() (chosen []reading) {
	var restless, others, queued []*kernel.Thread
	for _, t := range p.moved {
		if q := p.queues[t.TID]; t.State == kernel.Runnable && q != nil && !q.young {
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

// restlessFor is the number of passes for which a thread counts as restless after it has moved. On a busy host it may
// be queued for a CPU at some passes in between.
const restlessFor = 8

// calmThreads updates the restless threads after a pass.
func (p *pass) calmThreads() {
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

// reading is the reading of one thread's stack.
type reading struct {
	thread *kernel.Thread
	share  time.Duration // time that the thread is credited with
	stack  *sampler.Sample
	whole  bool // the stack is of the time of the pass, even if the thread has moved since
}

func findReading(some []reading, tid uint32) *reading {
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

// readStack reads the stack of a thread. Data that language runtimes keep elsewhere is not in a copy.
func (r *reading) readStack(p *pass) error {
	copied, err := p.options.Passes.CopiedStack(r.thread)
	memory := snapshot.MemoryOf(p.options.Completer.Memory(r.thread.PID), r.thread, copied)
	r.stack = p.options.Completer.CompleteThread(r.thread, memory)
	r.whole = memory.OfCopy() && r.stack.Interpreted == nil
	p.stats.Read++
	return err
}

// check credits the threads in had, whose stacks were read, after a look at whether they have stayed. The threads in
// next may have moved since the pass saw them, as reading stacks takes time. They count where they are now, unless they
// run or their stacks were copied. After an error no thread counts as stayed.
func (p *pass) check(had, next []reading) error {
	stays := map[uint32]bool{}
	threads := make([]*kernel.Thread, 0, len(next))
	for i := range next {
		threads = append(threads, next[i].thread)
	}
	err := p.options.Passes.Check(threads, func(now *kernel.Thread) {
		if r := findReading(had, now.TID); r != nil {
			stays[now.TID] = !snapshot.Moved(r.thread, now)
		} else if r := findReading(next, now.TID); r != nil && !r.thread.Copied {
			r.thread = later(r.thread, now)
		}
	})
	for i := range had {
		p.takeReading(&had[i], err == nil && stays[had[i].thread.TID])
	}
	return err
}

// later returns a thread as it is now if it has moved and is on no CPU, else as it was.
func later(was, now *kernel.Thread) *kernel.Thread {
	off := now.State != kernel.Running && now.State != kernel.Ended && !now.Displaced
	if !off || now.Started != was.Started || now.Switches == was.Switches {
		return was
	}
	if was.Queued >= 0 && (was.State == kernel.Runnable) != (now.State == kernel.Runnable) {
		return was // looks do not count time in the queue
	}
	kept := *now
	kept.Kernel = slices.Clone(now.Kernel)
	return &kept
}

// takeReading credits a thread at the place that its stack shows. The kernel part was seen together with the state; the
// user part was copied then, or was read later and is right only if the thread has stayed.
func (p *pass) takeReading(r *reading, stays bool) {
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
		q.payTime(at)
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
	p.noteError(p.options.Passes.Unmark(t.TID))
}
