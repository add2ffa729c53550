// Package record makes one recording of this host: it samples some processes or all for a
// while, and returns what they did as one profile. It is for commands; what profiles for ever
// is package ebpf.
package record

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/google/pprof/profile"

	"github.com/headwater/headwater/ebpf/export"
	"github.com/headwater/headwater/ebpf/filework"
	"github.com/headwater/headwater/ebpf/heap"
	"github.com/headwater/headwater/ebpf/kernel"
	"github.com/headwater/headwater/ebpf/kind"
	"github.com/headwater/headwater/ebpf/offcpu"
	"github.com/headwater/headwater/ebpf/pprof"
	"github.com/headwater/headwater/ebpf/probe"
	"github.com/headwater/headwater/ebpf/probing"
	"github.com/headwater/headwater/ebpf/procfs"
	builder "github.com/headwater/headwater/ebpf/profile"
	"github.com/headwater/headwater/ebpf/sampler"
	"github.com/headwater/headwater/ebpf/symbol"
	"github.com/headwater/headwater/ebpf/target"
	"github.com/headwater/headwater/ebpf/unwind"
)

const (
	// round is how often samples are named. Names of programs that ended long before are gone.
	round = 10 * time.Second
	// namesPatience is how long names are waited for: nobody looks again later.
	namesPatience = 30 * time.Second
	// idleExecutable is how long an executable that nobody has mapped keeps its tables.
	idleExecutable = 3 * round
	// MaxTimestamps is how many samples' times a recording keeps. Then it ends: they
	// take some 20 bytes each.
	MaxTimestamps = 16 << 20
	// MaxFrames is how many frames the distinct stacks of a recording have. Then it ends: they
	// take some 16 bytes each.
	MaxFrames = 16 << 20
	// waitingShare is how much of a CPU it may take to look at threads that are on none.
	waitingShare = 0.25
	// maxBytes is how much memory stacks without names take before they are named.
	maxBytes = 64 << 20
)

// Options say what is recorded.
type Options struct {
	Selection

	Kind         kind.Kind   // what is sampled: CPU time, time off CPU, both (kind.Wall), faults, or memory in use
	Probe        probe.Probe // samples are taken at this; then Kind and Period are the probe's
	OffCPURate   int         // of time off CPU: how often a second threads are looked at
	Period       uint64      // of faults: after how many one is sampled; of memory in use: of how many bytes
	HeapLimit    float64     // of memory in use: which part of its CPU time a process may spend on probes; 0: any
	SampleRate   int         // samples per second and CPU
	UserStacks   bool        // record the user part of stacks
	KernelStacks bool        // record the kernel part of stacks

	Threads      bool                // tell threads and processes apart, by the labels of LabelPID and so on
	CPUs         bool                // tell CPUs apart, by LabelCPU
	NUMANodes    bool                // tell the nodes of CPUs apart, by LabelNUMANode
	Wakers       bool                // of time off CPU: say who has ended a wait, by LabelWaker
	Timestamps   bool                // keep when each sample was taken, see pprof.Timestamp
	InlineFrames bool                // show functions that were inlined into others
	Demangle     symbol.DemangleMode // how names of C++ and Rust are shown

	TableBytes int // limit of the memory for unwind tables

	// Each, if set, gets what was sampled, every Round and at the end. The Recorder keeps nothing of it then: the
	// Recording has no Profile. It may call Progress and Threads. An error ends the recording.
	Each  func(Part) error
	Round time.Duration // how often; 0: 10 s
}

// period returns what one sample stands for, in the unit of the first value of its kind.
func (o *Options) period() int64 {
	switch o.Kind {
	case kind.CPU, kind.Wall:
		return int64(time.Second) / int64(o.SampleRate)
	case kind.OffCPU:
		return int64(time.Second) / int64(o.OffCPURate)
	}
	return int64(o.Period)
}

// config returns the options of the sampler: it samples the one kind.
func (o *Options) config() sampler.Config {
	c := sampler.Config{
		SampleRate: o.SampleRate, UserStacks: o.UserStacks, KernelStacks: o.KernelStacks, TableBytes: o.TableBytes,
	}
	switch o.Kind {
	case kind.CPU, kind.Wall:
	case kind.OffCPU:
		c.SampleRate = 0
	default:
		c.SampleRate = 0
		if !o.isProbe() && o.Kind != kind.Heap {
			c.Periods[o.Kind] = o.period()
		}
	}
	return c
}

