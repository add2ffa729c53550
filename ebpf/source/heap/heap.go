// Package heap samples the memory that programs allocate, and tracks which sampled memory is in use. It sees calls of
// the allocators of C by probes; each probe costs the program a trap.
package heap

import (
	"errors"
	"fmt"
	"maps"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"github.com/headwater/headwater/ebpf/common/clock"
	"github.com/headwater/headwater/ebpf/common/limit"
	"github.com/headwater/headwater/ebpf/host/footprint"
	"github.com/headwater/headwater/ebpf/host/procfs"
	"github.com/headwater/headwater/ebpf/kernel"
	"github.com/headwater/headwater/ebpf/process"
	"github.com/headwater/headwater/ebpf/process/target"
	"github.com/headwater/headwater/ebpf/sampler"
	"github.com/headwater/headwater/ebpf/unwind"
)

const (
	// MaxSampleBytes limits Config.SampleBytes.
	MaxSampleBytes = 1 << 31
	// readEvery is how long samples may stay in the kernel's buffer.
	readEvery = 20 * time.Millisecond
	// searchEvery is how often newly mapped files are searched for allocators.
	searchEvery = 100 * time.Millisecond
	// askEvery is how often unwanted processes are judged again.
	askEvery = 10 * time.Second
)

// Sampler sees calls of allocators, completes stacks, and knows the files that processes have mapped; *sampler.Sampler
// implements it.
type Sampler interface {
	OpenHeap(period uint32) (*kernel.Heap, error)
	CatchUp(until uint64) error
	CompleteHit(h *kernel.ProbeHit) *sampler.Sample
	Mapped(want func(*process.Executable) bool, yield func(process.FileMapping))
	Executable(id unwind.ExeID) *process.Executable
}

// Options select the processes whose memory is sampled, and the receiver of the samples.
type Options struct {
	Sampler Sampler
	// Target returns the target of a process's memory, and whether the process is wanted at all.
	Target func(pid uint32) (t *target.Target, wanted bool)
	// Use gets a sample for each block in use when Flush is called. The sample is valid until Use returns. Use must not
	// call the Profiler.
	Use func(*sampler.Sample)
	// KeepEnded has processes that end count with the memory that they had in use then.
	KeepEnded bool
	// Early probes the allocators that any process has mapped, for programs that will start.
	Early bool
}

// Config configures the sampling of a Profiler.
type Config struct {
	SampleBytes int // number of bytes allocated for one sample, at most MaxSampleBytes; 0 means no samples
	UserStacks  bool
	// Each has the kernel put probes into wanted processes only: other processes that map the same C library have no
	// cost. A process that starts later is not seen in its first tenth of a second. It does not work with
	// Options.Early.
	Each bool
	// Limit is the share of a process's CPU time that the traps of its probes may take, such as 0.1. A process that
	// exceeds it is not sampled for a while. 0 means no limit.
	Limit float64
}

// Profiler tracks which memory is in use. With the zero Config it samples no memory, at no cost. It is safe for
// concurrent use.
type Profiler struct {
	options Options
	loops   sync.WaitGroup

	mu     sync.Mutex
	config Config
	kernel *kernel.Heap // nil if no memory is sampled
	ended  chan struct{}
	files  files
	inUse  inUse
	brake  brake
	news   news        // has its own lock
	mapped atomic.Bool // files were mapped since the last search
	// ignored are the processes whose calls the kernel ignores.
	ignored map[uint32]bool
	asked   time.Time // when all processes were last judged
	stopped bool
	samples uint64
	missed  map[string]uint64 // by earlier values of kernel
	errors  limit.Texts
}

// New returns a Profiler that samples no memory.
func New(o Options) *Profiler {
	return &Profiler{
		options: o, ignored: map[uint32]bool{}, missed: map[string]uint64{}, errors: limit.Texts{Most: 64},
	}
}

// Update makes a configuration current. If SampleBytes or Each changes, it starts with no memory in use. After an
// error, which is also in Stats, no memory is sampled.
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
		p.noteError(err)
		return err
	}
	p.kernel, p.files, p.inUse, p.brake = k, newFiles(c.Each), newInUse(), newBrake(time.Now())
	p.limit(c.Limit)
	p.news.start()
	p.search()
	ended := make(chan struct{})
	p.ended = ended
	p.loops.Go(func() { p.follow(ended) })
	return nil
}

