package flamegraph

import (
	"context"
	"sync"
	"time"
)

// Limits of the views in memory. One of pprof's holds a merged profile, decoded and encoded; a
// flame graph holds what is sent to the browser.
const (
	maxViews    = 3
	maxViewIdle = 5 * time.Minute
)

// viewCache keeps the views in use, so that going from the flame graph to the top
// list does not merge again. It is safe for concurrent use.
type viewCache[V any] struct {
	mu    sync.Mutex
	views map[selection]*cachedView[V]

	building sync.Mutex // held while a view is made: one at a time bounds the memory
}

type cachedView[V any] struct {
	ready chan struct{} // closed once view and err are set
	view  V
	err   error
	used  time.Time
}

// get returns the view of s, which build makes if it is not there. Concurrent
// requests for one selection share one build. Failures are not kept.
func (c *viewCache[V]) get(ctx context.Context, s selection, build func() (V, error)) (V, error) {
	c.mu.Lock()
	entry, found := c.views[s]
	if !found {
		entry = &cachedView[V]{ready: make(chan struct{})}
		if c.views == nil {
			c.views = make(map[selection]*cachedView[V])
		}
		c.views[s] = entry
		go c.build(s, entry, build)
	}
	entry.used = time.Now()
	c.evict()
	c.mu.Unlock()

	select {
	case <-entry.ready:
		return entry.view, entry.err
	case <-ctx.Done():
		var none V
		return none, ctx.Err()
	}
}

func (c *viewCache[V]) build(s selection, entry *cachedView[V], build func() (V, error)) {
	c.building.Lock()
	entry.view, entry.err = build()
	c.building.Unlock()
	close(entry.ready)
	if entry.err != nil {
		c.mu.Lock()
		defer c.mu.Unlock()
		if c.views[s] == entry {
			delete(c.views, s)
		}
	}
}

// evict forgets the views least recently used beyond the limit.
func (c *viewCache[V]) evict() {
	for len(c.views) > maxViews {
		var oldest selection
		var at time.Time
		for s, entry := range c.views {
			if at.IsZero() || entry.used.Before(at) {
				oldest, at = s, entry.used
			}
		}
		delete(c.views, oldest)
	}
}

// expire forgets the views that were not looked at for a while.
func (c *viewCache[V]) expire(now time.Time) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for s, entry := range c.views {
		if now.Sub(entry.used) > maxViewIdle {
			delete(c.views, s)
		}
	}
}