// offCPU reports whether threads are looked at that are on no CPU.
func (o *Options) offCPU() bool { return o.Kind == kind.OffCPU || o.Kind == kind.Wall }

// Part is what was sampled between two rounds.
type Part struct {
	Profile  *profile.Profile // nil without samples; owned by the caller
	Begun    time.Time
	Duration time.Duration
	Progress Progress // at its end
}

// Labels of samples, with Options.Threads.
const (
	LabelPID      = "pid"
	LabelThread   = "thread_name"
	LabelThreadID = "thread_id"
)

// Labels of samples, with Options.CPUs and Options.NUMANodes.
const (
	LabelCPU      = "cpu"
	LabelNUMANode = "numa_node"
	LabelWaker    = builder.LabelWaker // with Options.Wakers
)

// Recording is what was recorded.
type Recording struct {
	Kind     kind.Kind        // what was sampled
	Profile  *profile.Profile // nil without samples; owned by the caller
	Begun    time.Time
	Duration time.Duration
	Samples  uint64 // in the profile
	WithUser uint64 // of these, samples that should have a user part
	Whole    uint64 // of these, samples whose user part reaches the outermost frame
	Ended    string // why the recording ended before it was told to, "" if it did not

	// Lost counts the samples of this host, selected or not, that were due and not taken, by
	// reason: sampler.LostToFullLogs and so on.
	Lost map[string]uint64

	LeftOut []Process              // descendants of the processes that were selected, from before; the first of them
	Paused  []heap.Paused          // processes whose memory was not recorded all the time
	Dropped uint64                 // values of a probe that were too large to be any, and add nothing
	Frames  uint64                 // user frames and kernel frames of distinct stacks
	Unnamed []builder.UnnamedStats // of these, frames without a name, by binary; most first
	Errors  map[string]uint64      // what cost names or stacks, and how often
}

// LostSamples is the sum of Lost.
func (r *Recording) LostSamples() (sum uint64) {
	for _, n := range r.Lost {
		sum += n
	}
	return sum
}

// Recorder makes a recording. Progress and Threads may be called while Run runs; otherwise its
// methods are for one goroutine.
type Recorder struct {
	options  Options
	selected *selection
	sampler  *sampler.Sampler
	builder  *builder.Builder
	files    *filework.Pool
	target   *target.Target
	threads  threads
	waiting  *offcpu.Running // nil: time off CPU is not wanted
	probing  *probing.Prober // nil: no probe is wanted
	heap     *heap.Profiler  // nil: memory in use is not wanted
	profile  *pprof.Builder  // what was named; without Each
	parted   time.Time       // when the last Part ended
	swept    time.Time
	last     bool // the round that ends is the last one

	ending sync.Once // stops sampling
	ended  atomic.Pointer[time.Time]
	endErr error

	samples, withUser, whole atomic.Uint64
}

// Open prepares a recording: it loads the programs, reads what runs already, and begins to
// sample, so that nothing of what Start starts is missed. It returns a *NoProcessError if a
// selected process does not exist, and a *kernel.PermissionError when this process lacks
// capabilities. Close the Recorder after use.
func Open(o Options) (*Recorder, error) {
	if err := o.setProbe(); err != nil {
		return nil, err
	}
	if err := o.checkCPUs(); err != nil {
		return nil, err
	}
	selected, err := newSelection(o.Selection, procfs.Default)
	if err != nil {
		return nil, err
	}
	r := &Recorder{
		options: o, selected: selected, files: &filework.Pool{},
		profile: pprof.NewBuilder(pprof.Options{Kind: o.Kind, Count: true, Period: o.period()}),
		target:  target.Of(map[string]string{target.LabelServiceName: "headwater record"}),
	}
	if err := r.open(); err != nil {
		return nil, errors.Join(err, r.Close())
	}
	return r, nil
}

