package write

import (
	"fmt"
	"sync"
	"time"
)

// refusedFor is how long an endpoint stays unhealthy after the endpoint, or this component on its behalf, has refused a
// profile.
const refusedFor = 5 * time.Minute

// persistent is the number of consecutive failed attempts that make an endpoint unhealthy.
const persistent = 3

// status records whether pushes to an endpoint succeed. It is safe for concurrent use.
type status struct {
	mu       sync.Mutex
	sent     uint64
	drops    uint64
	failures int       // consecutive failed attempts
	since    time.Time // time of the first failure in the row, or of the first success after it
	err      error     // of the last failed attempt

	refusals     int       // refused profiles, without a pause of refusedFor between them
	refusedSince time.Time // time of the first refusal
	refusedLast  time.Time // time of the last refusal
	refusal      error     // error of the last refusal

	back chan struct{} // closed when an unhealthy endpoint takes a profile
}

// comesBack returns a channel that is closed when the endpoint is unhealthy and takes a profile again.
func (s *status) comesBack() <-chan struct{} {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.back == nil {
		s.back = make(chan struct{})
	}
	return s.back
}

func (s *status) failed(err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.failures == 0 {
		s.since = time.Now()
	}
	s.failures++
	s.err = err
}

// succeeded reports whether the endpoint was unhealthy until now.
func (s *status) succeeded() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.sent++
	wasBad := s.failures >= persistent
	if s.failures > 0 {
		s.since = time.Now()
	}
	s.failures, s.err = 0, nil
	if wasBad && s.back != nil {
		close(s.back)
		s.back = nil
	}
	return wasBad
}

func (s *status) dropped(profiles int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.drops += uint64(profiles)
}

// refused notes that a profile will never arrive, even if other profiles do.
func (s *status) refused(err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	now := time.Now()
	if now.Sub(s.refusedLast) >= refusedFor {
		s.refusals, s.refusedSince = 0, now
	}
	s.refusals++
	s.refusedLast, s.refusal = now, err
}

// problem returns a description of the problem, or "", and its start.
func (s *status) problem() (string, time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.failures < persistent {
		if s.refusals == 0 {
			return "", s.since
		}
		if over := s.refusedLast.Add(refusedFor); !time.Now().Before(over) {
			return "", later(s.since, over)
		}
		return fmt.Sprintf("%d profiles refused since %s, the last: %s",
			s.refusals, s.refusedSince.Format(time.TimeOnly), brief(s.refusal)), s.refusedSince
	}
	return fmt.Sprintf("%d pushes in a row failed since %s: %s", s.failures, s.since.Format(time.TimeOnly), brief(s.err)),
		s.since
}
