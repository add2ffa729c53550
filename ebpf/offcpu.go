package ebpf

import (
	"slices"
	"sync"
	"time"

	"github.com/headwater/headwater/ebpf/counter"
	"github.com/headwater/headwater/ebpf/kernel"
	"github.com/headwater/headwater/ebpf/kind"
	"github.com/headwater/headwater/ebpf/offcpu"
	"github.com/headwater/headwater/ebpf/sampler"
	"github.com/headwater/headwater/ebpf/unwind"
)

// Limits of the rate of OffCPU, in passes a second.
const (
	DefaultOffCPURate = 10
	MaxOffCPURate     = 1000
)

// offCPUReads is how many stacks a pass reads at most: some 50 us each, so a few percent of a CPU at the default rate.
const offCPUReads = 64

// OffCPU says whether and how time is profiled that threads spend on no CPU. The zero value: it is not.
type OffCPU struct {
	Rate   int                  // how often a second threads are looked at, at most MaxOffCPURate; 0: they are not
	States []kernel.ThreadState // of the threads that are shown; none: all
	Wakers bool                 // have samples say who has ended a wait, by profile.LabelWaker
}

// DefaultOffCPUStates are those of threads that wait for something or for a CPU. Others have been stopped.
func DefaultOffCPUStates() []kernel.ThreadState {
	return []kernel.ThreadState{kernel.Runnable, kernel.Sleeping, kernel.Uninterruptible}
}

// period returns what a sample stands for that does not say, in ns.
func (o *OffCPU) period() int64 {
	if o.Rate == 0 {
		return 0
	}
	return int64(time.Second) / int64(o.Rate)
}

// waiting is the part of a session that profiles time off CPU.
type waiting struct {
	sampler *sampler.Sampler
	targets *targets
	add     func(*sampler.Sample) error

	mu      sync.Mutex
	running *offcpu.Running // nil: it is off
	stopped bool            // for good
	past    offcpu.Stats    // of the clocks before, see counter.Sum

	shown   sync.RWMutex // guards what follows, which the running clock reads
	options Options
}

// prepare does what may fail: it starts a clock if options want one and there is none, and has it see wakers. Nothing
// of that is shown until update.
func (w *waiting) prepare(o Options) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	if o.OffCPU.Rate == 0 || w.stopped {
		return nil
	}
	if w.running != nil {
		if !o.OffCPU.Wakers {
			return nil
		}
		return w.running.SetWakers(true)
	}
	running, err := offcpu.Start(offcpu.Options{
		Completer: w.sampler, Target: w.targets.of, Use: w.use, MaxReads: offCPUReads, Wakers: o.OffCPU.Wakers,
	}, float64(o.OffCPU.Rate))
	w.running = running
	return err
}

// update makes options current for which prepare was called. The time until now is shown as the old ones want it.
func (w *waiting) update(o Options) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.running != nil {
		w.running.Flush()
	}
	w.shown.Lock()
	w.options = o
	w.shown.Unlock()
	switch {
	case w.running == nil:
		return nil
	case o.OffCPU.Rate == 0:
		return w.closeClock()
	}
	w.running.SetRate(float64(o.OffCPU.Rate))
	return w.running.SetWakers(o.OffCPU.Wakers)
}

// closeClock ends the clock and keeps what it has counted. The caller holds w.mu.
func (w *waiting) closeClock() error {
	err := w.running.Close()
	w.past = w.stats()
	w.running = nil
	return err
}

// current returns the options that are shown now.
func (w *waiting) current() Options {
	w.shown.RLock()
	defer w.shown.RUnlock()
	return w.options
}

// use adds where a thread was to its profile.
func (w *waiting) use(s *sampler.Sample) {
	w.shown.RLock()
	o := &w.options
	wanted := o.OffCPU.Rate > 0 && (len(o.OffCPU.States) == 0 || slices.Contains(o.OffCPU.States, s.Thread.State))
	user, inKernel := o.UserStacks, o.KernelStacks
	w.shown.RUnlock()
	if !wanted || s.Target == nil {
		return
	}
	shown, inner := *s, *s.Sample // the clock keeps s
	shown.Sample = &inner
	if !inKernel {
		shown.Kernel = nil
	}
	if !user {
		shown.User, shown.Interpreted, shown.Outcome = nil, nil, unwind.NotCollected
	}
	_ = w.add(&shown) // it returns nil
}

// flush hands over the time of threads that are still where they were.
func (w *waiting) flush() {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.running != nil {
		w.running.Flush()
	}
}

// stop ends the clock for good. Until close its figures are there.
func (w *waiting) stop() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.stopped = true
	if w.running != nil {
		w.running.Stop()
	}
}

func (w *waiting) close() error {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.stopped = true
	if w.running == nil {
		return nil
	}
	return w.closeClock()
}

// stats adds up all clocks. The caller holds w.mu.
func (w *waiting) stats() offcpu.Stats {
	var now offcpu.Stats
	if w.running != nil {
		now = w.running.Stats()
	}
	out := counter.Sum(offcpu.Counters(), w.past, now)
	out.Errors = now.Errors
	return out
}

// Stats returns the figures of all clocks.
func (w *waiting) Stats() offcpu.Stats {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.stats()
}

// periods returns what samples of each kind stand for.
func (o *Options) periods() [kind.Count]int64 {
	out := o.Periods
	out[kind.OffCPU], out[kind.Heap] = o.OffCPU.period(), int64(o.HeapBytes)
	return out
}
