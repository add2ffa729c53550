package sampler

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/headwater/headwater/ebpf/common/clock"
	"github.com/headwater/headwater/ebpf/host/footprint"
	"github.com/headwater/headwater/ebpf/kernel"
)

const (
	// endedGrace is how long a process is remembered after its end, for samples
	// that are read late.
	endedGrace = time.Second
	// flushPatience is how long Flush waits for the latest samples.
	flushPatience = time.Second
	// lastFlushPatience is how long Flush waits after sampling has ended: samples that are not used by then are lost.
	lastFlushPatience = 3 * time.Second
)

// Run finishes every sample and hands it to use, until ctx is done. When it returns nil, all samples that were taken
// until then are used. An error of use ends it. It may be called once.
func (s *Sampler) Run(ctx context.Context, use func(*Sample) error) error {
	defer close(s.ended)
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	loops := []func() error{
		s.sideBand.follow,
		func() error { return s.drainSamples(ctx) },
		func() error { return s.finishSamples(use) },
		func() error { return s.wakeAtEnd(ctx) },
	}
	errs := make([]error, len(loops))
	var running sync.WaitGroup
	for i, loop := range loops {
		running.Go(func() {
			defer cancel() // when one ends, all do
			errs[i] = loop()
		})
	}
	running.Wait()
	return errors.Join(errs...)
}

// wakeAtEnd wakes the loops that wait for the kernel when ctx is done.
func (s *Sampler) wakeAtEnd(ctx context.Context) error {
	<-ctx.Done()
	return errors.Join(s.sideBand.stopReading(), s.kernel.Flush())
}

// drainSamples empties the kernel's buffer into the queue, round by round. The last round starts after ctx is done. The
// goroutine that reads the queue returns an error of a round.
func (s *Sampler) drainSamples(ctx context.Context) error {
	footprint.RaisePriority()
	for {
		deadline, last := time.Now(), ctx.Err() != nil
		if !last {
			deadline = deadline.Add(s.options.Interval)
		}
		e := end{upTo: clock.Monotonic()}
		e.flushed, e.err = s.kernel.ReadSamples(deadline, s.samples.putSample)
		e.last = last || e.err != nil
		s.samples.close(e)
		if e.last {
			return nil
		}
	}
}

// finishSamples takes the samples from the queue and hands them to use, until the last round.
func (s *Sampler) finishSamples(use func(*Sample) error) error {
	footprint.RaisePriority()
	defer s.samples.endRound()
	for {
		for s.samples.empty() && s.tracker.BuildAhead() {
		}
		next := s.samples.takeItem()
		if next.sample == nil {
			if err := s.endRound(next.end); err != nil || next.end.last {
				return err
			}
			continue
		}
		err := s.finishSample(next.sample, use)
		s.samples.reuse(next.sample)
		if err != nil {
			return err
		}
	}
}

// finishSample hands a sample to use if its process is wanted. It first reads the records until the sample's time: they
// show which program the process ran, and which files it had mapped.
func (s *Sampler) finishSample(raw *kernel.Sample, use func(*Sample) error) error {
	if err := s.sideBand.drainUntil(raw.Time); err != nil {
		return err
	}
	s.sample = Sample{Sample: raw}
	if s.options.Target != nil {
		wanted := false
		if s.sample.Target, wanted = s.options.Target(raw.PID); !wanted {
			s.tracker.Ignore(raw.PID, true)
			s.ignored.Add(1)
			return nil
		}
	}
	s.completer.complete(&s.sample)
	s.sideBand.blame(s.sample.Sample)
	return use(&s.sample)
}

// endRound does the work that is due after all samples of a round were used.
func (s *Sampler) endRound(e end) error {
	if e.err != nil {
		return e.err
	}
	if err := s.sideBand.drain(); err != nil {
		return err
	}
	s.checkCPUs(time.Now())
	if e.flushed {
		select {
		case s.flushed <- struct{}{}:
		default:
		}
	}
	for _, pid := range s.tracker.Reap(e.upTo - uint64(endedGrace)) {
		if s.options.Ended != nil {
			s.options.Ended(pid)
		}
	}
	if s.options.AfterRound != nil {
		return s.options.AfterRound(e.upTo)
	}
	return nil
}

// Flush waits until the samples taken before now are used, for about a second. It does not wait after Run has returned.
func (s *Sampler) Flush() {
	select {
	case <-s.flushed: // of an earlier call that gave up waiting
	default:
	}
	if s.kernel.Flush() != nil {
		return
	}
	s.mu.Lock()
	patience := flushPatience
	if s.stopped {
		patience = lastFlushPatience
	}
	s.mu.Unlock()
	select {
	case <-s.flushed:
	case <-s.ended:
	case <-time.After(patience): // the reader is busy; it uses the samples later
	}
}
