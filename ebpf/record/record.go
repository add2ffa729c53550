// Package record makes one recording of this host: it samples some or all processes for a while, and returns one
// profile of them. It is for commands; package ebpf profiles continuously.
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

	"github.com/headwater/headwater/ebpf/host/filework"
	"github.com/headwater/headwater/ebpf/host/procfs"
	"github.com/headwater/headwater/ebpf/kernel"
	"github.com/headwater/headwater/ebpf/process/target"
	builder "github.com/headwater/headwater/ebpf/profile"
	"github.com/headwater/headwater/ebpf/sampler"
	"github.com/headwater/headwater/ebpf/source/collector"
	"github.com/headwater/headwater/ebpf/source/heap"
	"github.com/headwater/headwater/ebpf/source/offcpu"
	"github.com/headwater/headwater/ebpf/source/probe"
	"github.com/headwater/headwater/flame/demangle"
	"github.com/headwater/headwater/flame/export"
	"github.com/headwater/headwater/flame/kind"
	"github.com/headwater/headwater/flame/pprof"
)

const (
	// round is the interval at which samples are named. Names of programs that ended long before are lost.
	round = 10 * time.Second
	// namesPatience is the maximum wait for names: no later round reads them.
	namesPatience = 30 * time.Second
	// MaxTimestamps is the number of timestamps, of some 20 bytes each, at which a recording ends.
	MaxTimestamps = 16 << 20
	// MaxFrames is the number of frames of distinct stacks, of some 16 bytes each, at which a recording ends.
	MaxFrames = 16 << 20
	// waitingShare is the maximum share of a CPU for looking at threads that are off CPU.
	waitingShare = 0.25
	// maxBytes is the memory of unnamed stacks at which a round ends early to name them.
	maxBytes = 64 << 20
)

// Options describe a recording.
type Options struct {
	Selection

	Kind         kind.Kind   // the kind to sample: CPU time, time off CPU, both (kind.Wall), faults, or memory in use
	Probe        probe.Probe // if set, sample at this probe; Kind and Period are then the probe's
	OffCPURate   int         // for time off CPU: passes over the threads per second
	Period       uint64      // for faults: one sample per Period faults; for memory in use: one per Period bytes
	HeapLimit    float64     // for memory in use: maximum share of a process's CPU time for probes; 0 for no limit
	SampleRate   int         // samples per second and CPU
	UserStacks   bool        // record the user part of stacks
	KernelStacks bool        // record the kernel part of stacks

	Labels       []string      // labels that samples get, see profile.LabelNames of package ebpf/profile
	Wakers       bool          // for time off CPU: name the waker that ended a wait, by profile.LabelWaker
	Timestamps   bool          // keep the time of each sample, see pprof.Timestamp
	InlineFrames bool          // show inlined functions
	Demangle     demangle.Mode // how names of C++ and Rust are shown

	TableBytes int // limit of the memory for unwind tables

	// Each, if set, is called with the samples of every Round, and at the end. The Recorder then keeps no samples: the
	// Recording has no Profile. Each may call Progress and Threads. An error from Each ends the recording.
	Each  func(Part) error
	Round time.Duration // interval between calls of Each; 0 for 10 s
}

// period returns the value of one sample, in the unit of the first value of its kind.
func (o *Options) period() int64 {
	switch o.Kind {
	case kind.CPU, kind.Wall:
		return int64(time.Second) / int64(o.SampleRate)
	case kind.OffCPU:
		return int64(time.Second) / int64(o.OffCPURate)
	}
	return int64(o.Period)
}

