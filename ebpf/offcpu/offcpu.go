// Package offcpu is a wall clock over threads: it says where they are while they are on no CPU, and for how long.
//
// Now and then it makes a pass over all threads. Each thread is credited with the time since the pass before: what it
// does at a moment stands for that time, as a sample of the CPU clock stands for its period. So totals are right on
// average whatever threads do, and a long wait is never missed. A thread that has not been on a CPU since the last pass
// is still where it was: the kernel's part of the pass credits it, and nothing of it is read again.
package offcpu

import (
	"cmp"
	"context"
	"errors"
	"maps"
	"math/rand/v2"
	goruntime "runtime"
	"slices"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"github.com/headwater/headwater/ebpf/clock"
	"github.com/headwater/headwater/ebpf/kernel"
	"github.com/headwater/headwater/ebpf/limit"
	"github.com/headwater/headwater/ebpf/runtime"
	"github.com/headwater/headwater/ebpf/sampler"
	"github.com/headwater/headwater/ebpf/target"
)

// Passes looks at threads; *kernel.Threads does.
type Passes interface {
	ReadMarked(interval time.Duration, use func(*kernel.Thread)) (stayed int, err error)
	ReadMarks(use func(kernel.Mark)) error
	Check(next []*kernel.Thread, use func(*kernel.Thread)) error
	MarkUnwanted(pid uint32) error
	Unmark(tid uint32) error
	WatchLeaving(tids []uint32) error
	CopiedStack(of *kernel.Thread) (*kernel.StackCopy, error)
	WantAll() error
	WatchWakers() error
	IgnoreWakers() error
	ReadWakers(use func(*kernel.Waker)) (lost uint64, err error)
}

// askAgain is how often Target is asked again about processes that are not wanted, and those of threads that stay.
const askAgain = 2 * time.Second

// Completer walks stacks; *sampler.Sampler does.
type Completer interface {
	CompleteThread(t *kernel.Thread, m sampler.ThreadMemory) *sampler.Sample
	Memory(pid uint32) runtime.Memory
	// CatchUp takes note of the processes that have begun until a time, CLOCK_MONOTONIC.
	CatchUp(until uint64) error
}

// Options say whose threads are looked at, and who gets what is seen.
type Options struct {
	Passes    Passes
	Completer Completer
	// Target says whom the samples of a process count for, and whether its threads are looked at. Those of the kernel
	// are not. A pass asks it once about a process of which a thread has moved.
	Target func(pid uint32) (t *target.Target, wanted bool)
	// Use gets where a thread was while it was on no CPU, in a sample of kind kind.OffCPU. Its Value is for how long, in
	// nanoseconds, and its Time now. Its Thread is as it was there: the State says whether it waited or, if Runnable, was
	// queued for a CPU, and wait.Of for what. Its Waker is set if Wakers are wanted and the wait is over. It is valid
	// until Use returns, which may not call the Clock.
	Use func(*sampler.Sample)
	// MaxReads is how many stacks a pass reads. If more threads have moved, a random subset of them stands for all.
	// 0: DefaultMaxReads.
	MaxReads int
	// MaxShare is how much of a CPU passes may take, and a quarter of that where nearly all threads stay: with many
	// threads fewer of them are made, and each stands for more time. 0: DefaultMaxShare.
	MaxShare float64
	// MaxThreads is of how many threads stacks are kept. Those of others are read at each pass, as if they had moved.
	// 0: DefaultMaxThreads, and there is room for no more.
	MaxThreads int
	// Wakers says whether a clock of Start reports to Use who has ended a wait from its beginning on, see SetWakers.
	Wakers bool

	now func() uint64 // in place of clock.Monotonic, for tests
}

// The limits where Options have none.
const (
	DefaultMaxReads   = 512
	DefaultMaxThreads = 1 << 14
	DefaultMaxShare   = 0.03
)

// Clock is the wall clock. Safe for concurrent use.
type Clock struct {
	options Options

	mu      sync.Mutex
	took    time.Duration // CPU time of the last pass
	looked  time.Duration // CPU time of a pass that found nearly all threads where they were; 0: they move
	last    uint64        // when the last pass began, CLOCK_MONOTONIC; 0: there was none, or it failed
	asked   uint64        // when Target was asked about all processes, as last
	threads map[uint32]*thread
	// Threads of processes that are wanted, and the last pass that did not find them where they were, of those lately:
	// most of them have moved again at the next one.
	restless map[uint32]uint64
	watched  map[uint32]bool   // of them, those whose stacks are copied
	passes   uint64            // that have begun
	flushed  bool              // since the last of them
	queues   map[uint32]*queue // of the threads that passes have looked at
	wakers   wakers
	stats    Stats
	times    times
	errors   limit.Texts
}

// New returns a clock that stands still: its passes are made by Run, or one at a time by Pass.
func New(o Options) *Clock {
	if o.now == nil {
		o.now = clock.Monotonic
	}
	o.MaxReads = cmp.Or(o.MaxReads, DefaultMaxReads)
	o.MaxShare = cmp.Or(o.MaxShare, DefaultMaxShare)
	o.MaxThreads = cmp.Or(o.MaxThreads, DefaultMaxThreads)
	return &Clock{
		options: o, threads: map[uint32]*thread{}, restless: map[uint32]uint64{}, watched: map[uint32]bool{},
		queues: map[uint32]*queue{},
		wakers: newWakers(false), errors: limit.Texts{Most: 16},
	}
}

