// Package verify measures whether stacks are right: it takes samples whose
// registers and stack perf records at the same instant, unwinds that copy with
// package cfi, and compares frame by frame with what the profiler found.
package verify

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/headwater/headwater/ebpf/feed"
	"github.com/headwater/headwater/ebpf/kernel"
	"github.com/headwater/headwater/ebpf/process"
	"github.com/headwater/headwater/ebpf/procfs"
	"github.com/headwater/headwater/ebpf/unwind"
)

const (
	// drainInterval is how long samples may lie in the ring buffer. Mappings change
	// meanwhile, so it is short.
	drainInterval = 20 * time.Millisecond
	// endedGrace is how long a process is remembered after its end.
	endedGrace = time.Second
)

// Options configure a Verifier.
type Options struct {
	SampleRate int // samples per second and CPU
	TableBytes int // limit of the memory for unwind tables
	Examples   int // stacks shown in full, of each kind
}

// Verifier compares walks of this host. Its methods are for one goroutine.
type Verifier struct {
	options   Options
	feed      *feed.Feed
	followed  chan error
	family    *family
	restrict  bool
	pairs     pairs
	reference *reference
	results   results
}

// Open begins to take samples. Close the Verifier after use.
func Open(o Options) (*Verifier, error) {
	v := &Verifier{options: o, followed: make(chan error, 1), family: newFamily(), pairs: newPairs(), results: newResults(o)}
	var err error
	if v.feed, err = feed.Open(feed.Options{TableBytes: o.TableBytes, Copies: true, Observe: v.family.observe}); err != nil {
		return nil, err
	}
	if v.reference, err = newReference(v.feed.Tracker); err != nil {
		return nil, errors.Join(err, v.feed.Close())
	}
	go func() { v.followed <- v.feed.Follow() }()
	err = v.feed.Kernel.SetStacks(true, false, true)
	if err == nil {
		err = v.feed.Kernel.Start(o.SampleRate)
	}
	if err != nil {
		return nil, errors.Join(err, v.Close())
	}
	return v, nil
}

// Restrict leaves out all processes but one and its descendants. Call it before
// Run.
func (v *Verifier) Restrict(pid uint32) error {
	if err := v.family.begin(pid, procfs.Default); err != nil {
		return err
	}
	v.restrict = true
	return nil
}

// Run compares until the context ends and returns what it found.
func (v *Verifier) Run(ctx context.Context) (*Report, error) {
	begun := time.Now()
	for ctx.Err() == nil {
		if err := v.round(); err != nil {
			return nil, err
		}
	}
	if err := v.round(); err != nil { // what was taken meanwhile
		return nil, err
	}
	counters, err := v.feed.Kernel.Counters()
	if err != nil {
		return nil, err
	}
	report := v.results.report(time.Since(begun), v.feed.Tracker)
	report.Lost, report.Uncopied = counters.Lost, counters.Uncopied
	report.Errors = v.feed.Tracker.Errors()
	return report, nil
}

// round compares what there is.
func (v *Verifier) round() error {
	upTo, _, err := v.feed.ReadSamples(drainInterval, v.take)
	if err != nil {
		return err
	}
	lost, err := v.feed.Kernel.ReadCopies(func(c *kernel.Copy) {
		if w := v.pairs.ofCopy(c); w != nil {
			v.compare(w, c)
		}
	})
	if err != nil {
		return err
	}
	v.results.lost = lost
	v.results.unpaired += v.pairs.expire(upTo - uint64(time.Second))
	v.feed.Tracker.Reap(upTo - uint64(endedGrace))
	select {
	case err := <-v.followed:
		v.followed <- err
		return fmt.Errorf("follow processes: %w", err)
	default:
		return nil
	}
}

// walk is a sample, kept until its copy comes.
type walk struct {
	time     uint64
	cpu, tid uint32
	pid      uint32
	comm     string
	outcome  unwind.Outcome
	finish   kernel.Finish
	frames   []kernel.Frame
	space    *process.Space // when the sample was read
	skip     bool           // of no interest
	replaced bool           // the process runs another program now
}

// take keeps a sample, its walk finished as a profile would have it.
func (v *Verifier) take(s *kernel.Sample) {
	w := &walk{time: s.Time, cpu: s.CPU, tid: s.TID, pid: s.PID, comm: s.Comm}
	if v.restrict && !v.family.has(s.PID) {
		v.feed.Tracker.Ignore(s.PID, true)
		w.skip = true
	} else {
		v.finish(w, s)
	}
	if c := v.pairs.ofWalk(w); c != nil {
		v.compare(w, c)
	}
}

func (v *Verifier) finish(w *walk, s *kernel.Sample) {
	const ever = 1<<64 - 1
	w.replaced = v.feed.Tracker.Stale(s.PID, ever, s.Generation)
	w.space = v.feed.Mend(s)
	w.outcome, w.finish, w.frames = s.Outcome, s.Finish, slices.Clone(s.User)
	v.results.taken(w)
}

// compare compares a walk with the reference walk over its copy.
func (v *Verifier) compare(w *walk, c *kernel.Copy) {
	switch {
	case w.skip || !hasUserPart(w.outcome):
		return
	case w.replaced:
		v.results.skipped["the process has started another program"]++
		return
	case !c.InUser:
		v.results.skipped["perf recorded no registers"]++
		return
	}
	v.results.add(w, v.reference.walk(w.space, c))
}

// hasUserPart reports whether a sample should have user frames.
func hasUserPart(o unwind.Outcome) bool {
	return o != unwind.KernelThread && o != unwind.NotCollected && o != unwind.NoUserRegisters
}

// Close ends sampling and releases everything.
func (v *Verifier) Close() error {
	err := v.feed.Stop()
	followed := <-v.followed
	if errors.Is(followed, kernel.ErrClosed) {
		followed = nil
	}
	v.reference.close()
	return errors.Join(err, followed, v.feed.Close())
}
