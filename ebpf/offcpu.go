package ebpf

import (
	"slices"
	"sync"
	"time"

	"github.com/headwater/headwater/ebpf/common/counter"
	"github.com/headwater/headwater/ebpf/kernel"
	"github.com/headwater/headwater/ebpf/sampler"
	"github.com/headwater/headwater/ebpf/source/offcpu"
	"github.com/headwater/headwater/flame/kind"
)

// Limits of the rate of OffCPU, in passes a second.
const (
	DefaultOffCPURate = 10
	MaxOffCPURate     = 1000
)

// offCPUReads is how many stacks a pass reads at most: some 50 us each, so a few percent of a CPU at the default rate.
const offCPUReads = 64

// OffCPU configures the profiling of time that threads spend on no CPU. The zero value turns it off.
type OffCPU struct {
	Rate   int                  // passes over all threads a second, at most MaxOffCPURate; 0 means off
	States []kernel.ThreadState // of the threads that are shown; none means all
	Wakers bool                 // have samples name the task that ended a wait, by profile.LabelWaker
}

// DefaultOffCPUStates returns the states of threads that wait, also for a CPU. Threads in all other states were
// stopped.
func DefaultOffCPUStates() []kernel.ThreadState {
	return []kernel.ThreadState{kernel.Runnable, kernel.Sleeping, kernel.Uninterruptible}
}

// period returns the time that a sample without a value stands for, in ns.
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
	running *offcpu.Running // nil if it is off
	stopped bool            // for good
	past    offcpu.Stats    // of earlier clocks, see counter.Sum

	shown   sync.RWMutex // guards options, which the running clock reads
	options Options
}

// prepare does the part of an update that may fail: it starts a clock if options want one and there is none, and has it
// see wakers. Its samples are not shown until update.
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
		Completer: w.sampler, Target: w.targets.targetOf, Use: w.useSample, MaxReads: offCPUReads, Wakers: o.OffCPU.Wakers,
	}, float64(o.OffCPU.Rate))
	w.running = running
	return err
}

// update makes options current for which prepare was called. The time until now is shown by the old options.
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

// closeClock ends the clock and keeps its counters. The caller holds w.mu.
func (w *waiting) closeClock() error {
	err := w.running.Close()
	w.past = w.stats()
	w.running = nil
	return err
}

// current returns the current options.
func (w *waiting) current() Options {
	w.shown.RLock()
	defer w.shown.RUnlock()
	return w.options
}

// useSample adds the place of a thread to its profile.
func (w *waiting) useSample(s *sampler.Sample) {
	w.shown.RLock()
	o := &w.options
	wanted := o.OffCPU.Rate > 0 && (len(o.OffCPU.States) == 0 || slices.Contains(o.OffCPU.States, s.Thread.State))
	user, inKernel := !o.NoUserStacks, !o.NoKernelStacks
	w.shown.RUnlock()
	if !wanted || s.Target == nil {
		return
	}
	shown := s.Copy() // the clock keeps s
	shown.Strip(user, inKernel)
	_ = w.add(shown) // it returns nil
}

// flush hands over the time of threads that are still where they were.
func (w *waiting) flush() {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.running != nil {
		w.running.Flush()
	}
}

// stopPasses ends the clock for good. Its figures stay available until close.
func (w *waiting) stopPasses() {
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

// stats returns the sums of all clocks. The caller holds w.mu.
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

// periods returns the period of each kind of sample.
func (o *Options) periods() [kind.Count]int64 {
	out := o.Periods
	out[kind.OffCPU], out[kind.Heap] = o.OffCPU.period(), int64(o.HeapBytes)
	return out
}
