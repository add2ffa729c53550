// Package heap samples the memory that programs allocate, and knows which of it is in use. It sees calls of the
// allocators of C by probes, each of which costs the program a trap.
package heap

import (
	"errors"
	"fmt"
	"maps"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"github.com/headwater/headwater/ebpf/clock"
	"github.com/headwater/headwater/ebpf/footprint"
	"github.com/headwater/headwater/ebpf/kernel"
	"github.com/headwater/headwater/ebpf/limit"
	"github.com/headwater/headwater/ebpf/process"
	"github.com/headwater/headwater/ebpf/procfs"
	"github.com/headwater/headwater/ebpf/sampler"
	"github.com/headwater/headwater/ebpf/target"
	"github.com/headwater/headwater/ebpf/unwind"
)

const (
	// MaxSampleBytes limits Config.SampleBytes.
	MaxSampleBytes = 1 << 31
	// readEvery is how long samples may lie in the kernel's buffer.
	readEvery = 20 * time.Millisecond
	// searchEvery is how often allocators are looked for in files that programs have mapped since.
	searchEvery = 100 * time.Millisecond
	// askEvery is how often processes are judged again that were not wanted.
	askEvery = 10 * time.Second
)

// Sampler sees calls of allocators, completes stacks, and knows the files that processes have mapped; *sampler.Sampler
// does.
type Sampler interface {
	OpenHeap(period uint32) (*kernel.Heap, error)
	CatchUp(until uint64) error
	CompleteHit(h *kernel.ProbeHit) *sampler.Sample
	Mapped(want func(*process.Executable) bool, yield func(process.FileMapping))
	Executable(id unwind.ExeID) *process.Executable
}

// Options say whose memory is of interest.
type Options struct {
	Sampler Sampler
	// Target says whom the memory of a process counts for, and whether it is wanted at all.
	Target func(pid uint32) (t *target.Target, wanted bool)
	// Use gets a sample for each block in use when Flush is called. It is valid until Use returns, which may not call the
	// Profiler.
	Use func(*sampler.Sample)
	// KeepEnded has processes that end count with what they had in use then.
	KeepEnded bool
	// Early has the calls of allocators seen that any process has mapped, for programs that will begin.
	Early bool
}

// Config says what is sampled.
type Config struct {
	SampleBytes int // how many are allocated for one sample, at most MaxSampleBytes; 0: none are taken
	UserStacks  bool
	// Each has the kernel put probes into wanted processes only: others, which map the same C library, pay nothing. A
	// process that begins later is not seen in its first tenth of a second. Not with Options.Early.
	Each bool
	// Limit is which part of a process's CPU time the traps of its probes may take, 0.1 say. Beyond it the process is not
	// sampled for a while. 0: any.
	Limit float64
}

// Profiler knows which memory is in use. The zero Config wants nothing, and costs nothing. Safe for concurrent use.
type Profiler struct {
	options Options
	loops   sync.WaitGroup

	mu     sync.Mutex
	config Config
	kernel *kernel.Heap // nil: nothing is sampled
	ended  chan struct{}
	files  files
	inUse  inUse
	brake  brake
	news   news        // has its own lock
	mapped atomic.Bool // something, since allocators were looked for
	// ignored are the processes whose calls the kernel passes over.
	ignored map[uint32]bool
	asked   time.Time // when nobody was ignored
	stopped bool
	samples uint64
	missed  map[string]uint64 // before the present kernel
	errors  limit.Texts
}

// New returns a Profiler that samples nothing.
func New(o Options) *Profiler {
	return &Profiler{
		options: o, ignored: map[uint32]bool{}, missed: map[string]uint64{}, errors: limit.Texts{Most: 64},
	}
}

// Update makes a configuration current. With other SampleBytes, or another Each, than before it begins with no memory
// in use. After an error, which Stats has too, nothing is sampled.
func (p *Profiler) Update(c Config) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	same := c.SampleBytes == p.config.SampleBytes && c.Each == p.config.Each && (p.kernel != nil || c.SampleBytes == 0)
	p.config = c
	if same || p.stopped {
		p.limit(c.Limit)
		return nil
	}
	p.close()
	p.inUse = inUse{}
	if c.SampleBytes == 0 {
		return nil
	}
	k, err := p.options.Sampler.OpenHeap(uint32(c.SampleBytes))
	if err != nil {
		p.note(err)
		return err
	}
	p.kernel, p.files, p.inUse, p.brake = k, newFiles(c.Each), newInUse(), newBrake()
	p.limit(c.Limit)
	p.news.start()
	p.search()
	ended := make(chan struct{})
	p.ended = ended
	p.loops.Go(func() { p.follow(ended) })
	return nil
}

