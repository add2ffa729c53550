package write

import (
	"context"
	"errors"
	"io"
	"math/rand/v2"
	"net/http"
	"strconv"
	"syscall"
	"time"

	"connectrpc.com/connect"
)

// minWait prevents a busy loop of retries when min_backoff_period is almost zero.
const minWait = 10 * time.Millisecond

// fewRetries is the number of retries after an answer that does not show whether a retry could help.
const fewRetries = 3

// longestPause bounds the value of Retry-After, in seconds.
const longestPause = 24 * 60 * 60

// verdict is the consequence of a failed push for the profile.
type verdict int

const (
	giveUp    verdict = iota // the server will never take it
	denied                   // the server refuses all such requests: the fault may be in the configuration
	retry                    // retry later, as often as configured
	retryAFew                // like retry, but at most fewRetries times
	slowDown                 // like retry, and all pushes to this endpoint wait
)

// judge classifies the error of a push. response is the HTTP response that it came with, empty if there was none.
//
// judge retries the same codes as Grafana Agent, except where HTTP is more precise. A 4xx status of a proxy, which
// knows no Connect codes, is final although Connect maps it to internal or unknown. Pyroscope answers with the code
// unknown when it cannot decode a profile; a retry does not help. Without a complete answer the server has not refused
// the profile: a proxy that restarts resets connections, which Connect reports as canceled, or closes them in the
// middle of an answer, which Connect reports as unknown.
func judge(err error, response response, retry429 bool) verdict {
	code := connect.CodeOf(err)
	if response.status == http.StatusTooManyRequests || code == connect.CodeResourceExhausted && connect.IsWireError(err) {
		if retry429 {
			return slowDown
		}
		return giveUp
	}
	if isFinalStatus(response.status) {
		return blame(err, response.status)
	}
	if errors.Is(err, context.DeadlineExceeded) || brokeOff(err, response) {
		return retry
	}
	switch code {
	case connect.CodeUnknown:
		if connect.IsWireError(err) || response.status == http.StatusOK {
			return retryAFew
		}
		return retry
	case connect.CodeDeadlineExceeded, connect.CodeInternal, connect.CodeUnavailable, connect.CodeDataLoss,
		connect.CodeAborted:
		return retry
	case connect.CodeUnauthenticated, connect.CodePermissionDenied, connect.CodeNotFound, connect.CodeUnimplemented,
		connect.CodeCanceled:
		return denied
	}
	return giveUp
}

// brokeOff reports whether a push ended without a complete answer. The caller checks whether our own context has ended.
func brokeOff(err error, r response) bool {
	if connect.IsWireError(err) {
		return false
	}
	return r.status == 0 || connect.CodeOf(err) == connect.CodeCanceled || errors.Is(err, io.ErrUnexpectedEOF) ||
		errors.Is(err, syscall.ECONNRESET)
}

// isFinalStatus reports whether an HTTP status means that the same request will always fail.
func isFinalStatus(status int) bool {
	switch status {
	case http.StatusRequestTimeout, http.StatusConflict, http.StatusTooEarly, http.StatusTooManyRequests:
		return false
	}
	return status >= 300 && status < 500
}

// blame decides whether a final status is about the profile, or about the way it is sent: an expired token, or a path
// that a proxy does not know.
func blame(err error, status int) verdict {
	switch status {
	case http.StatusRequestEntityTooLarge, http.StatusUnsupportedMediaType, http.StatusUnprocessableEntity:
		return giveUp
	case http.StatusBadRequest: // sent by Pyroscope, or by a proxy?
		var refused *ingestError
		if connect.IsWireError(err) || errors.As(err, &refused) {
			return giveUp
		}
	}
	return denied
}

// backoff computes the waits between retries of one profile. Each wait is random, within a range that doubles, so that
// senders do not retry in step. (The available library spreads its waits to both sides of the maximum, so they could
// exceed max_backoff_period.)
type backoff struct {
	low, most time.Duration
}

// newBackoff returns the waits that o configures. No wait is longer than most, except a first wait that is already
// longer.
func newBackoff(o *EndpointOptions, most time.Duration) backoff {
	low := max(o.MinBackoff, minWait)
	return backoff{low: low, most: max(min(o.MaxBackoff, most), low)}
}

// nextDelay returns the next wait.
func (b *backoff) nextDelay() time.Duration {
	spread := min(b.low, b.most-b.low)
	wait := b.low + rand.N(spread+1)
	b.low += spread
	return wait
}

// retryAfter returns the wait that a Retry-After header asks for (RFC 9110, section 10.2.3), or 0 if the header is
// missing or invalid.
func retryAfter(header string, now time.Time) time.Duration {
	if seconds, err := strconv.ParseUint(header, 10, 64); err == nil {
		return time.Duration(min(seconds, longestPause)) * time.Second
	}
	if at, err := http.ParseTime(header); err == nil {
		return max(0, at.Sub(now))
	}
	return 0
}