// config returns the configuration of the sources of samples for the kind to record.
func (o *Options) config() collector.Config {
	c := collector.Config{
		Profile: builder.Options{
			SampleRate: o.SampleRate, Comm: builder.CommStackframe,
			Labels: o.Labels, Timestamps: o.Timestamps, Demangle: o.Demangle, NoInlinedFrames: !o.InlineFrames,
		},
		CPU: sampler.Config{UserStacks: o.UserStacks, KernelStacks: o.KernelStacks, TableBytes: o.TableBytes},
	}
	if o.Kind == kind.CPU || o.Kind == kind.Wall {
		c.CPU.SampleRate = o.SampleRate
	}
	if o.Kind == kind.OffCPU || o.Kind == kind.Wall {
		c.OffCPU = offcpu.Config{
			Rate: o.OffCPURate, States: waitingStates, Wakers: o.Wakers,
			UserStacks: o.UserStacks, KernelStacks: o.KernelStacks,
		}
	}
	switch {
	case o.isProbe():
		c.Probes = probe.Config{
			Probes: []probe.Probe{o.Probe}, UserStacks: o.UserStacks, KernelStacks: o.KernelStacks,
		}
	case o.Kind == kind.Heap:
		c.Heap = heap.Config{
			SampleBytes: int(o.Period), UserStacks: o.UserStacks, Limit: o.HeapLimit, Each: !o.Command && !o.everything(),
		}
	case o.Kind == kind.PageFaults, o.Kind == kind.MajorFaults:
		c.CPU.Periods[o.Kind] = o.period()
	}
	return c
}

// waitingStates are the states of threads whose time off CPU is recorded. Running threads are sampled by the CPU clock.
var waitingStates = []kernel.ThreadState{
	kernel.Runnable, kernel.Sleeping, kernel.Uninterruptible, kernel.Stopped, kernel.Traced, kernel.Frozen,
}

// isProbe reports whether a probe is recorded.
func (o *Options) isProbe() bool { return o.Probe != probe.Probe{} }

// setProbe sets the kind and period from the probe, if there is one.
func (o *Options) setProbe() (err error) {
	if !o.isProbe() {
		return nil
	}
	o.Kind, err = kind.OfProbe(o.Probe.Info())
	o.Period = o.Probe.Period
	return err
}

// Part holds the samples between two rounds.
type Part struct {
	Profile  *profile.Profile // nil without samples; owned by the caller
	Begun    time.Time
	Duration time.Duration
	Progress Progress // at its end
}

// The labels that distinguish processes and threads.
const (
	LabelPID        = builder.LabelPID
	LabelThreadName = builder.LabelThreadName
	LabelThreadID   = builder.LabelThreadID
)

// ThreadLabels returns the labels that distinguish processes and threads, for Options.Labels.
func ThreadLabels() []string { return []string{LabelPID, LabelThreadName, LabelThreadID} }

// Recording is the result of a recording.
type Recording struct {
	Kind     kind.Kind        // the kind that was sampled
	Profile  *profile.Profile // nil without samples; owned by the caller
	Begun    time.Time
	Duration time.Duration
	Samples  uint64 // in the profile
	WithUser uint64 // samples that should have a user part; part of Samples
	Whole    uint64 // samples whose user part reaches the outermost frame; part of WithUser
	Ended    string // why the recording ended early, "" if it did not

	// Lost counts the missed samples of this host, in selected processes or not, by reason: sampler.LostToFullLogs and
	// so on.
	Lost map[string]uint64

	LeftOut []Process              // earlier descendants of the selected processes, if they were not recorded
	Paused  []heap.Paused          // processes whose memory was recorded only part of the time
	Dropped uint64                 // values of a probe that were too large to be valid, and count as 0
	Frames  uint64                 // user frames and kernel frames of distinct stacks
	Unnamed []builder.UnnamedStats // frames without a name, by binary, most first; part of Frames
	Errors  map[string]uint64      // errors that cost names or stacks, and how often
}

// LostSamples is the sum of Lost.
func (r *Recording) LostSamples() (sum uint64) {
	for _, n := range r.Lost {
		sum += n
	}
	return sum
}

// Recorder makes a recording. Progress and Threads may be called while Run runs; all other methods are for one
// goroutine.
type Recorder struct {
	options  Options
	selected *selection
	target   *target.Target
	threads  threads
	profile  *pprof.Builder // sum of the named samples, without Each
	parted   time.Time      // end of the last Part
	swept    time.Time
	last     bool // the current round is the last one

	collector *collector.Collector

	ending sync.Once // stops sampling
	ended  atomic.Pointer[time.Time]
	endErr error

	samples, withUser, whole atomic.Uint64
}

