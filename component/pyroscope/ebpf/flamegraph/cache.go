package flamegraph

import (
	"context"
	"sync"
	"time"
)

// Limits of the views in memory. A view holds a merged profile, decoded and encoded.
const (
	maxViews    = 3
	maxViewIdle = 5 * time.Minute
)

// viewCache keeps the views in use, so that going from the flame graph to the top
// list does not merge again. It is safe for concurrent use.
type viewCache struct {
	mu    sync.Mutex
	views map[selection]*cachedView

	building sync.Mutex // held while a view is made: one at a time bounds the memory
}

type cachedView struct {
	ready chan struct{} // closed once view and err are set
	view  *view
	err   error
	used  time.Time
}

// get returns the view of s, which build makes if it is not there. Concurrent
// requests for one selection share one build. Failures are not kept.
func (c *viewCache) get(ctx context.Context, s selection, build func() (*view, error)) (*view, error) {
	c.mu.Lock()
	entry, found := c.views[s]
	if !found {
		entry = &cachedView{ready: make(chan struct{})}
		if c.views == nil {
			c.views = make(map[selection]*cachedView)
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
		return nil, ctx.Err()
	}
}

func (c *viewCache) build(s selection, entry *cachedView, build func() (*view, error)) {
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
func (c *viewCache) evict() {
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
func (c *viewCache) expire(now time.Time) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for s, entry := range c.views {
		if now.Sub(entry.used) > maxViewIdle {
			delete(c.views, s)
		}
	}
}
