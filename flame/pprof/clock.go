package pprof

import (
	"sync"
	"time"
)

// Clock returns the times of profiles, and never the same time twice for one series. Pyroscope silently drops the
// second of two profiles of a series with the same millisecond, so the builders of one process share one Clock. The
// zero value is ready to use. It is safe for concurrent use.
type Clock struct {
	mu   sync.Mutex
	last map[string]int64 // milliseconds, by series
}

// maxSeries is the number of series at which a Clock drops series without a profile for forgetAfter.
const (
	maxSeries   = 4096
	forgetAfter = int64(time.Hour / time.Millisecond)
)

// Unique returns the nanoseconds since 1970 of t, in whole milliseconds, or the
// first free millisecond after all times returned before for the same series.
func (c *Clock) Unique(series string, t time.Time) int64 {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.last == nil {
		c.last = map[string]int64{}
	}
	now := t.UnixMilli()
	last, ok := c.last[series]
	if ok {
		now = max(last+1, now)
	}
	c.last[series] = now
	if len(c.last) > maxSeries {
		for other, last := range c.last {
			if last < now-forgetAfter {
				delete(c.last, other)
			}
		}
	}
	return now * int64(time.Millisecond)
}
