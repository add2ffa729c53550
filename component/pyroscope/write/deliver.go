package write

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"time"
)

// mostAhead bounds the number of profiles that are tried out of order.
const mostAhead = 8

// enoughOthers is the number of other profiles that an endpoint must take before the failures of a profile count as the
// profile's own fault.
const enoughOthers = 2

// deliver pushes one profile until the endpoint takes it or a retry is pointless. It returns the other profiles that
// the sender holds: the profiles of ahead that have not arrived, and possibly further ones from the queue.
//
// While the endpoint is unreachable, the waits between retries grow to minutes. To notice its return earlier, one of
// the waiting senders tries its profile every few seconds. Such an attempt does not count as a retry, and as soon as
// one succeeds, all other senders retry at once. Profiles on disk are given up only when they are refused, too old, or
// when the endpoint takes other profiles but not them. A fault that may be in the configuration, such as an expired
// token, is waited out.
func (e *endpoint) deliver(it *item, ahead []*item) []*item {
	c := e.client.Load()
	waits := e.newBackoff(c)
	var due time.Time // of the next attempt that counts as a retry
	outdone := 0      // number of other profiles that arrived
	for retries := 0; ; {
		if !e.pause() {
			e.keepItem(it, nil)
			return ahead
		}
		if time.Since(it.taken) > e.maxAge(c) {
			e.dropItem(it, lostToAge, nil)
			return ahead
		}
		if now := e.client.Load(); now != c {
			c, waits, due = now, e.newBackoff(now), time.Time{}
		}
		if c.broken != nil {
			e.dropItem(it, lostToRefusal, fmt.Errorf("url %w", c.broken))
			return ahead
		}
		back := e.status.comesBack()
		response, err := e.attempt(c, it)
		if err == nil {
			return ahead
		}
		if e.abort.Err() != nil {
			e.keepItem(it, err)
			return ahead
		}
		decision := judge(err, response, c.opts.RetryOnHTTP429)
		counts := !time.Now().Before(due)
		why := e.hopeless(decision, response, retries, c.opts)
		if why == lostToRetries && e.queue.keeps() && outdone < enoughOthers {
			var passes bool
			if passes, ahead = e.othersPass(c, ahead); passes {
				outdone++ // but the endpoint may have recovered just now
				e.metrics.retries.Inc()
				continue
			}
			why = ""
		}
		if why != "" && (counts || why == lostToRefusal || e.queue.keeps()) {
			e.dropItem(it, why, err)
			return ahead
		}
		if e.queue.keeps() && isClosed(e.draining) { // waiting is pointless
			e.cancel()
			e.keepItem(it, err)
			return ahead
		}
		if counts {
			retries++
			due = time.Now().Add(waits.nextDelay())
		}
		e.journal.warnOf("failed to push to endpoint, trying again", 1, it.size, err)
		e.waitToRetry(decision, due, back, response, c)
		e.metrics.retries.Inc()
	}
}

// attempt pushes a profile once.
func (e *endpoint) attempt(c *client, it *item) (response, error) {
	started := time.Now()
	response, err := c.sendItem(e.abort, it)
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

// arrived counts a profile that the endpoint has taken. As in count, the number of profiles is updated last.
func (e *endpoint) arrived(it *item) {
	e.queue.done(it)
	e.metrics.sentBytes.Add(float64(it.size))
	waited := time.Since(it.taken)
	e.metrics.delivery.Observe(waited.Seconds())
	e.journal.debug("pushed a profile", "service_name", it.service(), "bytes", it.size, "waited", waited)
	e.lookAtGrowth(true)
	if e.status.succeeded() {
		e.journal.logInfo("endpoint accepts profiles again")
	}
	e.metrics.sentProfiles.Inc()
}

// maxAge is the age at which a profile is dropped.
func (e *endpoint) maxAge(c *client) time.Duration {
	if c.queue != nil {
		return c.queue.MaxAge
	}
	return e.tuning.maxAge
}

// newBackoff returns the waits between the retries of a profile. A profile on disk delays the profiles after it and has
// no limit on retries, so its waits stay short.
func (e *endpoint) newBackoff(c *client) backoff {
	if e.queue.keeps() {
		return newBackoff(c.opts, e.tuning.probeEvery)
	}
	return newBackoff(c.opts, math.MaxInt64)
}

// hopeless returns why a profile is not tried again, or "" if it is.
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
	case decision == slowDown: // other profiles may pass while the rate is limited
		limit *= 3
	}
	switch {
	case decision == giveUp:
		return lostToRefusal
	case r.status != 0 && retries >= limit: // the endpoint answers, so the profile may be at fault
		return lostToRetries
	}
	return ""
}

// othersPass reports whether the endpoint takes another profile while it keeps failing to take the current one. It
// returns the out-of-order profiles that have not arrived.
func (e *endpoint) othersPass(c *client, ahead []*item) (bool, []*item) {
	if len(ahead) < mostAhead {
		if it := e.nextItem(true); it != nil {
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
		e.dropItem(other, lostToRefusal, err)
		return false, ahead[:len(ahead)-1]
	}
	return false, ahead
}

// waitToRetry waits until a retry with client c is due. It returns early when the endpoint has recovered, when it gets
// another client, or when it is being stopped, so that a last attempt may still succeed.
func (e *endpoint) waitToRetry(decision verdict, due time.Time, back <-chan struct{}, r response, c *client) {
	probe := max(time.Duration((0.5+rand.Float64()/2)*float64(e.tuning.probeEvery)), c.opts.MinBackoff)
	now := time.Now()
	switch {
	case r.retryAfter > 0: // a server may ask for up to a day
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
		draining = nil // draining already: wait the full time
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

// pause waits as long as the server has asked for a pause. It returns false if the endpoint is aborted in the meantime.
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