// follow reads samples, and looks for allocators, until ended is closed.
func (p *Profiler) follow(ended chan struct{}) {
	footprint.RaisePriority() // samples that nobody reads are lost
	reads, searches, costs := time.NewTicker(readEvery), time.NewTicker(searchEvery), time.NewTicker(brakeEvery)
	defer reads.Stop()
	defer searches.Stop()
	defer costs.Stop()
	for {
		var do func()
		select {
		case <-ended:
			return
		case <-reads.C:
			do = p.read
		case <-searches.C:
			do = p.search
		case <-costs.C:
			do = p.slow
		}
		p.mu.Lock()
		if p.ended == ended {
			do()
		}
		p.mu.Unlock()
	}
}

// read takes the samples that are there. The caller holds p.mu.
func (p *Profiler) read() {
	p.note(p.options.Sampler.CatchUp(clock.Monotonic()))
	p.note(p.kernel.Read(p.take))
	p.news.take(p.inUse.dropBefore)
}

// take keeps a sample, unless its block was freed meanwhile: most are, and a stack takes longer to walk than to look.
func (p *Profiler) take(h *kernel.HeapSample) {
	p.note(p.options.Sampler.CatchUp(h.HeapBlock.Time)) // the process may have begun since read caught up
	target, wanted := p.options.Target(h.HeapBlock.PID)
	if !wanted {
		p.ignore(h.HeapBlock.PID)
		p.note(p.kernel.Forget(h.HeapBlock))
		return
	}
	p.samples++
	if !p.kernel.Uses(h.HeapBlock) {
		return
	}
	s := p.options.Sampler.CompleteHit(&h.ProbeHit)
	s.Target = target
	p.inUse.add(h.HeapBlock, s, h.Weight)
}

// ignore has the kernel pass over calls of a process for a while.
func (p *Profiler) ignore(pid uint32) {
	if !p.ignored[pid] {
		p.ignored[pid] = true
		p.note(p.kernel.Ignore(pid, true))
	}
}

// ignoreNone has all processes judged again. The caller holds p.mu.
func (p *Profiler) ignoreNone() {
	for pid := range p.ignored {
		p.note(p.kernel.Ignore(pid, false))
	}
	clear(p.ignored)
	p.asked = time.Now()
	p.release(p.files.forget(p.options.Sampler, p.wants))
}

// search sees the calls of allocators that it has not seen before. The caller holds p.mu.
func (p *Profiler) search() {
	p.note(p.options.Sampler.CatchUp(clock.Monotonic()))
	if asks := time.Since(p.asked) >= askEvery; asks {
		p.ignoreNone()
	} else if !p.mapped.Load() {
		return
	}
	p.mapped.Store(false)
	for _, m := range p.files.unknown(p.options.Sampler, p.wants) {
		p.note(p.files.attach(p.kernel, m))
	}
}

// limit sets which part of a process's CPU time traps may take, and measures what a trap takes, once. The caller holds
// p.mu.
func (p *Profiler) limit(limit float64) {
	p.brake.limit = limit
	if limit == 0 || p.kernel == nil || p.brake.stepped > 0 {
		return
	}
	var err error
	if p.brake.stepped, err = measureTrap(p.kernel, uint32(os.Getpid())); err != nil {
		p.note(fmt.Errorf("measure what a trap takes: %w", err))
		p.brake.stepped = usualTrap
	}
}

// slow pauses the processes that traps slow down too much, and has those sampled again whose pause is over. The caller
// holds p.mu.
func (p *Profiler) slow() {
	if p.brake.limit == 0 {
		return
	}
	traps := map[uint32]kernel.HeapTraps{}
	p.note(p.kernel.Traps(func(pid uint32, t kernel.HeapTraps) { traps[pid] = t }))
	now := time.Now()
	if p.brake.ends(now) {
		p.mapped.Store(true) // they are attached again
	}
	slowed := p.brake.look(now, traps, procfs.Default.CPUTime)
	if len(slowed) > 0 && !p.files.each {
		// Probes in the file are in all processes that map it: from now on each wanted one has its own.
		p.release(p.files.take(all))
		p.files.each = true
		p.mapped.Store(true)
	}
	for _, pid := range slowed {
		p.release(p.files.take(func(at place) bool { return at.pid == pid }))
		p.inUse.dropBefore(pid, ^uint64(0)) // what it frees is not seen
	}
	if !p.options.KeepEnded {
		p.brake.forget(now, procfs.Default.Lives)
	}
}

