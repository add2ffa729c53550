package write

import (
	"math"
	"math/rand/v2"
	"slices"
	"time"
)

// mostAhead bounds how many profiles are tried before their turn.
const mostAhead = 8

// enoughOthers is how many others an endpoint takes before it is a profile's own
// fault that it does not get through.
const enoughOthers = 2

// deliver pushes one profile until the endpoint takes it or there is no point in
// trying again. It returns the other profiles that the sender holds: those of
// ahead that have not arrived, and maybe more of the queue's.
//
// While the endpoint is away its waits between retries grow to minutes. So that
// it is not left alone for as long once it is back, one of the waiting senders
// tries its profile every few seconds; such an attempt does not count as a retry,
// and as soon as one succeeds all others follow. Profiles that wait on disk are
// given up only when they are refused, too old, or when the endpoint takes others
// but not them; what may be the fault of the configuration, such as a token that
// has expired, is waited for.
func (e *endpoint) deliver(it *item, ahead []*item) []*item {
	c := e.client.Load()
	waits := e.newBackoff(c)
	var due time.Time // of the next attempt that counts
	outdone := 0      // others that got through
	for retries := 0; ; {
		if !e.pause() {
			e.keep(it, nil)
			return ahead
		}
		if time.Since(it.taken) > e.maxAge(c) {
			e.drop(it, lostToAge, nil)
			return ahead
		}
		if now := e.client.Load(); now != c {
			c, waits, due = now, e.newBackoff(now), time.Time{}
		}
		back := e.status.comesBack()
		response, err := e.attempt(c, it)
		if err == nil {
			return ahead
		}
		if e.abort.Err() != nil {
			e.keep(it, err)
			return ahead
		}
		decision := judge(err, response, c.opts.RetryOnHTTP429)
		counts := !time.Now().Before(due)
		why := e.hopeless(decision, response, retries, c.opts)
		if why == lostToRetries && e.queue.keeps() && outdone < enoughOthers {
			var passes bool
			if passes, ahead = e.othersPass(c, ahead); passes {
				outdone++ // but the endpoint may have come back just now
				e.metrics.retries.Inc()
				continue
			}
			why = ""
		}
		if why != "" && (counts || why == lostToRefusal || e.queue.keeps()) {
			e.drop(it, why, err)
			return ahead
		}
		if e.queue.keeps() && isClosed(e.draining) { // no use in waiting
			e.cancel()
			e.keep(it, err)
			return ahead
		}
		if counts {
			retries++
			due = time.Now().Add(waits.next())
		}
		e.journal.warn("failed to push to endpoint, trying again", 1, it.size, err)
		e.wait(decision, due, back, response, c)
		e.metrics.retries.Inc()
	}
}

// attempt pushes a profile once.
func (e *endpoint) attempt(c *client, it *item) (response, error) {
	started := time.Now()
	response, err := c.send(e.abort, it)
	e.metrics.attempt.Observe(time.Since(started).Seconds())
	switch {
	case err == nil:
		e.arrived(it)
	case e.abort.Err() == nil:
		e.status.failed(err)
		e.growth.failed()
	}
	return response, err
}

// arrived counts a profile that the endpoint has taken. As in count, the number of
// profiles comes last.
func (e *endpoint) arrived(it *item) {
	e.queue.done(it)
	e.metrics.sentBytes.Add(float64(it.size))
	waited := time.Since(it.taken)
	e.metrics.delivery.Observe(waited.Seconds())
	e.journal.debug("pushed a profile", "service_name", it.service(), "bytes", it.size, "waited", waited)
	e.lookAtGrowth(true)
	if e.status.succeeded() {
		e.journal.info("endpoint takes profiles again")
	}
	e.metrics.sentProfiles.Inc()
}

// maxAge is the age at which a profile is given up.
func (e *endpoint) maxAge(c *client) time.Duration {
	if c.queue != nil {
		return c.queue.MaxAge
	}
	return e.tuning.maxAge
}