// Open prepares a recording: it loads the BPF programs, reads the running processes, and starts sampling, so that no
// sample of the command of Start is missed. It returns a *NoProcessError if a selected process does not exist, and a
// *kernel.PermissionError if this process lacks capabilities. Close the Recorder after use.
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
		options: o, selected: selected,
		profile: pprof.NewBuilder(pprof.Options{Kind: o.Kind, Count: true, Period: o.period()}),
		target:  target.Of(map[string]string{target.LabelServiceName: "headwater record"}),
	}
	r.collector, err = collector.Open(collector.Options{
		Files: &filework.Pool{}, Target: r.targetOf, Use: r.useSample,
		Observe: selected.observe, Ended: selected.ended, AfterRound: r.askAgain,
		OffCPUShare:  waitingShare,
		HeapOfEnded:  o.Command || len(o.PIDs) > 0, // the recording ends with the processes
		HeapForStart: o.Command,
	}, o.config(), selected.findChildren)
	if err != nil {
		return nil, errors.Join(err, r.Close())
	}
	if err := r.collector.ProbeFailure(); err != nil {
		return nil, errors.Join(fmt.Errorf("%s: %w", o.Probe.Link, err), r.Close())
	}
	return r, nil
}

// targetOf returns the only target, and whether a process is selected.
func (r *Recorder) targetOf(pid uint32) (*target.Target, bool) {
	return r.target, r.selected.hasProcess(pid)
}

// askAgain makes the sampler ask again for the targets of processes, if rejected processes may be selected now.
func (r *Recorder) askAgain(uint64) error {
	if r.selected.changed(time.Now()) {
		r.collector.Sampler.AskAgain()
	}
	return nil
}

// errClosed is returned after Close.
var errClosed = errors.New("the recorder is closed")

// errFull ends a recording with MaxTimestamps timestamps.
var errFull = errors.New("full")

// useSample reports whether a sample is of a selected thread, and counts it.
func (r *Recorder) useSample(s *sampler.Sample) (count bool, err error) {
	if !r.selected.hasSample(s.Sample) {
		return false, nil
	}
	if r.options.Kind == kind.Wall {
		if s.Kind == kind.CPU {
			s.Value = uint64(r.options.period())
		}
		s.Kind = kind.Wall
	}
	if s.Outcome.HasUserPart() {
		r.withUser.Add(1)
	}
	if s.Outcome.Complete() {
		r.whole.Add(1)
	}
	if n := r.samples.Add(1); r.options.Timestamps && n >= MaxTimestamps {
		return true, errFull
	}
	return true, nil
}

// Progress is the state of a recording.
type Progress struct {
	Samples, WithUser, Whole uint64 // see Recording
	Expected, Lost           uint64 // samples of this host that were due, and due samples that were missed
	Naming                   bool   // sampling has ended, and names are being read
}

// String describes the selection, such as "process 4711 (java)".
func (r *Recorder) String() string { return r.selected.String() }

// Progress returns the state of the recording.
func (r *Recorder) Progress() Progress {
	p := Progress{Samples: r.samples.Load(), WithUser: r.withUser.Load(), Whole: r.whole.Load(),
		Naming: r.ended.Load() != nil}
	if stats, err := r.collector.Stats(); err == nil {
		due, lost := r.account(&stats)
		p.Expected, p.Lost = due, (&Recording{Lost: lost}).LostSamples()
	}
	return p
}

