// Package feed joins the kernel side with what user space does for it: it follows
// processes, keeps the unwind tables filled, and finishes the walks that missed
// one. Who reads samples gets whole ones.
package feed

import (
	"errors"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"

	"github.com/headwater/headwater/ebpf/kernel"
	"github.com/headwater/headwater/ebpf/process"
	"github.com/headwater/headwater/ebpf/procfs"
	"github.com/headwater/headwater/ebpf/unwind"
)

// Options configure a Feed.
type Options struct {
	TableBytes int                  // limit of the memory for unwind tables
	Copies     bool                 // keep a kernel.Copy of what each walk started from
	Observe    func(*kernel.Record) // is told of every side-band record; nil: nobody
}

// Feed is the source of samples. Follow and ReadSamples are for one goroutine
// each; the other methods may be called at any time until Close.
type Feed struct {
	Kernel  *kernel.Profiler
	Tracker *process.Tracker

	sideBand *kernel.SideBand
	observe  func(*kernel.Record)
	drain    sync.Mutex // one reader of the side-band at a time
	caughtUp uint64     // the side-band was read up to this time because of a miss

	samples  *queue
	interval atomic.Int64 // a round of draining, ns
	draining sync.Once
	drained  sync.WaitGroup
}

// Open loads the programs and reads what runs already. It takes no samples yet:
// configure and start Kernel. It returns a *kernel.PermissionError when the
// process lacks capabilities.
func Open(o Options) (*Feed, error) {
	f := &Feed{observe: o.Observe, samples: newQueue()}
	if err := f.open(o); err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return f, nil
}

func (f *Feed) open(o Options) error {
	var err error
	if f.Kernel, err = kernel.Load(kernel.Options{TableBytes: o.TableBytes}); err != nil {
		return err
	}
	if o.Copies {
		f.Kernel.KeepCopies()
	}
	// Side-band first, then what runs already: nothing falls between.
	if f.sideBand, err = kernel.OpenSideBand(); err != nil {
		return err
	}
	f.Tracker = process.NewTracker(f.Kernel.Tables(), procfs.Default)
	return f.Tracker.Scan()
}

// AddCPUs begins to sample the CPUs that have come online, at the given rate.
func (f *Feed) AddCPUs(rate int) error {
	f.drain.Lock()
	defer f.drain.Unlock()
	return errors.Join(f.sideBand.AddCPUs(), f.Kernel.Start(rate))
}

// Follow keeps the side-band from overflowing until Stop; it then returns
// kernel.ErrClosed. Who reads samples reads it at each round, and when a sample
// misses something: that is how new programs come to be known in time, and the
// thousand records a second of those that nobody samples cost no wake-ups.
func (f *Feed) Follow() error {
	for {
		if err := f.sideBand.Wait(); err != nil {
			return err
		}
		if err := f.catchUp(); err != nil {
			return err
		}
	}
}

// catchUp tells the tracker what the side-band holds.
func (f *Feed) catchUp() error {
	f.drain.Lock()
	defer f.drain.Unlock()
	records, err := f.sideBand.Read()
	if err != nil {
		return err
	}
	if len(records) == 0 {
		return nil
	}
	f.Tracker.Update(func(b *process.Batch) {
		for i := range records {
			apply(b, &records[i])
			if f.observe != nil {
				f.observe(&records[i])
			}
		}
	})
	return nil
}

func apply(b *process.Batch, r *kernel.Record) {
	switch r.Kind {
	case kernel.RecordMap:
		b.Map(r.Time, r.PID, r.Mapping, r.BuildID)
	case kernel.RecordExec:
		b.Exec(r.Time, r.PID, r.Comm)
	case kernel.RecordComm:
		b.Comm(r.Time, r.PID, r.Comm)
	case kernel.RecordFork:
		b.Fork(r.Time, r.Parent, r.PID)
	case kernel.RecordExit:
		b.Exit(r.Time, r.PID)
	case kernel.RecordLost:
		b.Lost()
	}
}

// ReadSamples hands the samples that are there or arrive within the interval to
// use; Mend makes the best of one. It returns with every sample that was taken
// until upTo used, on the clock of Monotonic. flushed tells that it has ended early
// because of a call of kernel.Profiler.Flush. It returns kernel.ErrClosed after Stop.
func (f *Feed) ReadSamples(interval time.Duration, use func(*kernel.Sample)) (upTo uint64, flushed bool, err error) {
	f.interval.Store(int64(interval))
	f.draining.Do(func() {
		hurry()
		f.drained.Add(1)
		go f.drainSamples()
	})
	var failed error
	for {
		next := f.samples.take()
		s := next.sample
		if s == nil {
			failed = errors.Join(failed, f.catchUp())
			return next.end.upTo, next.end.flushed, errors.Join(next.end.err, failed)
		}
		if missed(s.Outcome) && s.Time > f.caughtUp {
			f.caughtUp = Monotonic()
			failed = errors.Join(failed, f.catchUp())
		}
		use(s)
		f.samples.reuse(s)
	}
}

// drainSamples empties the kernel's buffer, round by round, until Stop.
func (f *Feed) drainSamples() {
	defer f.drained.Done()
	hurry()
	for {
		e := end{upTo: Monotonic()}
		e.flushed, e.err = f.Kernel.ReadSamples(time.Now().Add(time.Duration(f.interval.Load())), f.samples.put)
		f.samples.close(e)
		if e.err != nil {
			return
		}
	}
}

// Mend makes the best of a sample's user part, and returns the address space as
// it did.
func (f *Feed) Mend(s *kernel.Sample) *process.Space {
	space := f.mend(s)
	if !s.Outcome.Complete() {
		recheck(f.Tracker, s)
	}
	return space
}

func (f *Feed) mend(s *kernel.Sample) *process.Space {
	if f.Tracker.Stale(s.PID, s.Time, s.Generation) && !(missed(s.Outcome) && len(s.User) == 1) {
		// Unwound by the tables of the program that the process ran before, and not
		// just looked up in vain.
		s.User, s.Outcome = s.User[:0], unwind.ProcessUnknown
	}
	if unfinished(s) {
		return finish(f.Tracker, s)
	}
	space := f.Tracker.Space(s.PID, s.Time)
	if s.FromLeaf && len(s.User) > 0 {
		walkAnew(space, s)
	}
	return space
}

// started is a moment, and its time on the clock that samples have.
var started = sync.OnceValues(func() (time.Time, uint64) {
	var ts unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_MONOTONIC, &ts); err != nil {
		return time.Now(), 0 // cannot be: the clock exists
	}
	return time.Now(), uint64(ts.Nano())
})

// Monotonic is the time on the clock that samples and side-band records have, in
// ns. That is Go's own monotonic clock, which is read without a system call.
func Monotonic() uint64 {
	when, ns := started()
	return ns + uint64(time.Since(when))
}

// Stop ends sampling, Follow and ReadSamples.
func (f *Feed) Stop() error {
	f.samples.end()
	return errors.Join(f.sideBand.Stop(), f.Kernel.Stop(), f.Kernel.StopReading())
}

// Close releases everything. Follow and ReadSamples must have returned.
func (f *Feed) Close() error {
	f.drained.Wait() // until Stop, which ends it
	if f.Tracker != nil {
		f.Tracker.Close()
	}
	if f.sideBand != nil {
		f.sideBand.Close()
	}
	if f.Kernel != nil {
		return f.Kernel.Close()
	}
	return nil
}
