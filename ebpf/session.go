package ebpf

import (
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/headwater/headwater/ebpf/feed"
	"github.com/headwater/headwater/ebpf/kernel"
	"github.com/headwater/headwater/ebpf/pprof"
	"github.com/headwater/headwater/ebpf/process"
	"github.com/headwater/headwater/ebpf/procfs"
	"github.com/headwater/headwater/ebpf/symbol"
	"github.com/headwater/headwater/ebpf/symbol/jit"
	"github.com/headwater/headwater/ebpf/target"
)

const (
	// drainInterval is how long samples may lie in the CPUs' logs: to wake up costs
	// more than to take a sample. Those of new programs miss a table, and call for us.
	drainInterval = 500 * time.Millisecond
	// flushPatience is how long Collect waits for the samples of just now.
	flushPatience = time.Second
	// endedGrace is how long a process is remembered after its end, for samples
	// that are read late.
	endedGrace = time.Second
	// idleExecutable is how long an executable that nobody has mapped keeps its
	// tables and symbols.
	idleExecutable = 30 * time.Second
	// kernelRefresh is how often, at most, the kernel's symbols are read again because
	// some address had none: modules and BPF programs come and go.
	kernelRefresh = time.Minute
	// retryTargets is how often processes without a target are looked at again:
	// they may have been moved to another cgroup.
	retryTargets = 10 * time.Second
)

// Session profiles this host from Start to Close. Its methods may be called
// concurrently.
type Session struct {
	feed       *feed.Feed
	kernel     *kernel.Profiler // feed's
	tracker    *process.Tracker // feed's
	symbolizer *symbol.Symbolizer
	debuginfod debuginfodClient
	jit        *jit.Processes
	finder     *target.Finder
	cgroups    *procfs.Cgroups // finder's
	clock      pprof.Clock

	mu      sync.Mutex
	options Options
	current *aggregate
	past    []*aggregate // of options that have changed since the last Collect
	stats   Stats        // the parts that are counted here
	binary  map[binaryKey]uint64
	unnamed map[uint32]uint64 // frames without a name, by executable

	kernelRead time.Time     // when the kernel's symbols were last read again
	flushed    chan struct{} // the reader has done what flush asked for
	ended      sync.WaitGroup
	done       chan struct{} // closed when the session has failed
	fail       sync.Once
	err        error
}

// Start begins to profile. It returns a *kernel.PermissionError when the process
// lacks capabilities.
func Start(o Options) (*Session, error) {
	if err := o.Validate(); err != nil {
		return nil, err
	}
	cgroups := procfs.Default.Cgroups()
	s := &Session{
		symbolizer: symbol.New(symbol.Options{}),
		jit:        jit.New(procfs.Default),
		finder:     target.NewFinder(finderOptions(o, cgroups)),
		cgroups:    cgroups,
		options:    o,
		current:    newAggregate(o),
		binary:     map[binaryKey]uint64{},
		unnamed:    map[uint32]uint64{},
		stats:      newStats(),
		flushed:    make(chan struct{}, 1),
		done:       make(chan struct{}),
	}
	if err := s.debuginfod.use(o.Debuginfod, s.symbolizer); err != nil {
		return nil, errors.Join(err, s.release())
	}
	if err := s.open(); err != nil {
		return nil, errors.Join(err, s.release())
	}
	s.ended.Add(2)
	go s.run(s.feed.Follow)
	go s.run(s.readSamples)
	return s, nil
}

func (s *Session) open() error {
	var err error
	if s.feed, err = feed.Open(feed.Options{TableBytes: s.options.TableBytes, Observe: s.observe}); err != nil {
		return err
	}
	s.kernel, s.tracker = s.feed.Kernel, s.feed.Tracker
	if err := s.kernel.SetStacks(s.options.UserStacks, s.options.KernelStacks, true); err != nil {
		return err
	}
	return s.kernel.Start(s.options.SampleRate)
}

// What kallsyms has in brackets behind code that the kernel made while it runs.
const (
	bpfSymbolFile    = "[bpf]"
	kernelSymbolFile = "[kernel]"
)

// observe tells the finder which processes are new, and the symbolizer which code
// the kernel made.
func (s *Session) observe(r *kernel.Record) {
	switch r.Kind {
	case kernel.RecordExec:
		s.finder.Restarted(r.PID)
		s.jit.Restarted(r.PID)
	case kernel.RecordKernelSymbol:
		file := kernelSymbolFile
		if r.Symbol.BPF {
			file = bpfSymbolFile
		}
		s.symbolizer.KernelSymbol(symbol.KernelSymbol{Name: r.Symbol.Name, File: file, Start: r.Symbol.Address, Size: r.Symbol.Size, Removed: r.Symbol.Removed})
	case kernel.RecordFork:
		s.finder.Inherit(r.Parent, r.PID)
	}
}

func finderOptions(o Options, fs target.CgroupReader) target.Options {
	return target.Options{
		Targets:     o.Targets,
		Default:     o.DefaultTarget,
		TargetsOnly: o.TargetsOnly,
		CacheSize:   o.ContainerIDCacheSize,
		FS:          fs,
	}
}

// run runs a loop of the session; its error ends the session.
func (s *Session) run(loop func() error) {
	defer s.ended.Done()
	if err := loop(); err != nil && !errors.Is(err, kernel.ErrClosed) {
		s.fail.Do(func() {
			s.err = err
			close(s.done)
		})
	}
}

// Done is closed when the session has failed on its own; Err then says why.
func (s *Session) Done() <-chan struct{} { return s.done }

// Err returns why the session failed, once Done is closed.
func (s *Session) Err() error {
	select {
	case <-s.done:
		return s.err
	default:
		return nil
	}
}