func (r *Recorder) open() error {
	var err error
	r.sampler, err = sampler.Open(sampler.Options{
		TableBytes: r.options.TableBytes,
		Files:      r.files,
		Target:     func(pid uint32) (*target.Target, bool) { return r.target, r.selected.has(pid) },
		Observe:    r.observe,
		Ended:      func(pid uint32) { r.selected.ended(pid); r.builder.Ended(pid) },
		AfterRound: r.askAgain,
	})
	if err != nil {
		return err
	}
	if err := r.selected.findChildren(); err != nil { // of those that are started from now on there are records
		return err
	}
	r.builder, err = builder.New(builder.Options{
		SampleRate: r.options.SampleRate, Comm: builder.CommStackframe,
		PIDLabel: r.options.Threads, ThreadNameLabel: r.options.Threads, ThreadIDLabel: r.options.Threads,
		CPULabel: r.options.CPUs, NUMANodeLabel: r.options.NUMANodes,
		Timestamps: r.options.Timestamps, Demangle: r.options.Demangle, InlineFrames: r.options.InlineFrames,
		Python: true, Hotspot: true, V8: true,
	}, r.sampler, r.files)
	if err != nil {
		return err
	}
	if err := r.sampler.Configure(r.options.config()); err != nil {
		return err
	}
	return errors.Join(r.startProbe(), r.startHeap(), r.startWaiting())
}

// startWaiting begins to look at threads that are on no CPU, if they are wanted.
func (r *Recorder) startWaiting() (err error) {
	if !r.options.offCPU() {
		return nil
	}
	r.waiting, err = offcpu.Start(offcpu.Options{
		Completer: r.sampler, MaxShare: waitingShare, Wakers: r.options.Wakers,
		Target: func(pid uint32) (*target.Target, bool) { return r.target, r.selected.has(pid) },
		Use: func(s *sampler.Sample) {
			if !r.options.shows(s.Thread.State) {
				return
			}
			shown, inner := *s, *s.Sample // the clock keeps s
			shown.Sample = &inner
			if !r.options.KernelStacks {
				shown.Kernel = nil
			}
			if !r.options.UserStacks {
				shown.User, shown.Interpreted, shown.Outcome = nil, nil, unwind.NotCollected
			}
			_ = r.add(&shown) // times are not kept of these
		},
	}, float64(r.options.OffCPURate))
	return err
}

// shows reports whether threads in a state are recorded by a pass: the CPU clock has those that run.
func (o *Options) shows(s kernel.ThreadState) bool { return s != kernel.Running && s != kernel.Idle }

// observe passes a side-band record on.
func (r *Recorder) observe(record *kernel.Record) {
	r.selected.observe(record)
	r.builder.Observe(record) // none comes before Run
	if r.heap != nil {
		r.heap.Observe(record)
	}
}

// askAgain has processes judged again that may be selected by now.
func (r *Recorder) askAgain(uint64) error {
	if r.selected.changed(time.Now()) {
		r.sampler.AskAgain()
	}
	return nil
}

// errClosed is returned after Close.
var errClosed = errors.New("the recorder is closed")

// errFull ends a recording that has as many times as it may keep.
var errFull = errors.New("full")

// add counts one sample.
func (r *Recorder) add(s *sampler.Sample) error {
	if !r.selected.hasSample(s.Sample) {
		return nil
	}
	if r.options.Kind == kind.Wall {
		if s.Kind == kind.CPU {
			s.Value = uint64(r.options.period())
		}
		s.Kind = kind.Wall
	}
	r.builder.Add(s)
	if s.Outcome.HasUserPart() {
		r.withUser.Add(1)
	}
	if s.Outcome.Complete() {
		r.whole.Add(1)
	}
	if n := r.samples.Add(1); r.options.Timestamps && n >= MaxTimestamps {
		return errFull
	}
	return nil
}

// Progress is how far a recording is.
type Progress struct {
	Samples, WithUser, Whole uint64 // see Recording
	Expected, Lost           uint64 // samples of this host that were due, and of those the ones not taken
	Naming                   bool   // the recording has ended, and names are read
}

// String says what is recorded, such as "process 4711 (java)".
func (r *Recorder) String() string { return r.selected.String() }

