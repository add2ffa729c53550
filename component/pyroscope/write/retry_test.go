package write

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"net/http"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"connectrpc.com/connect"
	"github.com/go-kit/log"
	"github.com/stretchr/testify/require"
)

// Waits double from min_backoff_period up to max_backoff_period, at random within
// their range.
func TestBackoff(t *testing.T) {
	o := &EndpointOptions{MinBackoff: 100 * time.Millisecond, MaxBackoff: time.Second}
	for range 100 {
		b := newBackoff(o, math.MaxInt64)
		for _, low := range []time.Duration{100, 200, 400, 800, 1000, 1000} {
			wait := b.nextDelay()
			require.GreaterOrEqual(t, wait, low*time.Millisecond)
			require.LessOrEqual(t, wait, min(2*low*time.Millisecond, time.Second))
		}
	}
}

func TestBackoffOfOddArguments(t *testing.T) {
	for _, o := range []EndpointOptions{{}, {MaxBackoff: 1}, {MinBackoff: time.Hour, MaxBackoff: time.Second},
		{MinBackoff: 1 << 62, MaxBackoff: 1<<63 - 1}} {
		b := newBackoff(&o, math.MaxInt64)
		for range 100 {
			wait := b.nextDelay()
			require.GreaterOrEqual(t, wait, minWait)
			require.LessOrEqual(t, wait, max(minWait, o.MinBackoff, o.MaxBackoff))
		}
	}
}

func TestRetryAfterHeader(t *testing.T) {
	now := time.Date(2026, 9, 1, 12, 0, 0, 0, time.UTC)
	for header, want := range map[string]time.Duration{
		"": 0, "0": 0, "120": 2 * time.Minute, "-5": 0, "soon": 0, "99999999999": 24 * time.Hour,
		now.Add(90 * time.Second).Format(http.TimeFormat): 90 * time.Second,
		now.Add(-time.Hour).Format(http.TimeFormat):       0,
	} {
		require.Equal(t, want, retryAfter(header, now), header)
	}
}

func TestJudge(t *testing.T) {
	of := func(code connect.Code) error { return connect.NewError(code, errors.New("x")) }
	wire := func(code connect.Code) error { return connect.NewWireError(code, errors.New("x")) }
	tests := []struct {
		err    error
		status int
		want   verdict
	}{
		{fmt.Errorf("push: %w", context.DeadlineExceeded), 0, retry},
		{of(connect.CodeUnavailable), 0, retry},
		{of(connect.CodeUnknown), 0, retry},
		{of(connect.CodeCanceled), 0, retry}, // a connection was reset
		{of(connect.CodeCanceled), 200, retry},
		{wire(connect.CodeCanceled), 500, denied},
		{of(connect.CodeResourceExhausted), 0, retry}, // HTTP/2's ENHANCE_YOUR_CALM
		{connect.NewError(connect.CodeUnknown, io.ErrUnexpectedEOF), 200, retry},
		{fmt.Errorf("ingest: read the answer: %w", syscall.ECONNRESET), 200, retry},
		{of(connect.CodeUnknown), 500, retry},
		{of(connect.CodeUnknown), 200, retryAFew},
		{wire(connect.CodeUnknown), 500, retryAFew},
		{wire(connect.CodeResourceExhausted), 429, slowDown},
		{of(connect.CodeResourceExhausted), 200, giveUp}, // our own limit on answers
		{of(connect.CodeUnavailable), 429, slowDown},
		{of(connect.CodeInternal), 400, denied}, // a proxy's
		{wire(connect.CodeInvalidArgument), 400, giveUp},
		{&ingestError{}, 400, giveUp},
		{of(connect.CodeUnknown), 413, giveUp},
		{of(connect.CodeUnknown), 302, denied},
		{wire(connect.CodeUnauthenticated), 401, denied},
		{of(connect.CodeUnauthenticated), 401, denied},
		{wire(connect.CodeUnimplemented), 501, denied},
		{wire(connect.CodeAborted), 409, retry},
	}
	for _, test := range tests {
		require.Equal(t, test.want, judge(test.err, response{status: test.status}, true), "%v %d", test.err, test.status)
	}
}

func TestMemoryQueue(t *testing.T) {
	q := newMemoryQueue(100, 3, nil)
	pop := func() *item {
		it, lost := q.pop(false)
		require.Empty(t, lost)
		return it
	}
	require.Nil(t, pop())
	put := func(size int) (dropped int) {
		t.Helper()
		gone, ok := q.push(&item{size: size})
		require.True(t, ok)
		return len(gone)
	}
	require.Equal(t, 0, put(10))
	require.Equal(t, 0, put(20))
	require.Equal(t, 0, put(30))
	require.Equal(t, 1, put(40), "one too many: the oldest goes")
	require.Equal(t, usage{profiles: 3, bytes: 90, inMemory: 3}, q.usage())
	require.Equal(t, 2, put(60), "too many bytes")
	require.Equal(t, 40, pop().size)
	require.Equal(t, 2, put(101), "bigger than the queue: it does not stay either")
	require.Nil(t, pop())
	require.Equal(t, 0, put(100))
	q.close()
	_, ok := q.push(&item{size: 1})
	require.False(t, ok)
	require.Equal(t, 100, pop().size)
	require.Equal(t, usage{}, q.usage())
}

// The queue keeps its order over many rounds and does not retain popped items.
func TestRingOrder(t *testing.T) {
	r := ring{maxBytes: 1 << 30, maxItems: 100}
	next, expected := 0, 0
	for round := range 200 {
		for range round % 7 {
			dropped := r.push(&item{size: next})
			next++
			expected += len(dropped) // full from time to time
		}
		for range round % 6 {
			if it := r.pop(); it != nil {
				require.Equal(t, expected, it.size)
				expected++
			}
		}
		require.LessOrEqual(t, len(r.items), 2*r.len()+1)
	}
}

func TestJournal(t *testing.T) { synctest.Test(t, testJournal) }

func testJournal(t *testing.T) {
	out := &logBuffer{}
	j := newJournal(log.NewLogfmtLogger(out), 50*time.Millisecond)
	lines := func() []string { return strings.Split(strings.TrimSuffix(out.String(), "\n"), "\n") }
	for range 1000 {
		j.warnOf("dropped", 1, 10, errors.New("why"))
	}
	j.warnOf("other", 1, 1, nil)
	require.Equal(t, []string{
		`level=warn msg=dropped profiles=1 bytes=10 err=why`,
		`level=warn msg=other profiles=1 bytes=1`,
	}, lines(), "the first of a kind at once")
	time.Sleep(50 * time.Millisecond)
	synctest.Wait()
	require.Len(t, lines(), 3)
	require.Equal(t, `level=warn msg=dropped profiles=999 bytes=9990 err=why`, lines()[2])
	time.Sleep(time.Hour)
	require.Len(t, lines(), 3, "silence is not logged")

	j.warnOf("dropped", 1, 1, nil)
	j.warnOf("dropped", 1, 2, nil)
	j.close()
	require.Equal(t,
		[]string{`level=warn msg=dropped profiles=1 bytes=1`, `level=warn msg=dropped profiles=1 bytes=2`}, lines()[3:])
	j.warnOf("dropped", 1, 3, nil)
	require.Len(t, lines(), 6)
}

func TestBriefErrors(t *testing.T) {
	require.Len(t, brief(errors.New(strings.Repeat("x", 10_000))), maxErrorText+3)
}