// newBackoff returns the waits of a profile. A profile that waits on disk holds up those
// after it, and is not given up because of its number of retries, so its waits stay
// short.
func (e *endpoint) newBackoff(c *client) backoff {
	if e.queue.keeps() {
		return newBackoff(c.opts, e.tuning.probeEvery)
	}
	return newBackoff(c.opts, math.MaxInt64)
}

// hopeless says why a profile is not tried again, or "".
func (e *endpoint) hopeless(decision verdict, r response, retries int, o *EndpointOptions) string {
	if !e.queue.keeps() {
		switch {
		case decision == giveUp || decision == denied:
			return lostToRefusal
		case decision == retryAFew && retries >= fewRetries, o.MaxBackoffRetries > 0 && retries >= o.MaxBackoffRetries:
			return lostToRetries
		}
		return ""
	}
	limit := o.MaxBackoffRetries
	switch {
	case limit == 0 || decision == retryAFew:
		limit = fewRetries
	case decision == slowDown: // others may well pass where the rate is limited
		limit *= 3
	}
	switch {
	case decision == giveUp:
		return lostToRefusal
	case r.status != 0 && retries >= limit: // it answers, so maybe it is the profile's fault after all
		return lostToRetries
	}
	return ""
}

// othersPass reports whether the endpoint takes another profile than the one it has
// not taken so far. It returns the profiles that are tried ahead and have not
// arrived.
func (e *endpoint) othersPass(c *client, ahead []*item) (bool, []*item) {
	if len(ahead) < mostAhead {
		if it := e.next(true); it != nil {
			ahead = append(slices.Clone(ahead), it)
		}
	}
	if len(ahead) == 0 {
		return false, nil
	}
	other := ahead[len(ahead)-1]
	response, err := e.attempt(c, other)
	if err == nil {
		return true, ahead[:len(ahead)-1]
	}
	if e.abort.Err() == nil && judge(err, response, c.opts.RetryOnHTTP429) == giveUp {
		e.drop(other, lostToRefusal, err)
		return false, ahead[:len(ahead)-1]
	}
	return false, ahead
}

// wait waits until a retry with client c is due. It ends early when the endpoint
// is back or gets another client, or is to be stopped: then a last attempt may
// still get through.
func (e *endpoint) wait(decision verdict, due time.Time, back <-chan struct{}, r response, c *client) {
	probe := max(time.Duration((0.5+rand.Float64()/2)*float64(e.tuning.probeEvery)), c.opts.MinBackoff)
	now := time.Now()
	switch {
	case r.retryAfter > 0: // a server may ask for a day
		e.pauseUntil.Store(later(due, now.Add(min(r.retryAfter, c.opts.MaxBackoff))).UnixNano())
	case decision == slowDown:
		e.pauseUntil.Store(earlier(due, now.Add(probe)).UnixNano())
	}
	if !e.queue.keeps() && e.scout.CompareAndSwap(false, true) {
		defer e.scout.Store(false)
		due = earlier(due, now.Add(probe))
	}
	draining := e.draining
	if isClosed(draining) {
		draining = nil // known already: wait as usual, for as long as we may
	}
	timer := time.NewTimer(due.Sub(now))
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-back:
	case <-c.replaced:
	case <-draining:
	case <-e.abort.Done():
	}
}

// pause waits while the server wants to be left alone. It reports false if the
// endpoint was aborted meanwhile.
func (e *endpoint) pause() bool {
	for e.abort.Err() == nil {
		left := time.Until(time.Unix(0, e.pauseUntil.Load()))
		if left <= 0 {
			return true
		}
		timer := time.NewTimer(left)
		select {
		case <-timer.C:
		case <-e.client.Load().replaced:
		case <-e.abort.Done():
		}
		timer.Stop()
	}
	return false
}

func later(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}

func earlier(a, b time.Time) time.Time {
	if a.Before(b) {
		return a
	}
	return b
}

func isClosed(c <-chan struct{}) bool {
	select {
	case <-c:
		return true
	default:
		return false
	}
}
