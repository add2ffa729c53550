// Package offcpu is a wall clock over threads: it reports where they are while they are on no CPU, and for how long.
//
// From time to time it makes a pass over all threads. Each thread is credited with the time since the last pass: its
// place at one moment stands for that time, as a sample of the CPU clock stands for its period. So totals are right on
// average whatever threads do, and a long wait is never missed. A thread that has not been on a CPU since the last pass
// is still in the same place: the kernel's part of the pass credits it, without reading it again.
package offcpu

import (
	"cmp"
	"context"
	"errors"
	"maps"
	"math/rand/v2"
	"runtime"
	"slices"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"github.com/headwater/headwater/ebpf/common/clock"
	"github.com/headwater/headwater/ebpf/common/limit"
	"github.com/headwater/headwater/ebpf/kernel"
	"github.com/headwater/headwater/ebpf/language"
	"github.com/headwater/headwater/ebpf/process/target"
	"github.com/headwater/headwater/ebpf/sampler"
)

// Passes makes passes over threads; *kernel.Threads implements it.
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

// askAgain is how often Target is asked again about unwanted processes, and about the processes of threads that stay.
const askAgain = 2 * time.Second

// Completer walks stacks; *sampler.Sampler implements it.
type Completer interface {
	CompleteThread(t *kernel.Thread, m sampler.ThreadMemory) *sampler.Sample
	Memory(pid uint32) language.Memory
	// CatchUp notes the processes that have started until a time, CLOCK_MONOTONIC.
	CatchUp(until uint64) error
}

// Options select the threads that a Clock looks at, and the receiver of its samples.
type Options struct {
	Passes    Passes
	Completer Completer
	// Target returns the target of a process's samples, and whether the process's threads are looked at. Kernel threads
	// are not. A pass asks it once about a process with a thread that has moved.
	Target func(pid uint32) (t *target.Target, wanted bool)
	// Use gets the place of a thread while it was on no CPU, in a sample of kind kind.OffCPU. The Value is for how
	// long, in nanoseconds, and the Time is now. The Thread is as it was there: the State says whether it waited or, if
	// Runnable, was queued for a CPU, and wait.Of says for what. The Waker is set if Wakers are wanted and the wait is
	// over. The sample is valid until Use returns. Use must not call the Clock.
	Use func(*sampler.Sample)
	// MaxReads is how many stacks a pass reads. If more threads have moved, a random subset stands for all. 0 means
	// DefaultMaxReads.
	MaxReads int
	// MaxShare is the share of a CPU that passes may take, and a quarter of that where nearly all threads stay. With
	// many threads there are fewer passes, and each stands for more time. 0 means DefaultMaxShare.
	MaxShare float64
	// MaxThreads is the number of threads whose stacks are kept, at most DefaultMaxThreads. Stacks of more threads are
	// read at each pass, as if the threads had moved. 0 means DefaultMaxThreads.
	MaxThreads int
	// Wakers says whether a clock of Start has wakers in its samples from the start, see SetWakers.
	Wakers bool

	now func() uint64 // in place of clock.Monotonic, for tests
}

// The limits for zero values in Options.
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
	looked  time.Duration // CPU time of a pass in which nearly all threads had stayed; 0 if they move
	last    uint64        // start of the last pass, CLOCK_MONOTONIC; 0 if there was none, or it failed
	asked   uint64        // when Target was last asked about all processes
	threads map[uint32]*thread
	// Threads of wanted processes that a recent pass did not find in their place, with the number of the last such
	// pass: most of the time they have moved again at the next one.
	restless map[uint32]uint64
	watched  map[uint32]bool   // restless threads whose stacks are copied
	passes   uint64            // number of passes that have started
	flushed  bool              // since the last pass
	queues   map[uint32]*queue // of the threads that passes have looked at
	wakers   wakers
	stats    Stats
	times    times
	errors   limit.Texts
}

// New returns a stopped clock: Run makes its passes, or Pass makes one at a time.
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

