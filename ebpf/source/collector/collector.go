// Package collector takes samples of all kinds and counts them in profiles: of CPU time and of faults, of time off CPU,
// at probes, and of memory in use. It starts, configures, flushes, stops and closes the sources of samples in the order
// in which no sample is lost. Its users, package ebpf and package record, decide which samples they want.
package collector

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/headwater/headwater/ebpf/host/filework"
	"github.com/headwater/headwater/ebpf/kernel"
	"github.com/headwater/headwater/ebpf/process/target"
	"github.com/headwater/headwater/ebpf/profile"
	"github.com/headwater/headwater/ebpf/sampler"
	"github.com/headwater/headwater/ebpf/source/heap"
	"github.com/headwater/headwater/ebpf/source/offcpu"
	"github.com/headwater/headwater/ebpf/source/probe"
)

// IdleExecutable is how long an executable that no process has mapped keeps its tables and symbols.
const IdleExecutable = 30 * time.Second

// Options configure a Collector for its whole life. All functions are required.
type Options struct {
	Files *filework.Pool // reads files that other users control
	// Target returns the target of a process's samples, and whether they are wanted at all.
	Target func(pid uint32) (t *target.Target, wanted bool)
	// Use gets each sample before it is counted, and reports whether to count it. It may change the sample. An error
	// ends Run.
	Use        func(*sampler.Sample) (count bool, err error)
	Observe    func(*kernel.Record)    // gets every side-band record
	Ended      func(pid uint32)        // no further samples of this process will come
	AfterRound func(upTo uint64) error // all samples taken until upTo, CLOCK_MONOTONIC, were used; an error ends Run

	OffCPUReads  int     // offcpu.Options.MaxReads
	OffCPUShare  float64 // offcpu.Options.MaxShare
	HeapOfEnded  bool    // heap.Options.KeepEnded
	HeapForStart bool    // heap.Options.Early
}

// Config is the part of the configuration that Update changes. Each source has its own.
type Config struct {
	Profile profile.Options
	Only    map[uint32]bool // PIDs of the only processes to sample; nil for all
	CPU     sampler.Config
	OffCPU  offcpu.Config
	Probes  probe.Config
	Heap    heap.Config
}

// source is a source of samples other than the Sampler.
type source interface {
	Flush()       // hands all samples until now to Use
	Stop()        // ends sampling for good: Use has got all samples, or a later Flush hands them over
	Close() error // ends sampling and releases everything
}

// Collector takes samples from Run until StopSampling. Its methods may be called concurrently, except Update and Close.
type Collector struct {
	Sampler  *sampler.Sampler
	Profiles *profile.Builder

	options Options
	config  Config
	offCPU  *offcpu.Profiler
	probes  *probe.Prober
	heap    *heap.Profiler
	sources []source
	heapErr error // why no memory is sampled
}

// Open loads the programs, reads the processes that run already, and makes a configuration current. It returns a
// *kernel.PermissionError when this process lacks capabilities. prepared, unless nil, is called before sampling starts:
// the processes that start from then on have records.
func Open(o Options, c Config, prepared func() error) (*Collector, error) {
	x := &Collector{options: o}
	if err := x.open(c, prepared); err != nil {
		return nil, errors.Join(err, x.Close())
	}
	return x, nil
}

func (x *Collector) open(c Config, prepared func() error) (err error) {
	x.Sampler, err = sampler.Open(sampler.Options{
		TableBytes: c.CPU.TableBytes,
		Files:      x.options.Files,
		Target:     x.options.Target,
		Observe:    x.observe,
		Ended:      x.processEnded,
		AfterRound: x.options.AfterRound,
	})
	if err != nil {
		return err
	}
	if prepared != nil {
		if err := prepared(); err != nil {
			return err
		}
	}
	if x.Profiles, err = profile.New(c.Profile, x.Sampler, x.options.Files); err != nil {
		return err
	}
	x.offCPU = offcpu.NewProfiler(offcpu.Options{
		Completer: x.Sampler, Target: x.options.Target, Use: x.useSample,
		MaxReads: x.options.OffCPUReads, MaxShare: x.options.OffCPUShare,
	}, c.OffCPU)
	x.probes = probe.New(probe.Options{Completer: x.Sampler, Target: x.options.Target, Use: x.useSample})
	x.heap = heap.New(heap.Options{
		Sampler: x.Sampler, Target: x.options.Target, Use: x.useSample,
		KeepEnded: x.options.HeapOfEnded, Early: x.options.HeapForStart,
	})
	x.sources = []source{x.offCPU, x.probes, x.heap}
	if err := x.switchTo(c, func() {}); err != nil {
		return err
	}
	return x.heapErr
}

