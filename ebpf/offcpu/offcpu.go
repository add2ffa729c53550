// Package offcpu is a wall clock over threads: it says where they are while they are on no CPU, and for how long.
//
// Now and then it makes a pass over all threads. Each thread is credited with the time since the pass before: what it
// does at a moment stands for that time, as a sample of the CPU clock stands for its period. So totals are right on
// average whatever threads do, and a long wait is never missed. A thread that has not been on a CPU since the last pass
// is still where it was: nothing of it is read again.
package offcpu

import (
	"cmp"
	"context"
	"maps"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/headwater/headwater/ebpf/clock"
	"github.com/headwater/headwater/ebpf/kernel"
	"github.com/headwater/headwater/ebpf/runtime"
	"github.com/headwater/headwater/ebpf/sampler"
)

// Passes looks at threads; *kernel.Threads does.
type Passes interface {
	Read(pid, tid uint32, use func(*kernel.Thread)) error
}

// Completer walks stacks; *sampler.Sampler does.
type Completer interface {
	CompleteThread(t *kernel.Thread, m sampler.ThreadMemory) *sampler.Sample
	Memory(pid uint32) runtime.Memory
}

// Options say whose threads are looked at, and who gets what is seen.
type Options struct {
	Passes    Passes
	Completer Completer
	// Watched reports whether the threads of a process are looked at.
	Watched func(pid uint32) bool
	// Use gets where a thread was while it was on no CPU, in a sample of kind kind.OffCPU. Its Value is for how long, in
	// nanoseconds. The thread is as it was there: its State says whether it waited or, if Runnable, was queued for a CPU,
	// and snapshot.Wait for what. Its Kernel is nil: the sample has it. Both are valid until Use returns, and the sample
	// is without a Target. Use may not call the Clock.
	Use func(*sampler.Sample, *kernel.Thread)
	// MaxReads is how many stacks a pass reads. If more threads have moved, a random subset of them stands for all.
	// 0: DefaultMaxReads.
	MaxReads int
	// MaxThreads is of how many threads stacks are kept. Those of others are read at each pass, as if they had moved.
	// 0: DefaultMaxThreads.
	MaxThreads int

	now func() uint64 // in place of clock.Monotonic, for tests
}

// The limits where Options have none.
const (
	DefaultMaxReads   = 512
	DefaultMaxThreads = 1 << 15
)

// Stats are counted since New.
type Stats struct {
	Passes  uint64
	Threads uint64 // that the last pass has seen
	Kept    uint64 // of them, those of which a stack is kept
	Read    uint64 // stacks that were read
	Dropped uint64 // of them, those whose thread ran meanwhile: they end at a frame that says so
	Unread  uint64 // stacks that had to be read and were not, beyond MaxReads
	// Time is what threads were credited with, by their state at the passes. The sum over all states is the sum of all
	// threads' time between passes.
	Time map[kernel.ThreadState]time.Duration
}

// Clock is the wall clock. Safe for concurrent use.
type Clock struct {
	options Options

	mu      sync.Mutex
	last    uint64 // when the last pass began, CLOCK_MONOTONIC; 0: there was none, or it failed
	threads map[uint32]*thread
	stats   Stats
}

// New returns a clock that stands still: its passes are made by Run, or one at a time by Pass.
func New(o Options) *Clock {
	if o.now == nil {
		o.now = clock.Monotonic
	}
	o.MaxReads = cmp.Or(o.MaxReads, DefaultMaxReads)
	o.MaxThreads = cmp.Or(o.MaxThreads, DefaultMaxThreads)
	return &Clock{options: o, threads: map[uint32]*thread{},
		stats: Stats{Time: map[kernel.ThreadState]time.Duration{}}}
}

// Run makes passes, rate of them a second, until the context is done or one fails. The time between two of them is
// random: a program that does something as regularly would else be met in the same place each time.
func (c *Clock) Run(ctx context.Context, rate float64) error {
	defer c.Flush()
	for {
		if err := c.Pass(); err != nil {
			return err
		}
		period := time.Duration((0.5 + rand.Float64()) * float64(time.Second) / rate)
		select {
		case <-ctx.Done():
			return nil
		case <-time.After(period):
		}
	}
}

// Flush hands to Use what threads are credited with that are still where they were.
func (c *Clock) Flush() {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, t := range c.threads {
		c.settle(t)
	}
}

// Stats returns what the clock has counted. It is the caller's.
func (c *Clock) Stats() Stats {
	c.mu.Lock()
	defer c.mu.Unlock()
	out := c.stats
	out.Kept = uint64(len(c.threads))
	out.Time = maps.Clone(c.stats.Time)
	return out
}

// Pass looks at all threads once, and credits each with the time since the last pass. The first one credits nothing,
// and neither does one after an error.
func (c *Clock) Pass() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	now := c.options.now()
	p := pass{Clock: c, seen: map[uint32]bool{}}
	if c.last != 0 {
		p.interval = time.Duration(now - c.last)
	}
	c.last = 0
	if err := c.options.Passes.Read(0, 0, p.look); err != nil {
		return err
	}
	c.last = now
	c.stats.Passes++
	c.stats.Threads = uint64(len(p.seen))
	p.forget()
	return p.readMoved()
}