// follow reads samples and searches for allocators until ended is closed.
func (p *Profiler) follow(ended chan struct{}) {
	footprint.RaisePriority() // samples that are not read in time are lost
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
			do = p.readSamples
		case <-searches.C:
			do = p.search
		case <-costs.C:
			do = p.readSlowly
		}
		p.mu.Lock()
		if p.ended == ended {
			do()
		}
		p.mu.Unlock()
	}
}

// readSamples reads the available samples. The caller holds p.mu.
func (p *Profiler) readSamples() {
	p.noteError(p.options.Sampler.CatchUp(clock.Monotonic()))
	p.noteError(p.kernel.Read(p.takeSample))
	p.news.takeProcesses(p.inUse.dropBefore)
}

// takeSample keeps a sample unless its block was freed in the meantime: most were, and walking the stack takes longer
// than this check.
func (p *Profiler) takeSample(h *kernel.HeapSample) {
	p.noteError(p.options.Sampler.CatchUp(h.HeapBlock.Time)) // the process may have started since read caught up
	target, wanted := p.options.Target(h.HeapBlock.PID)
	if !wanted {
		p.ignore(h.HeapBlock.PID)
		p.noteError(p.kernel.Forget(h.HeapBlock))
		return
	}
	p.samples++
	if !p.kernel.Uses(h.HeapBlock) {
		return
	}
	s := p.options.Sampler.CompleteHit(&h.ProbeHit)
	s.Target = target
	p.inUse.addBlock(h.HeapBlock, s, h.Weight)
}

// ignore has the kernel ignore calls of a process for a while.
func (p *Profiler) ignore(pid uint32) {
	if !p.ignored[pid] {
		p.ignored[pid] = true
		p.noteError(p.kernel.Ignore(pid, true))
	}
}

// ignoreNone has all processes judged again. The caller holds p.mu.
func (p *Profiler) ignoreNone() {
	for pid := range p.ignored {
		p.noteError(p.kernel.Ignore(pid, false))
	}
	clear(p.ignored)
	p.asked = time.Now()
	p.release(p.files.forget(p.options.Sampler, p.wants))
}

// search probes the allocators that it has not seen before. The caller holds p.mu.
func (p *Profiler) search() {
	p.noteError(p.options.Sampler.CatchUp(clock.Monotonic()))
	if asks := time.Since(p.asked) >= askEvery; asks {
		p.ignoreNone()
	} else if !p.mapped.Load() {
		return
	}
	p.mapped.Store(false)
	for _, m := range p.files.unknown(p.options.Sampler, p.wants) {
		p.noteError(p.files.attach(p.kernel, m))
	}
}

// limit sets the share of a process's CPU time that traps may take, and measures the cost of traps, once. The caller
// holds p.mu.
func (p *Profiler) limit(limit float64) {
	p.brake.limit = limit
	if limit == 0 || p.kernel == nil || p.brake.trap.stepped > 0 {
		return
	}
	var err error
	if p.brake.trap, err = measureTraps(p.kernel, uint32(os.Getpid())); err != nil {
		p.noteError(fmt.Errorf("measure the duration of a trap: %w", err))
		p.brake.trap = usualTrap
	}
}

// readSlowly pauses the processes that traps slow down too much, and has the processes whose pause is over sampled
// again. The caller holds p.mu.
func (p *Profiler) readSlowly() {
	if p.brake.limit == 0 {
		return
	}
	traps := map[uint32]kernel.HeapTraps{}
	p.noteError(p.kernel.Traps(func(pid uint32, t kernel.HeapTraps) { traps[pid] = t }))
	now := time.Now()
	if p.brake.endsPause(now) {
		p.mapped.Store(true) // so that search attaches them again
	}
	slowed := p.brake.lookAtTraps(now, traps, procfs.Default.CPUTime)
	if len(slowed) > 0 && !p.files.each {
		// Probes in a file are in all processes that map it: from now on each wanted process has its own.
		p.release(p.files.takeProbes(anyPlace))
		p.files.each = true
		p.mapped.Store(true)
	}
	for _, pid := range slowed {
		p.release(p.files.takeProbes(func(at place) bool { return at.pid == pid }))
		p.inUse.dropBefore(pid, ^uint64(0)) // its frees are no longer seen
	}
	if !p.options.KeepEnded {
		p.brake.forget(now, procfs.Default.Lives)
	}
}