// Progress returns how far the recording is.
func (r *Recorder) Progress() Progress {
	p := Progress{Samples: r.samples.Load(), WithUser: r.withUser.Load(), Whole: r.whole.Load(),
		Naming: r.ended.Load() != nil}
	if stats, err := r.sampler.Stats(); err == nil {
		p.Expected = r.account(&stats)
		p.Lost = (&Recording{Lost: stats.Lost}).LostSamples()
	}
	return p
}

// Run records until ctx is done, all selected processes have ended, or the command of Start
// has. What it recorded until then it returns, named. It may be called once.
func (r *Recorder) Run(ctx context.Context) (*Recording, error) {
	out := &Recording{Kind: r.options.Kind, Begun: time.Now()}
	r.parted = out.Begun
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	context.AfterFunc(ctx, r.stopSampling) // at once, while names are read too
	sampled := make(chan error, 1)
	go func() { sampled <- r.sampler.Run(ctx, r.add) }()
	ended, err := r.wait(ctx, sampled)
	if r.options.Each != nil && ctx.Err() != nil {
		r.builder.Hurry() // nobody looks any more
	}
	r.stopSampling()
	stop()
	err = errors.Join(err, r.endErr, <-sampled)
	out.Ended = ended
	out.Duration = r.ended.Load().Sub(out.Begun)
	if errors.Is(err, errFull) {
		out.Ended, err = fmt.Sprintf("it has the times of %d samples", MaxTimestamps), nil
	}
	if err != nil {
		return nil, err
	}
	r.last = true
	if err := r.endRound(); err != nil {
		return nil, err
	}
	return out, r.describe(out)
}

// stopSampling ends sampling, once.
func (r *Recorder) stopSampling() {
	r.ending.Do(func() {
		now := time.Now()
		r.ended.Store(&now)
		if r.waiting != nil {
			r.waiting.Stop()
		}
		if r.probing != nil {
			r.probing.Stop()
		}
		if r.heap != nil {
			r.heap.Stop()
		}
		r.endErr = r.sampler.StopSampling()
	})
}

// wait collects now and then, until the recording ends. It returns why it ended on its own.
// What sampling returns, if it fails, is put back.
func (r *Recorder) wait(ctx context.Context, sampled chan error) (ended string, err error) {
	const look = 100 * time.Millisecond
	ticker := time.NewTicker(look)
	defer ticker.Stop()
	collected := time.Now()
	round := cmp.Or(r.options.Round, round)
	for {
		select {
		case <-ctx.Done():
			return "", nil
		case err := <-sampled:
			sampled <- err
			return "", nil
		case <-ticker.C:
		}
		if ended := r.selected.gone(); ended != "" {
			return ended, nil
		}
		if time.Since(collected) < round && r.builder.Bytes() < maxBytes {
			continue
		}
		if err := r.endRound(); err != nil {
			return "", err
		}
		if r.profile.Frames() >= MaxFrames {
			return fmt.Sprintf("its stacks have %d frames", MaxFrames), nil
		}
		collected = time.Now()
	}
}

// endRound collects, for Each or for the end.
func (r *Recorder) endRound() error {
	if r.options.Each == nil {
		if r.heap != nil && r.last { // what is in use counts once
			r.heap.Flush()
		}
		r.collect()
		return nil
	}
	r.sampler.Flush() // samples lie in the kernel for a while
	if r.waiting != nil {
		r.waiting.Flush()
	}
	if r.probing != nil {
		r.probing.Flush()
	}
	if r.heap != nil {
		r.heap.Flush()
	}
	now := time.Now()
	collected := r.builder.Collect() // names that are late are there in the next round
	if now.Sub(r.swept) >= round {
		r.builder.Forget(r.sampler.Sweep(idleExecutable))
		r.swept = now
	}
	merged, err := merge(collected)
	if err != nil {
		return err
	}
	part := Part{Profile: merged, Begun: r.parted, Duration: now.Sub(r.parted), Progress: r.Progress()}
	r.parted = now
	if merged != nil {
		r.title(merged, part.Begun, part.Duration)
	}
	return r.options.Each(part)
}

// title says in a profile what it is of.
func (r *Recorder) title(p *profile.Profile, begun time.Time, d time.Duration) {
	p.Comments = []string{export.Recorded + r.selected.String()}
	p.TimeNanos, p.DurationNanos = begun.UnixNano(), d.Nanoseconds()
	r.putFirst(p)
}