// Run records until ctx is done, all selected processes have ended, or the command of Start has ended. It returns the
// named recording until then. It may be called once.
func (r *Recorder) Run(ctx context.Context) (*Recording, error) {
	out := &Recording{Kind: r.options.Kind, Begun: time.Now()}
	r.parted = out.Begun
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	context.AfterFunc(ctx, r.stopSampling) // stop at once, even while names are being read
	sampled := make(chan error, 1)
	go func() { sampled <- r.collector.Run(ctx) }()
	ended, err := r.waitForEnd(ctx, sampled)
	if r.options.Each != nil && ctx.Err() != nil {
		r.collector.Profiles.Hurry() // end without waiting long for names
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

// stopSampling ends sampling. Only the first call has an effect.
func (r *Recorder) stopSampling() {
	r.ending.Do(func() {
		now := time.Now()
		r.ended.Store(&now)
		r.endErr = r.collector.StopSampling()
	})
}

// waitForEnd ends rounds at intervals until the recording ends. It returns the reason if the recording ended on its
// own. If sampling fails, wait puts its error back into sampled.
func (r *Recorder) waitForEnd(ctx context.Context, sampled chan error) (ended string, err error) {
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
		if ended := r.selected.goneReason(); ended != "" {
			return ended, nil
		}
		if time.Since(collected) < round && r.collector.Profiles.Bytes() < maxBytes {
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

// endRound names the samples of a round and passes them to Each, or adds them to the profile.
func (r *Recorder) endRound() error {
	if r.options.Each == nil {
		if r.last { // memory in use counts once
			r.collector.FlushHeap()
		}
		r.collect()
		return nil
	}
	r.collector.Flush()
	now := time.Now()
	collected := r.collector.Profiles.Collect() // late names are available in the next round
	if now.Sub(r.swept) >= round {
		r.collector.Sweep()
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

// title writes the selection and the time of a recording into its profile.
func (r *Recorder) title(p *profile.Profile, begun time.Time, d time.Duration) {
	p.Comments = []string{export.Recorded + r.selected.String()}
	p.TimeNanos, p.DurationNanos = begun.UnixNano(), d.Nanoseconds()
	r.putFirst(p)
}

// collect names the samples and adds them to the profile. Equal stacks are kept once, so memory grows only with
// distinct stacks, and the last round takes no longer than any other round.
func (r *Recorder) collect() {
	r.collector.Profiles.CollectInto(r.profile, namesPatience)
	r.collector.Sweep()
}

// merge adds up profiles. It returns nil if there are none.
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

// describe sets the profile and the figures of a recording.
func (r *Recorder) describe(out *Recording) error {
	out.Profile = r.profile.Profile()
	r.profile = nil // free its memory before the profile is written
	if out.Profile != nil {
		r.title(out.Profile, out.Begun, out.Duration)
	}
	out.Samples, out.WithUser, out.Whole = r.samples.Load(), r.withUser.Load(), r.whole.Load()
	stats, err := r.collector.Stats()
	if err != nil {
		return err
	}
	due, lost := r.account(&stats)
	out.LeftOut, out.Paused, out.Dropped = r.selected.leftOut, stats.Heap.Paused, stats.Probes.Dropped
	out.Lost, out.Unnamed, out.Errors = lost, stats.Profile.Unnamed, stats.Sampler.Errors
	if out.Profile != nil {
		pprof.SetLost(out.Profile, due, out.LostSamples())
	}
	for _, of := range []map[string]uint64{
		stats.Profile.KnownSymbols, stats.Profile.UnknownSymbols, stats.Profile.UnknownModules,
	} {
		for _, n := range of {
			out.Frames += n
		}
	}
	return nil
}

// account returns the number of samples of the recorded kind that were due, and the missed ones by reason.
func (r *Recorder) account(stats *collector.Stats) (due uint64, lost map[string]uint64) {
	full := func(n uint64) map[string]uint64 { return map[string]uint64{sampler.LostToFullLogs: n} }
	switch of := &r.options; {
	case of.Kind == kind.CPU, of.Kind == kind.Wall:
		return stats.Sampler.Expected, stats.Sampler.Lost
	case of.Kind == kind.OffCPU:
		return r.samples.Load(), nil
	case of.isProbe():
		n := stats.Probes.LostOfTargets()
		return r.samples.Load() + n, full(n)
	case of.Kind == kind.Heap:
		var n uint64
		for _, missed := range stats.Heap.Missed {
			n += missed
		}
		return r.samples.Load() + n, full(n)
	}
	return stats.Sampler.EventSamples, full(stats.Sampler.EventsLost)
}

// putFirst sets the first mapping, which pprof shows as the file of a profile: the executable if one process was
// recorded, otherwise a mapping named after the selection.
func (r *Recorder) putFirst(p *profile.Profile) {
	exe := r.selected.executable()
	at := slices.IndexFunc(p.Mapping, func(m *profile.Mapping) bool { return m.File == exe })
	if exe == "" || at < 0 { // code outside any file may have a mapping without a name
		pprof.SetTitle(p, r.selected.String())
		return
	}
	first := p.Mapping[at]
	p.Mapping = slices.Insert(slices.Delete(p.Mapping, at, at+1), 0, first)
	for i, m := range p.Mapping {
		m.ID = uint64(i + 1)
	}
}

// Close ends the command of Start if it still runs, and releases all resources.
func (r *Recorder) Close() error {
	r.selected.close()
	err := r.threads.close()
	if r.collector != nil {
		err = errors.Join(err, r.collector.Close())
	}
	return err
}