// Update makes a configuration current, or leaves the current one if it fails. Samples taken until now are counted by
// the old configuration; switched is called when all are counted. Probes that cannot be attached and memory that cannot
// be sampled are no failures: see ProbeFailure and Stats.
func (x *Collector) Update(c Config, switched func()) error {
	update, err := x.Profiles.Prepare(c.Profile)
	if err != nil {
		return err
	}
	applied := false
	err = x.switchTo(c, func() {
		update.Apply()
		applied = true
		switched()
	})
	if !applied {
		update.Discard()
	}
	return err
}

// switchTo makes the sources sample as c says. It calls switched when all samples by the old configuration are counted;
// before that it may fail, and then the sources sample as before.
func (x *Collector) switchTo(c Config, switched func()) error {
	if err := x.offCPU.Prepare(c.OffCPU); err != nil {
		return err
	}
	if err := x.configureSampler(c); err != nil {
		return errors.Join(err, x.offCPU.Update(x.config.OffCPU))
	}
	x.offCPU.Flush()
	x.probes.Flush()
	x.config = c
	switched()
	x.probes.Update(c.Probes)
	x.heapErr = x.heap.Update(c.Heap)
	return x.offCPU.Update(c.OffCPU)
}

// configureSampler has the kernel sample CPU time and faults as c says. If it fails, the kernel samples as before.
func (x *Collector) configureSampler(c Config) error {
	if err := x.Sampler.SampleOnly(c.Only); err != nil {
		return err
	}
	if err := x.Sampler.Configure(c.CPU); err != nil {
		return errors.Join(err, x.Sampler.SampleOnly(x.config.Only))
	}
	return nil
}

// ProbeFailure returns why probes of the configuration are not attached, nil if all are.
func (x *Collector) ProbeFailure() error { return x.probes.Stats().Failure }

// observe passes a side-band record on.
func (x *Collector) observe(r *kernel.Record) {
	x.options.Observe(r)
	x.Profiles.Observe(r) // records arrive after open has set Profiles and heap
	x.heap.Observe(r)
}

// processEnded forgets a process.
func (x *Collector) processEnded(pid uint32) {
	x.options.Ended(pid)
	x.Profiles.Ended(pid)
}

// addSample counts a sample, if Use wants it.
func (x *Collector) addSample(s *sampler.Sample) error {
	count, err := x.options.Use(s)
	if count {
		x.Profiles.Add(s)
	}
	return err
}

// useSample counts a sample of a source other than the Sampler, whose Run returns errors of Use.
func (x *Collector) useSample(s *sampler.Sample) { _ = x.addSample(s) }

// Run counts samples of CPU time and faults until ctx is done; all other sources run from Open on. It may be called
// once.
func (x *Collector) Run(ctx context.Context) error { return x.Sampler.Run(ctx, x.addSample) }

// Flush counts all samples until now. It also attaches the probes that could not be attached before.
func (x *Collector) Flush() {
	x.Sampler.Flush() // the kernel buffers samples for a while
	for _, of := range x.sources {
		of.Flush()
	}
	x.probes.Retry()
}

// FlushHeap counts the memory that is in use now.
func (x *Collector) FlushHeap() { x.heap.Flush() }

// Sweep forgets the executables that no process has mapped for IdleExecutable. Call it a few times a minute.
func (x *Collector) Sweep() { x.Profiles.Forget(x.Sampler.Sweep(IdleExecutable)) }

// StopSampling ends sampling at once. The samples taken until then stay.
func (x *Collector) StopSampling() error {
	for _, of := range x.sources {
		of.Stop()
	}
	return x.Sampler.StopSampling()
}

// Close releases everything. Run must have returned, or never been called. Samples that are not collected are lost.
func (x *Collector) Close() (err error) {
	for _, of := range x.sources {
		err = errors.Join(err, of.Close())
	}
	if x.Profiles != nil {
		x.Profiles.Interrupt()
		x.Profiles.Close()
	}
	if x.Sampler != nil {
		err = errors.Join(err, x.Sampler.Close())
	}
	if err != nil {
		return fmt.Errorf("close the sources of samples: %w", err)
	}
	return nil
}

// Stats are the counters of all sources since Open.
type Stats struct {
	Sampler sampler.Stats
	Profile profile.Stats
	OffCPU  offcpu.Stats
	Probes  probe.Stats
	Heap    heap.Stats
}

// Stats returns the counters. The caller owns the result. After an error, the kernel's counters are zero.
func (x *Collector) Stats() (Stats, error) {
	sampling, err := x.Sampler.Stats()
	return Stats{
		Sampler: sampling, Profile: x.Profiles.Stats(), OffCPU: x.offCPU.Stats(), Probes: x.probes.Stats(),
		Heap: x.heap.Stats(),
	}, err
}
