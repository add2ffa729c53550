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

// minWait keeps retries from spinning when min_backoff_period is next to nothing.
const minWait = 10 * time.Millisecond

// fewRetries is the number of retries after an answer that says nothing about
// whether a retry could help.
const fewRetries = 3

// longestPause bounds what is read from Retry-After, in seconds.
const longestPause = 24 * 60 * 60

// verdict says what a failed push means for the profile.
type verdict int

const (
	giveUp    verdict = iota // the server will never take it
	denied                   // the server takes nothing like this: the fault may be in the configuration
	retry                    // later, as often as configured
	retryAFew                // as retry, but at most fewRetries times
	slowDown                 // as retry, and all pushes to this endpoint wait
)

// judge reads the error of a push. response is the HTTP response it came with,
// empty if there was none.
//
// The codes are those that Grafana Agent retries, except where HTTP says more. A 4xx of
// a proxy, which knows no Connect codes, is final although Connect reads it as internal
// or unknown. Pyroscope answers with the code unknown when it cannot decode a profile,
// which no retry changes. Without a whole answer the server has refused nothing: a proxy
// that restarts resets connections, which Connect calls canceled, or ends them in the
// middle of an answer, which Connect calls unknown.
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

// brokeOff reports whether a push ended without a whole answer. The caller checks
// whether our own context has ended.
func brokeOff(err error, r response) bool {
	if connect.IsWireError(err) {
		return false
	}
	return r.status == 0 || connect.CodeOf(err) == connect.CodeCanceled || errors.Is(err, io.ErrUnexpectedEOF) ||
		errors.Is(err, syscall.ECONNRESET)
}

// isFinalStatus reports whether an HTTP status blames the request.
func isFinalStatus(status int) bool {
	switch status {
	case http.StatusRequestTimeout, http.StatusConflict, http.StatusTooEarly, http.StatusTooManyRequests:
		return false
	}
	return status >= 300 && status < 500
}

// blame reports whether a final status is about the profile, or about how and where
// it is sent: a token that has expired, a path that a proxy does not know.
func blame(err error, status int) verdict {
	switch status {
	case http.StatusRequestEntityTooLarge, http.StatusUnsupportedMediaType, http.StatusUnprocessableEntity:
		return giveUp
	case http.StatusBadRequest: // Pyroscope's own, or a proxy's?
		var refused *ingestError
		if connect.IsWireError(err) || errors.As(err, &refused) {
			return giveUp
		}
	}
	return denied
}

// backoff gives the waits between retries of one profile: each from a range that
// doubles, at random so that senders do not march in step. (The library at hand
// spreads its waits to both sides of the maximum, so max_backoff_period would
// not be one.)
type backoff struct {
	low, most time.Duration
}

// newBackoff returns the waits that o asks for, none longer than most unless the
// first one is.
func newBackoff(o *EndpointOptions, most time.Duration) backoff {
	low := max(o.MinBackoff, minWait)
	return backoff{low: low, most: max(min(o.MaxBackoff, most), low)}
}

// next returns the next wait.
func (b *backoff) next() time.Duration {
	spread := min(b.low, b.most-b.low)
	wait := b.low + rand.N(spread+1)
	b.low += spread
	return wait
}

// retryAfter returns the wait that a Retry-After header asks for (RFC 9110,
// section 10.2.3), 0 if it is missing or not readable.
func retryAfter(header string, now time.Time) time.Duration {
	if seconds, err := strconv.ParseUint(header, 10, 64); err == nil {
		return time.Duration(min(seconds, longestPause)) * time.Second
	}
	if at, err := http.ParseTime(header); err == nil {
		return max(0, at.Sub(now))
	}
	return 0
}