// Update puts options in force. Samples taken until now are not lost: the next
// Collect returns them as the old options wanted them.
func (s *Session) Update(o Options) error {
	if err := o.Validate(); err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := s.kernel.SetStacks(o.UserStacks, o.KernelStacks, true); err != nil {
		return err
	}
	if err := s.kernel.Start(o.SampleRate); err != nil {
		return fmt.Errorf("change the sample rate to %d: %w", o.SampleRate, err)
	}
	if err := s.debuginfod.use(o.Debuginfod, s.symbolizer); err != nil {
		return err
	}
	s.kernel.Tables().SetLimit(o.TableBytes)
	s.finder.Update(finderOptions(o, s.cgroups))
	s.tracker.IgnoreNone()
	s.options = o
	s.swap()
	return nil
}

// swap begins a new aggregate and puts the present one with the past ones.
func (s *Session) swap() {
	s.current.ended = time.Now()
	s.past = append(s.past, s.current)
	s.current = newAggregate(s.options)
}

// Collect returns profiles of everything since the last call, the samples of
// just now included.
func (s *Session) Collect() ([]Profile, error) {
	s.flush()
	ended := s.jit.Gone()
	s.mu.Lock()
	s.swap()
	past := s.past
	s.past = nil
	rate := s.options.SampleRate
	s.mu.Unlock()
	s.symbolizer.Refresh()

	var out []Profile
	names := newNamer(s.tracker, s.symbolizer, s.jit)
	for _, a := range past {
		for _, c := range a.targets {
			names.counts = symbolCounts{}
			out = append(out, names.profiles(c, a, &s.clock)...)
			s.countSymbols(c.target.ServiceName(), names.counts)
		}
	}
	s.symbolizer.Rest()
	s.jit.Forget(ended)
	s.countUnnamed(names.unnamed)
	s.refreshKernel(names.unknownKernel)
	for _, id := range s.tracker.Sweep(idleExecutable) {
		s.symbolizer.Forget(id)
	}
	return out, s.feed.AddCPUs(rate)
}

// refreshKernel reads the kernel's symbols again when addresses had none.
func (s *Session) refreshKernel(unknown bool) {
	now := time.Now()
	s.mu.Lock()
	due := unknown && now.Sub(s.kernelRead) >= kernelRefresh
	if due {
		s.kernelRead = now
	}
	s.mu.Unlock()
	if due {
		s.symbolizer.RefreshKernel() // its KernelStatus says why it could not
	}
}

// flush waits until the samples taken before now are counted.
func (s *Session) flush() {
	select {
	case <-s.flushed: // of a call that did not wait any longer
	default:
	}
	if s.kernel.Flush() != nil {
		return // not reading any more
	}
	select {
	case <-s.flushed:
	case <-s.done:
	case <-time.After(flushPatience): // the reader is busy; it counts them for the next Collect
	}
}

// readSamples counts samples as they come.
func (s *Session) readSamples() error {
	retried := time.Now()
	for {
		upTo, flushed, err := s.feed.ReadSamples(drainInterval, s.count)
		if err != nil {
			return err
		}
		if flushed {
			select {
			case s.flushed <- struct{}{}:
			default:
			}
		}
		for _, pid := range s.tracker.Reap(upTo - uint64(endedGrace)) {
			s.finder.Forget(pid)
			s.jit.Ended(pid)
		}
		if time.Since(retried) > retryTargets {
			retried = time.Now()
			s.finder.Retry()
			s.tracker.IgnoreNone()
		}
	}
}

// count counts one sample for its target.
func (s *Session) count(sample *kernel.Sample) {
	t := s.finder.Find(sample.PID)
	if t == nil {
		s.tracker.Ignore(sample.PID, true)
		return
	}
	s.feed.Mend(sample)
	comm := s.comm(sample)
	if s.identify(sample) || outsideFiles(sample.User) {
		s.jit.Observe(sample.PID)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.countOutcome(sample)
	s.aggregateOf(sample).add(t, sample.PID, comm, sample)
}

// identify makes frames in code that a Java VM has made tell which code that is. It
// reports whether there are any.
func (s *Session) identify(sample *kernel.Sample) (found bool) {
	if !s.tracker.HasCode(sample.PID) {
		return false
	}
	for i := range sample.User {
		f := &sample.User[i]
		if add, ok := s.tracker.Identify(f.Exe, symbol.CodeAddress(f.Address, f.Flags&kernel.ReturnAddress != 0)); ok {
			f.Address += add
			found = true
		}
	}
	return found
}

// comm returns the name that the sample's process had at the time, which is the
// one of its first thread.
func (s *Session) comm(sample *kernel.Sample) string {
	if sample.TID != sample.PID {
		if comm, ok := s.tracker.Comm(sample.PID, sample.Time); ok && comm != "" {
			return comm
		}
	}
	return sample.Comm
}

// aggregateOf returns where a sample counts: one that was taken before the
// options changed was taken as the old ones wanted it.
func (s *Session) aggregateOf(sample *kernel.Sample) *aggregate {
	if n := len(s.past); n > 0 && sample.Time < s.current.from {
		return s.past[n-1]
	}
	return s.current
}

// Close ends profiling and releases everything. Samples not collected are lost;
// Collect before.
func (s *Session) Close() error {
	err := s.feed.Stop()
	s.ended.Wait()
	return errors.Join(err, s.release())
}

func (s *Session) release() error {
	s.debuginfod.close()
	s.jit.Close()
	err := s.cgroups.Close()
	if s.feed != nil {
		err = errors.Join(err, s.feed.Close())
	}
	return err
}
