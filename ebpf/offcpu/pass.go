package offcpu

import (
	"errors"
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
	seen          uint64          // the last pass that has looked at it
}

// stayedFor credits a thread with what its mark has got since the last time.
func (t *thread) stayedFor(mark time.Duration) {
	t.credit += mark - t.had
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
	asking   bool                  // whose threads are wanted
	owners   map[uint32]owner      // by PID
	handed   int                   // threads that were looked at
	kept     int                   // those that are known and were not: they are where they were, or have ended
	keptIn   [kernel.Ended + 1]int // of kept, by state
	err      error                 // of marks
	moved    []*kernel.Thread      // they are on no CPU, and their stacks have to be read
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
	if t.Displaced { // it would run if nobody looked
		t.State = kernel.Running
	}
	p.handed++
	p.times[t.State] += p.interval
	known := p.threads[t.TID]
	if known != nil {
		known.seen = p.passes
		known.stayedFor(t.Stayed)
		p.keep(known, -1)
	}
	if known != nil && (t.State == kernel.Running || known.Started != t.Started || known.Switches != t.Switches) {
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
		known.credit += p.interval
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

// readMoved reads the stacks of threads that have moved, or of a random subset that stands for all of them.
func (p *pass) readMoved() error {
	all := len(p.moved)
	if all > p.options.MaxReads {
		rand.Shuffle(all, func(i, j int) { p.moved[i], p.moved[j] = p.moved[j], p.moved[i] })
		p.moved = p.moved[:p.options.MaxReads]
		p.stats.Unread += uint64(all - len(p.moved))
	}
	left := shares(p.interval*time.Duration(all), len(p.moved))
	var err error
	var had reading
	for some := range slices.Chunk(p.moved, readsAtOnce) {
		next := reading{threads: some, shares: left[:len(some)]}
		left = left[len(some):]
		err = errors.Join(err, p.check(&had, &next))
		next.read(p)
		had = next
	}
	return errors.Join(err, p.check(&had, &reading{}))
}

// reading is of threads that are read at once.
type reading struct {
	threads []*kernel.Thread
	shares  []time.Duration // what each is credited with
	stacks  []*sampler.Sample
}

func (r *reading) of(tid uint32) int {
	return slices.IndexFunc(r.threads, func(t *kernel.Thread) bool { return t.TID == tid })
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

// read reads the stacks of threads.
func (r *reading) read(p *pass) {
	for _, t := range r.threads {
		memory := snapshot.MemoryOf(p.options.Completer.Memory(t.PID), t)
		r.stacks = append(r.stacks, p.options.Completer.CompleteThread(t, memory))
	}
	p.stats.Read += uint64(len(r.threads))
}

// check credits threads that were read, if there are any: it looks whether they have stayed. Those that are next may
// have moved since the pass has seen them, as reading others takes time. They are where they are now, unless they run.
// After an error no thread is taken to have stayed.
func (p *pass) check(had, next *reading) error {
	stays := map[uint32]bool{}
	err := p.options.Passes.Check(next.threads, func(now *kernel.Thread) {
		if at := had.of(now.TID); at >= 0 {
			stays[now.TID] = !snapshot.Moved(had.threads[at], now)
		} else if at := next.of(now.TID); at >= 0 {
			next.threads[at] = later(next.threads[at], now)
		}
	})
	for i, t := range had.threads {
		p.take(t, had.stacks[i], err == nil && stays[t.TID], had.shares[i])
	}
	return err
}

// later returns a thread as it is now if it has moved and is on no CPU, and else as it was.
func later(was, now *kernel.Thread) *kernel.Thread {
	off := now.State != kernel.Running && now.State != kernel.Ended && !now.Displaced
	if !off || now.Started != was.Started || now.Switches == was.Switches {
		return was
	}
	kept := *now
	kept.Kernel = slices.Clone(now.Kernel)
	return &kept
}

// take credits a thread with being where its stack says. The kernel's part was seen at one moment with the state; the
// user's was read later, and is right only if the thread has stayed.
func (p *pass) take(t *kernel.Thread, stack *sampler.Sample, stays bool, credit time.Duration) {
	if !stays && stack.Outcome.HasUserPart() {
		p.stats.Dropped++
		stack.User, stack.Interpreted, stack.Outcome = nil, nil, unwind.Moved
	}
	t.Kernel = nil // the sample has it
	stack.Target = p.owner(t.PID).target
	if !stays || len(p.threads) >= p.options.MaxThreads {
		if credit > 0 {
			p.use(stack, t, credit, nil)
		}
		p.note(p.options.Passes.Unmark(t.TID))
		return
	}
	p.threads[t.TID] = &thread{Thread: *t, stack: stack, credit: credit, seen: p.passes}
}