// Run makes rate() passes a second, if they do not take too long, until the context is done. The time between two
// passes is random: otherwise a program with the same period would be met in the same place each time. The last pass is
// made when the context is done. Run counts passes that fail.
func (c *Clock) Run(ctx context.Context, rate func() float64) {
	defer c.finishAll()
	for {
		err := c.Pass()
		period := time.Duration(c.period(rate()) * (0.5 + rand.Float64()))
		if err != nil {
			c.failed(err)
			period = max(period, retryAfter)
		}
		watched := min(watchedFor, period/4)
		if restFor(ctx, period-watched) {
			if err := c.watch(); err != nil {
				c.failed(err)
			}
		}
		if !restFor(ctx, watched) {
			if err := c.Pass(); err != nil {
				c.failed(err)
			}
			return
		}
	}
}

// restFor returns true after a while, or false when the context is done.
func restFor(ctx context.Context, d time.Duration) bool {
	select {
	case <-ctx.Done():
		return false
	case <-time.After(d):
		return true
	}
}

// watchedFor is the longest time before a pass in which stacks of restless threads are copied when they leave a CPU. A
// wait that has lasted longer will most likely last until its stack is read.
const watchedFor = 10 * time.Millisecond

// watch has the stacks of threads copied that will probably have moved at the next pass: of a random subset, if there
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

// lookingShare is the part of MaxShare for passes in which nearly all threads have stayed. These threads get all of
// their time however few passes there are, so a host with many idle threads needs fewer.
const lookingShare = 0.25

// spent returns the CPU time of the calling thread.
func spent() time.Duration {
	var t unix.Timespec
	_ = unix.ClockGettime(unix.CLOCK_THREAD_CPUTIME_ID, &t) // it cannot fail
	return time.Duration(t.Nano())
}

// period returns the time between passes, in ns. It ignores how long passes waited for a CPU: on a busy host, waits are
// of interest.
func (c *Clock) period(rate float64) float64 {
	c.mu.Lock()
	defer c.mu.Unlock()
	took := c.took
	if c.passes == 1 { // it has seen all threads for the first time
		took = 0
	}
	most := c.options.MaxShare
	return max(float64(time.Second)/rate, float64(took)/most, float64(c.looked)/(most*lookingShare))
}

// retryAfter is the least time between a failed pass and the next one.
const retryAfter = time.Second

func (c *Clock) failed(err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.errors.Add(err.Error(), 1)
}

// Flush hands to Use the credit of threads that are still where they were. Then Target is asked again.
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

// finishAll hands all credit to Use after the last pass.
func (c *Clock) finishAll() {
	c.Flush()
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, q := range c.queues {
		c.finish(q)
	}
}

// readStayed credits threads with the time that passes have added to their marks.
func (c *Clock) readStayed() error {
	return c.options.Passes.ReadMarks(func(m kernel.Mark) {
		if t := c.threads[m.TID]; t != nil {
			t.stayedFor(m.Stayed)
		}
	})
}

// Stats returns the counters of the clock. The caller owns the result.
func (c *Clock) Stats() Stats {
	c.mu.Lock()
	defer c.mu.Unlock()
	out := c.stats
	out.Kept = uint64(len(c.threads))
	out.Time, out.Errors = c.times.byName(), c.errors.Counts()
	return out
}

// Pass looks at all threads once, and credits each with the time since the last pass. The first pass credits no time,
// and neither does a pass after an error.
func (c *Clock) Pass() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	runtime.LockOSThread() // the CPU time of this thread is measured
	defer runtime.UnlockOSThread()
	began := spent()
	defer func() { c.took = spent() - began }()
	now := c.options.now()
	p := pass{Clock: c, owners: map[uint32]owner{}}
	if c.last != 0 {
		p.interval = time.Duration(now - c.last)
	}
	p.before = c.last
	c.last = 0
	if err := p.askThreads(now); err != nil {
		return err
	}
	c.passes++
	for _, t := range p.threads {
		p.keepThread(t, 1)
	}
	looking := spent()
	stayed, err := c.options.Passes.ReadMarked(p.interval, p.lookAtThread)
	looked := spent() - looking
	if err = errors.Join(err, p.err); err != nil {
		return errors.Join(err, p.settleEnded())
	}
	c.last = now
	p.looking(looked)
	defer p.calmThreads()
	if stayed != p.kept || p.asking {
		p.noteError(p.forget())
	}
	p.count()
	return errors.Join(p.settleEnded(), p.readMoved(), p.err)
}