// collect names what was sampled, and adds it to the profile. Equal stacks are kept once, so memory grows with the
// distinct ones alone, and the end has no more to do than another round.
func (r *Recorder) collect() {
	r.builder.CollectInto(r.profile, namesPatience)
	r.builder.Forget(r.sampler.Sweep(idleExecutable))
}

// merge adds up parts, none to nil.
func merge(parts []builder.Profile) (*profile.Profile, error) {
	var all []*profile.Profile
	for _, p := range parts {
		all = append(all, p.Pprof)
	}
	if len(all) == 0 {
		return nil, nil
	}
	merged, err := profile.Merge(all)
	if err != nil {
		return nil, fmt.Errorf("add up profiles: %w", err)
	}
	return merged, nil
}

// describe sets what was recorded.
func (r *Recorder) describe(out *Recording) error {
	out.Profile = r.profile.Profile()
	r.profile = nil // to write the profile takes memory of its own
	if out.Profile != nil {
		r.title(out.Profile, out.Begun, out.Duration)
	}
	out.Samples, out.WithUser, out.Whole = r.samples.Load(), r.withUser.Load(), r.whole.Load()
	stats, err := r.sampler.Stats()
	if err != nil {
		return err
	}
	due := r.account(&stats)
	out.LeftOut = r.selected.leftOut
	if r.heap != nil {
		out.Paused = r.heap.Stats().Paused
	}
	if r.probing != nil {
		out.Dropped = r.probing.Stats().Dropped
	}
	if out.Profile != nil {
		pprof.SetLost(out.Profile, due, (&Recording{Lost: stats.Lost}).LostSamples())
	}
	names := r.builder.Stats()
	out.Lost, out.Unnamed, out.Errors = stats.Lost, names.Unnamed, stats.Errors
	for _, of := range []map[string]uint64{names.KnownSymbols, names.UnknownSymbols, names.UnknownModules} {
		for _, n := range of {
			out.Frames += n
		}
	}
	return nil
}

// account returns how many samples were due, and makes what was lost that of the kind that is recorded.
func (r *Recorder) account(stats *sampler.Stats) (due uint64) {
	var lost uint64
	switch r.options.Kind {
	case kind.CPU, kind.Wall:
		return stats.Expected
	case kind.OffCPU:
		stats.Lost = nil
		return r.samples.Load()
	}
	if r.heap != nil {
		for _, n := range r.heap.Stats().Missed {
			lost += n
		}
		stats.Lost = map[string]uint64{sampler.LostToFullLogs: lost}
		return r.samples.Load() + lost
	}
	if r.probing != nil {
		lost := r.probing.Stats().Lost
		stats.Lost = map[string]uint64{sampler.LostToFullLogs: lost}
		return r.samples.Load() + lost
	}
	stats.Lost = map[string]uint64{sampler.LostToFullLogs: stats.EventsLost}
	return stats.EventSamples
}

// putFirst puts the mapping first that pprof shows as the file that a profile is of: the
// executable of the one process that was recorded, and of several what they have in common.
func (r *Recorder) putFirst(p *profile.Profile) {
	exe := r.selected.executable()
	at := slices.IndexFunc(p.Mapping, func(m *profile.Mapping) bool { return m.File == exe })
	if exe == "" || at < 0 { // code of no file may have a mapping without a name
		pprof.SetTitle(p, r.selected.String())
		return
	}
	first := p.Mapping[at]
	p.Mapping = slices.Insert(slices.Delete(p.Mapping, at, at+1), 0, first)
	for i, m := range p.Mapping {
		m.ID = uint64(i + 1)
	}
}

// Close ends the command of Start if it still runs, and releases everything.
func (r *Recorder) Close() error {
	r.selected.close()
	err := r.threads.close()
	if r.waiting != nil {
		err = errors.Join(err, r.waiting.Close())
	}
	if r.probing != nil {
		r.probing.Stop()
	}
	if r.heap != nil {
		r.heap.Close()
	}
	if r.builder != nil {
		r.builder.Interrupt()
		r.builder.Close()
	}
	if r.sampler != nil {
		err = errors.Join(err, r.sampler.Close())
	}
	return err
}
