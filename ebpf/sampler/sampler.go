// Package sampler takes samples of this host and finishes them: Run follows processes, fills the unwind tables as walks
// miss them, and completes the stacks that missed a table before its caller gets them.
package sampler

import (
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/headwater/headwater/ebpf/host/filework"
	"github.com/headwater/headwater/ebpf/host/procfs"
	"github.com/headwater/headwater/ebpf/kernel"
	"github.com/headwater/headwater/ebpf/language"
	"github.com/headwater/headwater/ebpf/language/all"
	"github.com/headwater/headwater/ebpf/process"
	"github.com/headwater/headwater/ebpf/process/target"
	"github.com/headwater/headwater/ebpf/unwind"
	"github.com/headwater/headwater/flame/kind"
)

// DefaultInterval is how long samples may stay in the CPUs' logs: a wakeup costs more than a sample. Samples of new
// programs miss a table, and cause a wakeup.
const DefaultInterval = 500 * time.Millisecond

// Options configure a Sampler for its whole life. All functions are optional. Run calls Target, Ended and AfterRound,
// one at a time; the goroutine that reads the side-band calls Observe.
type Options struct {
	TableBytes int                 // limit of the memory for unwind tables
	Interval   time.Duration       // how long samples may stay in the CPUs' logs; 0 means DefaultInterval
	Snapshots  bool                // have perf record the state at the start of each walk, see ReadSnapshots
	Files      *filework.Pool      // opens files; nil means a pool of the Sampler's own
	Languages  []language.Language // whose runtimes are known; nil means all
	Only       uint32              // a PID: other processes that already run are not read; 0 means that all are
	Patience   time.Duration       // for opening files, and reading functions and frames; 0 means the Tracker's own

	// Target returns the target of a process's samples, and whether the process is sampled at all. Without it all
	// processes are sampled.
	Target     func(pid uint32) (t *target.Target, wanted bool)
	Observe    func(*kernel.Record)    // gets every side-band record
	Ended      func(pid uint32)        // no further samples of this process will come
	AfterRound func(upTo uint64) error // all samples taken until upTo, CLOCK_MONOTONIC, were used; an error ends Run
}

// Config is the part of the configuration that Configure changes.
type Config struct {
	SampleRate int // samples per second and CPU; 0 means only samples of attached events
	// Periods are, for kinds that are events, the number of events for one sample; 0 means no samples of that kind.
	Periods      [kind.Count]int64
	UserStacks   bool
	KernelStacks bool
	TableBytes   int  // limit of the memory for unwind tables
	CountTime    bool // have the kernel count how long BPF programs run, which costs a little
}

// Sampler is the source of samples. Its methods may be called concurrently, from Open
// to Close.
type Sampler struct {
	*Threads
	options   Options
	kernel    *kernel.Profiler
	tracker   *process.Tracker
	sideBand  *sideBand
	samples   *queue
	sample    Sample        // the one that use gets
	completer completer     // of Run
	ignored   atomic.Uint64 // samples of processes that are not wanted
	flushed   chan struct{} // signals that all samples from before a call of Flush were used
	ended     chan struct{} // closed when Run has returned

	mu      sync.Mutex
	config  Config
	stopped bool
	timeErr error     // why the kernel does not count how long BPF programs run
	cpuErr  error     // why a CPU is not sampled that has come online
	checked time.Time // by Run, when CPUs were looked for
}

// Open loads the programs and reads the processes that run already. Configure makes it sample. It returns a
// *kernel.PermissionError when the process lacks capabilities.
func Open(o Options) (*Sampler, error) {
	if o.Files == nil {
		o.Files = &filework.Pool{}
	}
	if o.Languages == nil {
		o.Languages = all.All()
	}
	if o.Interval == 0 {
		o.Interval = DefaultInterval
	}
	s := &Sampler{options: o, samples: newQueue(), flushed: make(chan struct{}, 1), ended: make(chan struct{})}
	if err := s.openKernel(); err != nil {
		return nil, errors.Join(err, s.Close())
	}
	return s, nil
}

func (s *Sampler) openKernel() error {
	go procfs.StartHelper()
	var err error
	if s.kernel, err = kernel.Load(kernel.Options{TableBytes: s.options.TableBytes}); err != nil {
		return err
	}
	if s.options.Snapshots {
		s.kernel.KeepSnapshots()
	}
	// Side-band first, then the running processes, so that none is missed.
	s.tracker = process.NewTracker(s.kernel.Tables(), procfs.Default, s.options.Files, s.options.Languages)
	if s.options.Patience != 0 {
		s.tracker.SetReadPatience(s.options.Patience)
		s.tracker.SetOpenPatience(s.options.Patience)
	}
	s.completer, s.Threads = newCompleter(s.tracker), newThreads(s.tracker)
	if s.sideBand, err = openSideBand(s.tracker, s.options.Observe); err != nil {
		return err
	}
	if s.options.Only != 0 {
		s.tracker.ScanProcess(s.options.Only)
		return nil
	}
	return s.tracker.Scan()
}

// Configure makes the kernel sample as c says. If it fails, the kernel samples as before.
func (s *Sampler) Configure(c Config) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := s.apply(c); err != nil {
		if s.config != (Config{}) {
			if undo := s.apply(s.config); undo != nil {
				err = errors.Join(err, fmt.Errorf("go back to the old options: %w", undo))
			}
		}
		return err
	}
	s.kernel.Tables().SetLimit(c.TableBytes)
	s.timeErr = s.kernel.CountTime(c.CountTime) // optional: not every kernel can
	s.config = c
	return nil
}