// release removes probes in the background, as it takes a while. The caller holds p.mu.
func (p *Profiler) release(probes []*kernel.HeapProbes) {
	if len(probes) == 0 {
		return
	}
	p.loops.Go(func() {
		err := kernel.CloseHeapProbes(probes...)
		p.mu.Lock()
		defer p.mu.Unlock()
		p.noteError(err)
	})
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

// Observe notes which processes start and end. The goroutine that reads the side-band may call it, also in CatchUp.
func (p *Profiler) Observe(r *kernel.Record) {
	switch r.Kind {
	case kernel.RecordMap, kernel.RecordLost:
		p.mapped.Store(true)
	case kernel.RecordExec, kernel.RecordFork:
		p.mapped.Store(true) // a child has its parent's mappings
		p.news.addProcess(r.PID, r.Time)
	case kernel.RecordExit:
		if !p.options.KeepEnded {
			p.news.addProcess(r.PID, r.Time)
		}
	}
}

// reconcile forgets the blocks that were freed since they were sampled. The caller holds p.mu.
func (p *Profiler) reconcile() {
	p.readSamples()
	p.news.takeProcesses(p.inUse.dropBefore)
	if !p.options.KeepEnded {
		p.inUse.dropEnded(procfs.Default.Lives)
	}
	before, used := clock.Monotonic(), map[kernel.HeapBlock]bool{}
	if err := p.kernel.InUse(func(b kernel.HeapBlock) { used[b] = true }); err != nil {
		p.noteError(err)
		return
	}
	p.inUse.keepUsed(before, used)
	for b := range used {
		if b.Time < before && !p.inUse.hasBlock(b) { // of a process that has ended, or is no longer wanted
			p.noteError(p.kernel.Forget(b))
		}
	}
}

// Flush hands all memory in use to Use.
func (p *Profiler) Flush() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.kernel != nil {
		p.reconcile()
	}
	p.inUse.eachSample(clock.Monotonic(), func(s *sampler.Sample) {
		target, wanted := p.options.Target(s.PID)
		if !wanted {
			if !p.options.KeepEnded {
				return
			}
			target = s.Target
		}
		s.Target = target
		s.Strip(p.config.UserStacks, true)
		p.options.Use(s)
	})
}

// Stop ends sampling for good. A later Flush has the memory that was in use then. Close the Profiler afterwards.
func (p *Profiler) Stop() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.kernel != nil {
		p.reconcile()
	}
	p.stopped = true
	p.close()
}

// Close stops sampling, and waits until the probes are removed.
func (p *Profiler) Close() error {
	p.Stop()
	p.loops.Wait()
	return nil
}

// close removes the probes in the background, as it takes seconds. The caller holds p.mu.
func (p *Profiler) close() {
	if p.kernel == nil {
		return
	}
	p.missed = p.allMissed()
	close(p.ended)
	old, probes := p.kernel, p.files.takeProbes(anyPlace)
	p.loops.Go(func() {
		err := errors.Join(kernel.CloseHeapProbes(probes...), old.Close())
		p.mu.Lock()
		defer p.mu.Unlock()
		p.noteError(err)
	})
	p.kernel, p.ended, p.files = nil, nil, newFiles(false)
	p.news.stopNews()
	clear(p.ignored)
}

// allMissed adds up the misses of all values of kernel. The caller holds p.mu.
func (p *Profiler) allMissed() map[string]uint64 {
	sum := maps.Clone(p.missed)
	if p.kernel == nil {
		return sum
	}
	now, err := p.kernel.Missed()
	p.noteError(err)
	for reason, n := range missed(now) {
		sum[reason] += n
	}
	return sum
}

// noteError counts an error. The caller holds p.mu.
func (p *Profiler) noteError(err error) {
	if err != nil {
		p.errors.Add("memory in use: "+err.Error(), 1)
	}
}

// Stats returns the counters. The caller owns the result.
func (p *Profiler) Stats() Stats {
	p.mu.Lock()
	defer p.mu.Unlock()
	paused := p.brake.allPaused(time.Now())
	return Stats{
		Paused: paused, Slowed: uint64(len(paused)),
		Files: uint64(p.files.count()), Failed: uint64(len(p.files.failed)),
		Blocks: p.inUse.blocks, Bytes: p.inUse.bytes, Samples: p.samples,
		Missed: p.allMissed(), Failure: p.files.failure(), Errors: p.errors.Counts(),
	}
}
