package write

import (
	"time"
)

// deliver pushes one profile until the endpoint takes it or there is no point in
// trying again.
func (e *endpoint) deliver(it *item) {
	c := e.client.Load()
	waits := newBackoff(c.opts)
	for retries := 0; ; retries++ {
		if !e.pause() {
			e.drop(it, "dropped profiles, stopped before they were sent", nil)
			return
		}
		if time.Since(it.taken) > e.tuning.maxAge {
			e.drop(it, "dropped profiles, too old for the server", nil)
			return
		}
		if now := e.client.Load(); now != c {
			c, waits = now, newBackoff(now.opts)
		}
		started := time.Now()
		response, err := c.send(e.abort, it)
		e.metrics.attempt.Observe(time.Since(started).Seconds())
		if err == nil {
			e.arrived(it)
			return
		}
		if e.abort.Err() != nil {
			e.drop(it, "dropped profiles, stopped before they were sent", err)
			return
		}
		e.status.failed(err)
		decision := judge(err, response, c.opts.RetryOnHTTP429)
		if why := hopeless(decision, retries, c.opts); why != "" {
			e.drop(it, why, err)
			return
		}
		e.journal.warn("failed to push to endpoint, trying again", it.size, err)
		e.wait(decision, waits.next(), response, c)
		e.metrics.retries.Inc()
	}
}

// hopeless says why a profile is not tried again, or "".
func hopeless(decision verdict, retries int, o *EndpointOptions) string {
	switch {
	case decision == giveUp:
		return "dropped profiles, the endpoint refused them"
	case decision == retryAFew && retries >= fewRetries, o.MaxBackoffRetries > 0 && retries >= o.MaxBackoffRetries:
		return "dropped profiles, retries are used up"
	}
	return ""
}

// arrived counts a profile that the endpoint has taken.
func (e *endpoint) arrived(it *item) {
	e.metrics.sentProfiles.Inc()
	e.metrics.sentBytes.Add(float64(it.size))
	e.metrics.delivery.Observe(time.Since(it.taken).Seconds())
	if e.status.succeeded() {
		e.journal.info("endpoint takes profiles again")
	}
}

// wait waits before a retry with client c. It ends early when the endpoint gets
// another client, or is to be stopped: then a last attempt may still get through.
func (e *endpoint) wait(decision verdict, backoff time.Duration, r response, c *client) {
	if decision == slowDown || r.retryAfter > 0 {
		backoff = max(backoff, min(r.retryAfter, c.opts.MaxBackoff)) // a server may ask for a day
		e.pauseUntil.Store(time.Now().Add(backoff).UnixNano())
	}
	draining := e.draining
	if isClosed(draining) {
		draining = nil // told before: wait as usual, for as long as we may
	}
	timer := time.NewTimer(backoff)
	defer timer.Stop()
	select {
	case <-timer.C:
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

func isClosed(c <-chan struct{}) bool {
	select {
	case <-c:
		return true
	default:
		return false
	}
}