// failures returns why the kernel does not count how long BPF programs run, if it should, and why a CPU is not sampled.
func (s *Sampler) failures() []error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.DeleteFunc([]error{s.timeErr, s.cpuErr}, func(err error) bool { return err == nil })
}

func (s *Sampler) apply(c Config) error {
	if err := s.kernel.SetStacks(c.UserStacks, c.KernelStacks, true); err != nil {
		return err
	}
	if err := s.startClocks(c.SampleRate); err != nil {
		return fmt.Errorf("sample at %d Hz: %w", c.SampleRate, err)
	}
	return s.startEvents(c.Periods)
}

// startClocks samples every online CPU, unless StopSampling was called. The caller holds s.mu.
func (s *Sampler) startClocks(rate int) error {
	if s.stopped || rate == 0 {
		return nil
	}
	return s.kernel.Start(rate)
}

// startEvents samples events on every online CPU, unless StopSampling was called. The caller holds s.mu.
func (s *Sampler) startEvents(periods [kind.Count]int64) error {
	if s.stopped {
		return nil
	}
	var errs []error
	for _, k := range []kind.Kind{kind.PageFaults, kind.MajorFaults} {
		errs = append(errs, s.kernel.SetEvents(k, uint64(periods[k])))
	}
	return errors.Join(errs...)
}

// addCPUs starts sampling the CPUs that have come online, and again the CPUs that have been offline, as all are while
// the host is suspended.
func (s *Sampler) addCPUs() error {
	ended, err := s.sideBand.addCPUs()
	s.mu.Lock()
	defer s.mu.Unlock()
	return errors.Join(err, s.kernel.CloseCPUs(ended), s.startClocks(s.config.SampleRate), s.startEvents(s.config.Periods))
}

// checkCPUs is addCPUs, once a second: CPUs go offline and come back within less time, and the kernel reports neither.
func (s *Sampler) checkCPUs(now time.Time) {
	if now.Sub(s.checked) < time.Second {
		return
	}
	s.checked = now
	err := s.addCPUs()
	s.mu.Lock()
	defer s.mu.Unlock()
	s.cpuErr = err // of the last time: CPUs may go offline while they are looked at
}

// SampleOnly has the kernel leave out the samples of all processes except the given PIDs, before it walks their stacks;
// nil leaves out none. If it fails, the processes that are sampled stay the same.
func (s *Sampler) SampleOnly(pids map[uint32]bool) error {
	if pids != nil { // so that all running processes are known
		if err := s.sideBand.drain(); err != nil {
			return err
		}
	}
	if err := s.kernel.SetKnownOnly(pids != nil); err != nil {
		return err
	}
	s.tracker.SampleOnly(pids)
	return nil
}

// Ignore has the kernel leave out samples and hits of a process, which Target does not want, until AskAgain.
func (s *Sampler) Ignore(pid uint32) { s.tracker.Ignore(pid, true) }

// AskAgain has Target called again for the processes that were not wanted.
func (s *Sampler) AskAgain() { s.tracker.IgnoreNone() }

// Attach takes a sample at each overflow of a perf event that the caller has opened, until
// the caller closes it.
func (s *Sampler) Attach(event int) error { return s.kernel.Attach(event) }

// ReadSnapshots hands every available snapshot to use, and returns how many were lost so far because perf's buffer was
// full.
func (s *Sampler) ReadSnapshots(use func(*kernel.PerfSnapshot)) (lost uint64, err error) {
	return s.kernel.ReadSnapshots(use)
}

// OpenProbes prepares to take samples at probes. Close the Probes before the Sampler.
func (s *Sampler) OpenProbes() (*kernel.Probes, error) { return s.kernel.OpenProbes() }

// OpenHeap starts sampling the memory that programs allocate, see kernel.Heap. Close the Heap before the Sampler.
func (s *Sampler) OpenHeap(period uint32) (*kernel.Heap, error) { return s.kernel.OpenHeap(period) }

// CatchUp reads the records of programs and mappings until a time, CLOCK_MONOTONIC in ns, unless they are read already.
// Call it with the time of a sample that Run does not see, before looking up the sample's process. It is safe for
// concurrent use.
func (s *Sampler) CatchUp(until uint64) error { return s.sideBand.drainUntil(until) }

// Replaced reports whether the process of a sample runs another program by now, or has replaced a file that it had
// mapped.
func (s *Sampler) Replaced(sample *Sample) bool {
	const now = 1<<64 - 1 // later than the end of any ended mapping
	view := s.tracker.At(sample.PID, now)
	return view.Stale(sample.Generation)
}

// Sweep drops the executables that no process has mapped for the given time, and pages of rows that no walk has used
// for a while. It returns the numbers of the dropped executables, and of executables whose names may be better now.
func (s *Sampler) Sweep(idle time.Duration) []unwind.ExeID { return s.tracker.Sweep(idle) }

// StopSampling ends sampling for good. Run continues with the samples that were taken until now.
func (s *Sampler) StopSampling() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.stopped = true
	return s.kernel.Stop()
}

// Close releases everything. Run must have returned, or never been called.
func (s *Sampler) Close() error {
	if s.tracker != nil {
		s.tracker.Close()
	}
	if s.sideBand != nil {
		s.sideBand.close()
	}
	if s.kernel != nil {
		return s.kernel.Close()
	}
	return nil
}
