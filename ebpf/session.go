package ebpf

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"time"

	"github.com/headwater/headwater/ebpf/host/filework"
	"github.com/headwater/headwater/ebpf/kernel"
	"github.com/headwater/headwater/ebpf/profile"
	"github.com/headwater/headwater/ebpf/sampler"
	"github.com/headwater/headwater/ebpf/source/heap"
	"github.com/headwater/headwater/ebpf/source/probing"
)

// idleExecutable is how long an executable that no process has mapped keeps its tables and symbols.
const idleExecutable = 30 * time.Second

// Profile is the profile of one target between two calls of Collect.
type Profile = profile.Profile

// Process is one process's share of a Profile.
type Process = profile.Process

// Session profiles this host from Start to Close. Its methods may be called
// concurrently.
type Session struct {
	sampler  *sampler.Sampler
	targets  *targets
	profiles *profile.Builder
	waiting  *waiting        // time off CPU
	probing  *probing.Prober // stacks at probes
	heap     *heap.Profiler  // memory in use
	files    *filework.Pool  // reads files that other users control
	updating sync.Mutex      // one Update at a time
	runner   runner
	last     atomic.Pointer[Stats] // of a session that has ended
}

// Start starts profiling. It returns a *kernel.PermissionError when the process lacks capabilities.
func Start(o Options) (*Session, error) {
	o = o.withDefaults()
	if err := o.Validate(); err != nil {
		return nil, err
	}
	s := &Session{files: &filework.Pool{}, targets: newTargets(o)}
	if err := s.openSources(o); err != nil {
		return nil, errors.Join(err, s.release())
	}
	s.runner.start(func(ctx context.Context) error { return s.sampler.Run(ctx, s.addSample) })
	return s, nil
}

func (s *Session) openSources(o Options) error {
	var err error
	s.sampler, err = sampler.Open(sampler.Options{
		TableBytes: o.TableBytes,
		Files:      s.files,
		Target:     s.targets.targetOf,
		Observe:    s.observe,
		Ended:      s.processEnded,
		AfterRound: s.retryTargets,
	})
	if err != nil {
		return err
	}
	o.Periods = o.periods()
	if s.profiles, err = profile.New(o.ProfileOptions, s.sampler, s.files); err != nil {
		return err
	}
	s.heap = heap.New(heap.Options{
		Sampler: s.sampler, Target: s.targets.targetOf,
		Use: func(sample *sampler.Sample) { _ = s.addSample(sample) }, // it returns nil
	})
	s.waiting = &waiting{sampler: s.sampler, targets: s.targets, add: s.addSample, options: o}
	if err := s.sampleAs(o); err != nil {
		return err
	}
	if err := s.waiting.prepare(o); err != nil {
		return err
	}
	s.probing = probing.New(probing.Options{
		Completer: s.sampler, Target: s.targets.targetOf,
		Use: func(sample *sampler.Sample) { _ = s.addSample(sample) }, // it returns nil
	})
	s.probing.Update(o.probing())
	return s.heap.Update(o.heapConfig())
}

// addSample counts one sample for its target.
func (s *Session) addSample(sample *sampler.Sample) error {
	s.profiles.Add(sample)
	return nil
}

// observe passes a side-band record on.
func (s *Session) observe(r *kernel.Record) {
	s.targets.observe(r)
	s.profiles.Observe(r)
	s.heap.Observe(r)
}

// processEnded forgets a process.
func (s *Session) processEnded(pid uint32) {
	s.targets.finder.Forget(pid)
	s.profiles.Ended(pid)
}

// retryTargets has processes without a target looked up again from time to time.
func (s *Session) retryTargets(uint64) error {
	if s.targets.retry() {
		s.sampler.AskAgain()
	}
	return nil
}

// Done is closed when the session has failed on its own; Err then says why.
func (s *Session) Done() <-chan struct{} { return s.runner.failed }

// Err returns why the session failed, once Done is closed.
func (s *Session) Err() error { return s.runner.failure() }

// Update makes all options current, or none if it fails. Samples taken until now are not lost: the next Collect returns
// them by the old options.
func (s *Session) Update(o Options) error {
	o = o.withDefaults()
	if err := o.Validate(); err != nil {
		return err
	}
	s.updating.Lock()
	defer s.updating.Unlock()
	o.Periods = o.periods()
	update, err := s.profiles.Prepare(o.ProfileOptions)
	if err != nil {
		return err
	}
	if err := s.waiting.prepare(o); err != nil {
		update.Discard()
		return err
	}
	if err := s.sampleAs(o); err != nil {
		update.Discard()
		return errors.Join(err, s.waiting.update(s.waiting.current()))
	}
	s.waiting.flush()
	s.probing.Flush()
	update.Apply() // the rest cannot fail
	s.probing.Update(o.probing())
	s.targets.update(o)
	s.sampler.AskAgain()
	_ = s.heap.Update(o.heapConfig()) // Stats has its errors
	return s.waiting.update(o)
}

// sampleAs has the kernel sample by the options. If it fails, the kernel samples as before.
func (s *Session) sampleAs(o Options) error {
	if err := s.sampler.SampleOnly(o.processes()); err != nil {
		return err
	}
	if err := s.sampler.Configure(o.sampling()); err != nil {
		return errors.Join(err, s.sampler.SampleOnly(s.waiting.current().processes()))
	}
	return nil
}

// Collect returns profiles of all samples since the last call, including the most recent ones.
func (s *Session) Collect() ([]Profile, error) {
	s.sampler.Flush()
	s.waiting.flush()
	s.probing.Flush()
	s.probing.Retry()
	s.heap.Flush()
	profiles := s.profiles.Collect()
	s.profiles.Forget(s.sampler.Sweep(idleExecutable))
	return profiles, nil
}

// StopSampling ends sampling at once, even during a Collect. The next Collect has the samples taken until then, and
// does not compete with sampling.
func (s *Session) StopSampling() error {
	s.profiles.Hurry()
	s.waiting.stopPasses()
	s.probing.Stop()
	s.heap.Stop()
	return s.sampler.StopSampling()
}

// Waiting returns the work on files that takes so long that the session does not wait for it, by its description, and
// how long it has taken. Names or stacks are missing until it is done.
func (s *Session) Waiting() map[string]time.Duration { return s.files.Late() }

// Close ends profiling and releases everything. Samples that are not collected are lost; call Collect first.
func (s *Session) Close() error {
	s.profiles.Interrupt()
	s.runner.stopAndWait()
	s.waiting.stopPasses()
	s.probing.Stop()
	s.heap.Stop()
	s.keepStats()
	return s.release()
}

func (s *Session) release() error {
	var err error
	if s.waiting != nil {
		err = s.waiting.close()
	}
	if s.probing != nil {
		s.probing.Stop()
	}
	if s.heap != nil {
		s.heap.Close()
	}
	if s.profiles != nil {
		s.profiles.Close()
	}
	err = errors.Join(err, s.targets.close())
	if s.sampler != nil {
		err = errors.Join(err, s.sampler.Close())
	}
	return err
}
