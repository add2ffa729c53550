package ebpf

import (
	"context"
	"sync"
	"time"

	"github.com/prometheus/prometheus/model/labels"

	"github.com/headwater/headwater/component/pyroscope"
)

// Limits of the profiles that are being sent to the receivers.
const (
	sendWorkers   = 16                     // profiles handed over at the same time
	queueProfiles = 1024                   // profiles waiting
	queueBytes    = 64 << 20               // bytes waiting
	sendTimeout   = 1 * time.Minute        // for one profile, including retries
	flushTimeout  = 4 * time.Second        // for all waiting profiles, at the end
	giveUpTimeout = 500 * time.Millisecond // for receivers to notice that their context has ended
)

// outgoing is a profile to be sent.
type outgoing struct {
	labels labels.Labels
	raw    []byte
}

// sender hands profiles to the receivers without making the caller wait. If receivers are too slow, it drops and counts
// the oldest profiles.
type sender struct {
	receivers pyroscope.Appendable
	ctx       context.Context // of every Append
	cancel    context.CancelFunc
	workers   sync.WaitGroup

	mu      sync.Mutex
	wake    *sync.Cond
	queue   []outgoing
	bytes   int
	closed  bool
	passed  uint64 // taken by all receivers
	dropped uint64 // not handed over
	failed  uint64 // refused by a receiver
	lastErr error  // newest reason
}

// newSender starts the workers. close must be called to stop them.
func newSender(receivers pyroscope.Appendable) *sender {
	ctx, cancel := context.WithCancel(context.Background())
	s := &sender{receivers: receivers, ctx: ctx, cancel: cancel}
	s.wake = sync.NewCond(&s.mu)
	for range sendWorkers {
		s.workers.Go(s.sendProfiles)
	}
	return s
}

// addProfile queues a profile.
func (s *sender) addProfile(o outgoing) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.queue = append(s.queue, o)
	s.bytes += len(o.raw)
	for len(s.queue) > queueProfiles || s.bytes > queueBytes {
		s.popProfile()
		s.dropped++
	}
	s.wake.Signal()
}

// popProfile takes the oldest profile from the queue, which must not be empty.
func (s *sender) popProfile() outgoing {
	o := s.queue[0]
	s.queue[0] = outgoing{} // release its memory
	s.queue = s.queue[1:]
	s.bytes -= len(o.raw)
	return o
}

// nextProfile waits for a profile. It returns false if there will be no further profiles.
func (s *sender) nextProfile() (outgoing, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for len(s.queue) == 0 && !s.closed {
		s.wake.Wait()
	}
	if len(s.queue) == 0 {
		return outgoing{}, false
	}
	return s.popProfile(), true
}

func (s *sender) sendProfiles() {
	for {
		o, ok := s.nextProfile()
		if !ok {
			return
		}
		if s.ctx.Err() != nil {
			s.count(&s.dropped, nil)
			continue
		}
		ctx, cancel := context.WithTimeout(s.ctx, sendTimeout)
		err := s.receivers.Appender().Append(ctx, o.labels, []*pyroscope.RawSample{{RawProfile: o.raw}})
		cancel()
		switch {
		case err == nil:
			s.count(&s.passed, nil)
		case s.ctx.Err() != nil:
			s.count(&s.dropped, err)
		default:
			s.count(&s.failed, err)
		}
	}
}

func (s *sender) count(n *uint64, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	*n++
	if err != nil {
		s.lastErr = err
	}
}

// troubles are the results of sending since the last call of takeTroubles.
type troubles struct {
	passed, dropped, failed uint64
	err                     error // of a failed profile
}

func (s *sender) takeTroubles() troubles {
	s.mu.Lock()
	defer s.mu.Unlock()
	t := troubles{passed: s.passed, dropped: s.dropped, failed: s.failed, err: s.lastErr}
	s.passed, s.dropped, s.failed, s.lastErr = 0, 0, 0, nil
	return t
}

// close hands over the waiting profiles, for at most about flushTimeout, and stops the workers. A receiver that ignores
// the end of its context may keep its worker.
func (s *sender) close() {
	s.mu.Lock()
	s.closed = true
	s.wake.Broadcast()
	s.mu.Unlock()

	done := make(chan struct{})
	go func() {
		s.workers.Wait()
		close(done)
	}()
	defer s.cancel()
	if waitFor(done, flushTimeout) {
		return
	}
	s.cancel()
	waitFor(done, giveUpTimeout)
}

// waitFor reports whether done was closed in time.
func waitFor(done <-chan struct{}, limit time.Duration) bool {
	timer := time.NewTimer(limit)
	defer timer.Stop()
	select {
	case <-done:
		return true
	case <-timer.C:
		return false
	}
}
