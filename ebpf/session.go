package ebpf

import (
	"errors"
	"sync"
	"sync/atomic"
	"time"

	"github.com/headwater/headwater/ebpf/host/filework"
	"github.com/headwater/headwater/ebpf/profile"
	"github.com/headwater/headwater/ebpf/sampler"
	"github.com/headwater/headwater/ebpf/source/collector"
)

// Profile is the profile of one target between two calls of Collect.
type Profile = profile.Profile

// Process is one process's share of a Profile.
type Process = profile.Process

// Session profiles this host from Start to Close. Its methods may be called
// concurrently.
type Session struct {
	collector *collector.Collector
	targets   *targets
	files     *filework.Pool // reads files that other users control
	updating  sync.Mutex     // one Update at a time
	runner    runner
	last      atomic.Pointer[Stats] // of a session that has ended
}

// Start starts profiling. It returns a *kernel.PermissionError when the process lacks capabilities.
func Start(o Options) (*Session, error) {
	o = o.withDefaults()
	if err := o.Validate(); err != nil {
		return nil, err
	}
	s := &Session{files: &filework.Pool{}, targets: newTargets(o)}
	var err error
	s.collector, err = collector.Open(collector.Options{
		Files: s.files, Target: s.targets.targetOf, Use: s.useSample,
		Observe: s.targets.observe, Ended: s.targets.finder.Forget, AfterRound: s.retryTargets,
		OffCPUReads: offCPUReads,
	}, o.config(), nil)
	if err != nil {
		return nil, errors.Join(err, s.targets.close())
	}
	s.runner.start(s.collector.Run)
	return s, nil
}

// useSample has all samples counted: they are of processes with a target.
func (s *Session) useSample(*sampler.Sample) (count bool, err error) { return true, nil }

// retryTargets has processes without a target looked up again from time to time.
func (s *Session) retryTargets(uint64) error {
	if s.targets.retry() {
		s.collector.Sampler.AskAgain()
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
	err := s.collector.Update(o.config(), func() { s.targets.update(o) })
	s.collector.Sampler.AskAgain()
	return err
}

// Collect returns profiles of all samples since the last call, including the most recent ones.
func (s *Session) Collect() ([]Profile, error) {
	s.collector.Flush()
	profiles := s.collector.Profiles.Collect()
	s.collector.Sweep()
	return profiles, nil
}

// StopSampling ends sampling at once, even during a Collect. The next Collect has the samples taken until then, and
// does not compete with sampling.
func (s *Session) StopSampling() error {
	s.collector.Profiles.Hurry()
	return s.collector.StopSampling()
}

// Waiting returns the work on files that takes so long that the session does not wait for it, by its description, and
// how long it has taken. Names or stacks are missing until it is done.
func (s *Session) Waiting() map[string]time.Duration { return s.files.Late() }

// Close ends profiling and releases everything. Samples that are not collected are lost; call Collect first.
func (s *Session) Close() error {
	s.collector.Profiles.Interrupt()
	s.runner.stopAndWait()
	err := s.collector.StopSampling() // the counters of the end
	s.keepStats()
	return errors.Join(err, s.collector.Close(), s.targets.close())
}
