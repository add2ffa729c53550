package offcpu

import (
	"cmp"
	"context"
	"errors"
	"math"
	"sync"
	"sync/atomic"

	"github.com/headwater/headwater/ebpf/host/footprint"
	"github.com/headwater/headwater/ebpf/kernel"
)

// Running is a Clock that runs on the threads of this host. Its methods may be called concurrently.
type Running struct {
	*Clock
	threads *kernel.Threads
	rate    atomic.Uint64 // the bits of a float64
	cancel  context.CancelFunc
	loop    sync.WaitGroup
}

// Start starts a clock that makes rate passes a second. The first pass credits the time since Start. Options.Passes
// need not be set. Start returns a *kernel.PermissionError when this process lacks capabilities. Close the Running
// after use.
func Start(o Options, rate float64) (*Running, error) {
	threads, err := kernel.OpenThreads()
	if err != nil {
		return nil, err
	}
	o.Passes = threads
	if err := threads.CopyStacks(cmp.Or(o.MaxReads, DefaultMaxReads)); err != nil {
		return nil, errors.Join(err, threads.Close())
	}
	ctx, cancel := context.WithCancel(context.Background())
	r := &Running{Clock: New(o), threads: threads, cancel: cancel}
	r.last = r.options.now()
	if err := r.SetWakers(o.Wakers); err != nil {
		cancel()
		return nil, errors.Join(err, threads.Close())
	}
	r.SetRate(rate)
	r.loop.Go(func() {
		footprint.RaisePriority() // on busy CPUs looks would come when others leave one, and stacks be read late
		r.Run(ctx, func() float64 { return math.Float64frombits(r.rate.Load()) })
	})
	return r, nil
}

// SetRate changes the number of passes a second.
func (r *Running) SetRate(rate float64) { r.rate.Store(math.Float64bits(rate)) }

// Stop ends the passes. When it returns, Use has got all time.
func (r *Running) Stop() {
	r.cancel()
	r.loop.Wait()
}

// Close stops the clock and releases everything.
func (r *Running) Close() error {
	r.Stop()
	if err := r.threads.Close(); err != nil {
		return errors.Join(errors.New("stop looking at threads"), err)
	}
	return nil
}