// release takes probes away, which takes a while: nobody waits for it. The caller holds p.mu.
func (p *Profiler) release(probes []*kernel.HeapProbes) {
	if len(probes) == 0 {
		return
	}
	p.loops.Go(func() {
		err := closeAll(probes)
		p.mu.Lock()
		defer p.mu.Unlock()
		p.note(err)
	})
}

func closeAll(probes []*kernel.HeapProbes) error {
	var errs []error
	for _, of := range probes {
		errs = append(errs, of.Close())
	}
	return errors.Join(errs...)
}

func (p *Profiler) wants(pid uint32) bool {
	if p.brake.holds(pid, time.Now()) {
		return false
	}
	if p.options.Early && !p.files.each {
		return true
	}
	_, wanted := p.options.Target(pid)
	return wanted
}

// Observe notes which processes begin and end. Whoever reads the side-band may call it, in CatchUp too.
func (p *Profiler) Observe(r *kernel.Record) {
	switch r.Kind {
	case kernel.RecordMap, kernel.RecordLost:
		p.mapped.Store(true)
	case kernel.RecordExec, kernel.RecordFork:
		p.mapped.Store(true) // a child has what its parent has mapped
		p.news.add(r.PID, r.Time)
	case kernel.RecordExit:
		if !p.options.KeepEnded {
			p.news.add(r.PID, r.Time)
		}
	}
}

// reconcile forgets what has been freed since it was sampled. The caller holds p.mu.
func (p *Profiler) reconcile() {
	p.read()
	p.news.take(p.inUse.dropBefore)
	if !p.options.KeepEnded {
		p.inUse.dropEnded(procfs.Default.Lives)
	}
	before, used := clock.Monotonic(), map[kernel.HeapBlock]bool{}
	if err := p.kernel.InUse(func(b kernel.HeapBlock) { used[b] = true }); err != nil {
		p.note(err)
		return
	}
	p.inUse.keep(before, used)
	for b := range used {
		if b.Time < before && !p.inUse.has(b) { // of a process that has ended, or is not wanted any more
			p.note(p.kernel.Forget(b))
		}
	}
}

// Flush hands to Use all memory that is in use.
func (p *Profiler) Flush() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.kernel != nil {
		p.reconcile()
	}
	p.inUse.each(clock.Monotonic(), func(s *sampler.Sample) {
		target, wanted := p.options.Target(s.PID)
		if !wanted {
			if !p.options.KeepEnded {
				return
			}
			target = s.Target
		}
		s.Target = target
		if !p.config.UserStacks {
			s.User, s.Interpreted, s.Outcome = nil, nil, unwind.NotCollected
		}
		p.options.Use(s)
	})
}

// Stop ends sampling for good. Flush has the memory that was in use then. Close the Profiler afterwards.
func (p *Profiler) Stop() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.kernel != nil {
		p.reconcile()
	}
	p.stopped = true
	p.close()
}

// Close is Stop, and waits until the probes are away.
func (p *Profiler) Close() {
	p.Stop()
	p.loops.Wait()
}

// close takes the probes away, which takes seconds: nobody waits for it. The caller holds p.mu.
func (p *Profiler) close() {
	if p.kernel == nil {
		return
	}
	p.missed = p.allMissed()
	close(p.ended)
	old, probes := p.kernel, p.files.take(all)
	p.loops.Go(func() {
		err := errors.Join(closeAll(probes), old.Close())
		p.mu.Lock()
		defer p.mu.Unlock()
		p.note(err)
	})
	p.kernel, p.ended, p.files = nil, nil, newFiles(false)
	p.news.stop()
	clear(p.ignored)
}

// allMissed adds up what all kernels have missed. The caller holds p.mu.
func (p *Profiler) allMissed() map[string]uint64 {
	sum := maps.Clone(p.missed)
	if p.kernel == nil {
		return sum
	}
	now, err := p.kernel.Missed()
	p.note(err)
	for reason, n := range missed(now) {
		sum[reason] += n
	}
	return sum
}

// note counts an error. The caller holds p.mu.
func (p *Profiler) note(err error) {
	if err != nil {
		p.errors.Add("memory in use: "+err.Error(), 1)
	}
}

// Stats returns what was counted. It is the caller's.
func (p *Profiler) Stats() Stats {
	p.mu.Lock()
	defer p.mu.Unlock()
	paused := p.brake.all(time.Now())
	return Stats{
		Paused: paused, Slowed: uint64(len(paused)),
		Files: uint64(p.files.count()), Failed: uint64(len(p.files.failed)),
		Blocks: p.inUse.blocks, Bytes: p.inUse.bytes, Samples: p.samples,
		Missed: p.allMissed(), Failure: p.files.failure(), Errors: p.errors.Counts(),
	}
}
