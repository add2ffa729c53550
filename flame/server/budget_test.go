package server

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// TestBudget: live views wait until the debt is paid, and not longer.
func TestBudget(t *testing.T) {
	var b budget
	now := time.Unix(1_700_000_000, 0)
	require.Zero(t, b.pause(now))
	b.spend(200*time.Millisecond, now)
	require.Equal(t, 16*time.Second, b.pause(now))
	require.Equal(t, 12*time.Second, b.pause(now.Add(4*time.Second)))
	b.spend(200*time.Millisecond, now.Add(4*time.Second))
	require.Equal(t, 28*time.Second, b.pause(now.Add(4*time.Second)))
	require.Zero(t, b.pause(now.Add(time.Minute)))
	b.spend(time.Hour, now.Add(time.Minute))
	require.Equal(t, maxPause, b.pause(now.Add(time.Minute)), "who looks is not forgotten")
}

// TestBudgetBoundsLiveViews: however many live views there are and whatever each costs, together they take the share
// of a CPU that they may. What costs little is shown each interval.
func TestBudgetBoundsLiveViews(t *testing.T) {
	const interval = 15 * time.Second
	for _, test := range []struct {
		views int
		each  time.Duration
	}{{1, 10 * time.Millisecond}, {1, time.Second}, {10, 20 * time.Millisecond}, {10, 200 * time.Millisecond}} {
		var b budget
		begin := time.Unix(1_700_000_000, 0)
		next := make([]time.Duration, test.views)
		made := 0
		for at := time.Duration(0); at < 2*time.Hour; at += 100 * time.Millisecond {
			for i := range next {
				if next[i] > at {
					continue
				}
				now := begin.Add(at)
				b.spend(test.each, now)
				made++
				next[i] = at + max(interval, b.pause(now))
			}
		}
		share := float64(made) * test.each.Seconds() / (2 * time.Hour).Seconds()
		what := fmt.Sprintf("%d views of %s: %.4f of a CPU", test.views, test.each, share)
		require.LessOrEqual(t, share, liveShare*1.1, what)
		if float64(test.views)*test.each.Seconds() < liveShare*interval.Seconds()*0.9 {
			require.InDelta(t, float64(test.views)*(2*time.Hour).Seconds()/interval.Seconds(), made, 10, what)
		}
	}
}
