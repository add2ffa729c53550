package write

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// TestGrowth plays an hour of looks, one a second, and says after how many seconds
// it is reported.
func TestGrowth(t *testing.T) {
	const window = 30 // seconds
	tests := map[string]struct {
		inFlight int
		waiting  func(second int) int
		failed   func(second int) bool
		silent   bool // no profile arrives
		reported int  // -1: never
	}{
		"keeps up": {inFlight: 1, waiting: func(s int) int { return s % 15 * 10 }, reported: -1},
		"grows":    {inFlight: 1, waiting: func(s int) int { return s }, reported: 4*window + 3},
		"grows a little below what is worth a word": {inFlight: 16,
			waiting: func(s int) int { return min(s, 150) }, reported: -1},
		"catches up after an outage": {inFlight: 1,
			waiting: func(s int) int { return max(0, 10_000-3*s) }, reported: -1},
		"grows for an endpoint that fails": {inFlight: 1, waiting: func(s int) int { return s },
			failed: func(s int) bool { return s%20 == 0 }, reported: -1},
		"grows for an endpoint that hangs": {inFlight: 1, waiting: func(s int) int { return s },
			silent: true, reported: -1},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			g := newGrowth(window * time.Second)
			reported := -1
			for second := range 3600 {
				if test.failed != nil && test.failed(second) {
					g.failed()
				}
				if g.lookAtQueue(time.Unix(int64(second), 0), test.waiting(second), !test.silent, test.inFlight) {
					require.Equal(t, -1, reported, "reported twice")
					reported = second
				}
			}
			require.Equal(t, test.reported, reported)
			require.Equal(t, reported >= 0, g.warning(test.inFlight) != "")
			if reported >= 0 {
				g.lookAtQueue(time.Unix(3601, 0), 0, true, test.inFlight)
				require.Empty(t, g.warning(test.inFlight), "it has caught up")
			}
		})
	}
	require.Contains(t, growthText(4), "max_in_flight = 4 of the queue block sends them; raise it, up to 16")
	require.NotContains(t, growthText(16), "raise it")
}

// A server that takes its time with each profile, and takes every one.
func TestQueueGrowthIsTold(t *testing.T) {
	t.Parallel()
	s := newServer(t)
	s.set(func(int, *pushRequest) error {
		time.Sleep(20 * time.Millisecond)
		return nil
	})
	tune := queueTuning()
	tune.growthWindow = 200 * time.Millisecond
	r := newQueueRig(t, t.TempDir(), queued(s.URL), tune).runNow()
	advice := func() string { return r.DebugInfo().(DebugInfo).Endpoints[0].QueueAdvice }
	require.Empty(t, advice())
	sent := 0
	for end := time.Now().Add(60 * time.Second); advice() == "" && time.Now().Before(end); sent += 4 {
		r.append(numbers(sent, 4)...)
		time.Sleep(5 * time.Millisecond)
	}
	require.Contains(t, advice(), "max_in_flight = 1 ")
	require.Equal(t, 1, strings.Count(r.log.String(), "the queue grows although"), r.log.String())
	require.Contains(t, r.log.String(), "level=warn")

	s.set(nil)
	require.Len(t, s.receiveAll(t, sent), sent)
	r.eventually("pyroscope_write_queue_profiles", 0)
	r.append("last")
	require.Equal(t, "last", s.receive(t).profile)
	require.Eventually(t, func() bool { return advice() == "" }, 2*time.Minute, 5*time.Millisecond, fmt.Sprint(advice()))
}
