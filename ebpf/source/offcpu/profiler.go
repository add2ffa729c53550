package offcpu

import (
	"slices"
	"sync"

	"github.com/headwater/headwater/ebpf/common/counter"
	"github.com/headwater/headwater/ebpf/kernel"
	"github.com/headwater/headwater/ebpf/sampler"
)

// Config configures a Profiler. The zero value turns it off.
type Config struct {
	Rate                     int                  // passes over all threads a second; 0 means off
	States                   []kernel.ThreadState // of the threads whose time is shown; none means all
	Wakers                   bool                 // have samples name the waker that ended a wait
	UserStacks, KernelStacks bool
}

// wants reports whether time in a state is shown.
func (c *Config) wants(s kernel.ThreadState) bool {
	return c.Rate > 0 && (len(c.States) == 0 || slices.Contains(c.States, s))
}

// Profiler has a Clock run while its configuration wants one. It is safe for concurrent use.
type Profiler struct {
	options Options

	mu      sync.Mutex
	running *Running // nil if it is off
	stopped bool     // for good
	past    Stats    // of earlier clocks, see counter.Sum

	shown  sync.RWMutex // guards config, which the running clock reads
	config Config
}

// NewProfiler returns a Profiler with a current configuration, for which Prepare starts the clock. Use of the options
// gets the samples that the configuration wants, of processes with a target, stripped to the wanted parts of their
// stacks. Passes and Wakers of the options are not used.
func NewProfiler(o Options, c Config) *Profiler {
	p := &Profiler{options: o, config: c}
	use := o.Use
	p.options.Use = func(s *sampler.Sample) {
		p.shown.RLock()
		wanted, user, inKernel := p.config.wants(s.Thread.State), p.config.UserStacks, p.config.KernelStacks
		p.shown.RUnlock()
		if !wanted || s.Target == nil {
			return
		}
		shown := s.Copy() // the clock keeps s
		shown.Strip(user, inKernel)
		use(shown)
	}
	return p
}

// Prepare does the part of Update that may fail: it starts a clock if c wants one and there is none, and has it see
// wakers. Its samples are not shown until Update.
func (p *Profiler) Prepare(c Config) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if c.Rate == 0 || p.stopped {
		return nil
	}
	if p.running != nil {
		if !c.Wakers {
			return nil
		}
		return p.running.SetWakers(true)
	}
	o := p.options
	o.Wakers = c.Wakers
	running, err := Start(o, float64(c.Rate))
	p.running = running
	return err
}

// Update makes a configuration current for which Prepare was called. The time until now is shown by the old one.
func (p *Profiler) Update(c Config) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.running != nil {
		p.running.Flush()
	}
	p.shown.Lock()
	p.config = c
	p.shown.Unlock()
	switch {
	case p.running == nil:
		return nil
	case c.Rate == 0:
		return p.closeClock()
	}
	p.running.SetRate(float64(c.Rate))
	return p.running.SetWakers(c.Wakers)
}

// closeClock ends the clock and keeps its counters. The caller holds p.mu.
func (p *Profiler) closeClock() error {
	err := p.running.Close()
	p.past = p.stats()
	p.running = nil
	return err
}

// Flush hands over the time of threads that are still where they were.
func (p *Profiler) Flush() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.running != nil {
		p.running.Flush()
	}
}

// Stop ends the clock for good. When it returns, Use has got all time. The figures stay available.
func (p *Profiler) Stop() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.stopped = true
	if p.running != nil {
		p.running.Stop()
	}
}

// Close ends the clock for good and releases everything.
func (p *Profiler) Close() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.stopped = true
	if p.running == nil {
		return nil
	}
	return p.closeClock()
}

// Stats returns the sums of all clocks. The caller owns the result.
func (p *Profiler) Stats() Stats {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.stats()
}

// stats implements Stats. The caller holds p.mu.
func (p *Profiler) stats() Stats {
	var now Stats
	if p.running != nil {
		now = p.running.Stats()
	}
	out := counter.Sum(Counters(), p.past, now)
	out.Errors = now.Errors
	return out
}