// Run makes passes, rate() of them a second if they do not take too long, until the context is done. The time between
// two of them is random: a program that does something as regularly would else be met in the same place each time.
// The last one is made when the context is done. Those that fail are counted.
func (c *Clock) Run(ctx context.Context, rate func() float64) {
	defer c.Flush()
	for {
		err := c.Pass()
		period := time.Duration(c.period(rate()) * (0.5 + rand.Float64()))
		if err != nil {
			c.failed(err)
			period = max(period, retryAfter)
		}
		watched := min(watchedFor, period/4)
		if rest(ctx, period-watched) {
			if err := c.watch(); err != nil {
				c.failed(err)
			}
		}
		if !rest(ctx, watched) {
			if err := c.Pass(); err != nil {
				c.failed(err)
			}
			return
		}
	}
}

// rest returns after a while, or with false when the context is done.
func rest(ctx context.Context, d time.Duration) bool {
	select {
	case <-ctx.Done():
		return false
	case <-time.After(d):
		return true
	}
}

// watchedFor is for how long before a pass, at most, stacks of restless threads are copied when they leave a CPU. A
// wait that has lasted longer will most likely last until its stack is read.
const watchedFor = 10 * time.Millisecond

// watch has the stacks copied of threads that will probably have moved at the next pass: of a random subset, if there
// are many.
func (c *Clock) watch() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	clear(c.watched)
	if len(c.restless) == 0 {
		return nil
	}
	tids := slices.Collect(maps.Keys(c.restless))
	rand.Shuffle(len(tids), func(i, j int) { tids[i], tids[j] = tids[j], tids[i] })
	tids = tids[:min(len(tids), c.options.MaxReads, kernel.MaxCopies)]
	for _, tid := range tids {
		c.watched[tid] = true
	}
	return c.options.Passes.WatchLeaving(tids)
}

// lookingShare is what of MaxShare may go to seeing that nearly all threads have not moved. They get all of their time
// however few passes there are, so a host where many are idle need not be looked at as often.
const lookingShare = 0.25

// spent returns the CPU time of the calling thread.
func spent() time.Duration {
	var t unix.Timespec
	_ = unix.ClockGettime(unix.CLOCK_THREAD_CPUTIME_ID, &t) // it cannot fail
	return time.Duration(t.Nano())
}

// period returns how many ns lie between passes. It does not matter how long they had to wait for a CPU: where all CPUs
// are busy, it is of interest what waits.
func (c *Clock) period(rate float64) float64 {
	c.mu.Lock()
	defer c.mu.Unlock()
	took := c.took
	if c.passes == 1 { // it has seen everything for the first time
		took = 0
	}
	most := c.options.MaxShare
	return max(float64(time.Second)/rate, float64(took)/most, float64(c.looked)/(most*lookingShare))
}

// retryAfter is how long no pass is made after one that failed.
const retryAfter = time.Second

func (c *Clock) failed(err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.errors.Add(err.Error(), 1)
}

// Flush hands to Use what threads are credited with that are still where they were. Then Target is asked again.
func (c *Clock) Flush() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if err := c.readStayed(); err != nil {
		c.errors.Add(err.Error(), 1)
	}
	for _, t := range c.threads {
		c.settle(t)
	}
	for _, q := range c.queues {
		if q.place != nil {
			c.settle(q.place)
		}
	}
	c.flushed = true
}

// readStayed credits threads with what passes have added to their marks.
func (c *Clock) readStayed() error {
	return c.options.Passes.ReadMarks(func(m kernel.Mark) {
		if t := c.threads[m.TID]; t != nil {
			t.stayedFor(m.Stayed)
		}
	})
}

// Stats returns what the clock has counted. It is the caller's.
func (c *Clock) Stats() Stats {
	c.mu.Lock()
	defer c.mu.Unlock()
	out := c.stats
	out.Kept = uint64(len(c.threads))
	out.Time, out.Errors = c.times.byName(), c.errors.Counts()
	return out
}

// Pass looks at all threads once, and credits each with the time since the last pass. The first one credits nothing,
// and neither does one after an error.
func (c *Clock) Pass() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	goruntime.LockOSThread() // it is this thread's CPU time that is measured
	defer goruntime.UnlockOSThread()
	began := spent()
	defer func() { c.took = spent() - began }()
	now := c.options.now()
	p := pass{Clock: c, owners: map[uint32]owner{}}
	if c.last != 0 {
		p.interval = time.Duration(now - c.last)
	}
	p.before = c.last
	c.last = 0
	if err := p.ask(now); err != nil {
		return err
	}
	c.passes++
	for _, t := range p.threads {
		p.keep(t, 1)
	}
	looking := spent()
	stayed, err := c.options.Passes.ReadMarked(p.interval, p.look)
	looked := spent() - looking
	if err = errors.Join(err, p.err); err != nil {
		return errors.Join(err, p.settleEnded())
	}
	c.last = now
	p.looking(looked)
	defer p.calm()
	if stayed != p.kept || p.asking {
		p.note(p.forget())
	}
	p.count()
	return errors.Join(p.settleEnded(), p.readMoved(), p.err)
}
