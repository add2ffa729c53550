package server

import (
	"context"
	"maps"
	"sync"
	"time"
)

// Limits of the views in memory.
const (
	maxAnswerBytes = 1 << 20  // of answers, compressed as they are sent
	maxFoldedBytes = 16 << 20 // of profiles, folded
	maxViewIdle    = 5 * time.Minute
)

// sized is a view that knows its approximate memory use in bytes.
type sized interface{ size() int64 }

// viewCache keeps recently used views, so that switching from the flame graph to the top list does not merge the
// profiles again. It is safe for concurrent use.
type viewCache[V sized] struct {
	maxBytes int64 // the newest view is kept even if it is larger

	mu    sync.Mutex
	views map[string]*cachedView[V]

	measure func(do func()) // calls do, which makes a view, and accounts for the CPU time; may be nil

	building sync.Mutex // held while a view is made: one at a time bounds the memory
}

type cachedView[V sized] struct {
	ready chan struct{} // closed once view and err are set
	view  V
	err   error
	bytes int64 // 0 until ready. Guarded by viewCache.mu
	used  time.Time
}

// getView returns the view with that key. build makes the view if it is not cached. Concurrent requests for one key
// share one build. Failures are not cached.
func (c *viewCache[V]) getView(ctx context.Context, key string, build func() (V, error)) (V, error) {
	c.mu.Lock()
	entry, found := c.views[key]
	if !found {
		entry = &cachedView[V]{ready: make(chan struct{})}
		if c.views == nil {
			c.views = make(map[string]*cachedView[V])
		}
		c.views[key] = entry
		go c.build(key, entry, build)
	}
	entry.used = time.Now()
	c.mu.Unlock()

	select {
	case <-entry.ready:
		return entry.view, entry.err
	case <-ctx.Done():
		var none V
		return none, ctx.Err()
	}
}

func (c *viewCache[V]) build(key string, entry *cachedView[V], build func() (V, error)) {
	defer close(entry.ready)
	c.building.Lock()
	do := func() { entry.view, entry.err = build() }
	if c.measure != nil {
		c.measure(do)
	} else {
		do()
	}
	c.building.Unlock()
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.views[key] != entry {
		return
	}
	if entry.err != nil {
		delete(c.views, key)
		return
	}
	entry.bytes = entry.view.size()
	c.evict(entry)
}

// evict evicts the least recently used views beyond the limit, but never the view but.
func (c *viewCache[V]) evict(but *cachedView[V]) {
	for c.bytes() > c.maxBytes {
		oldest := ""
		for key, entry := range c.views {
			if entry != but && entry.bytes > 0 && (oldest == "" || entry.used.Before(c.views[oldest].used)) {
				oldest = key
			}
		}
		if oldest == "" {
			return
		}
		delete(c.views, oldest)
	}
}

// dropOldest evicts all views that are ready.
func (c *viewCache[V]) dropOldest() {
	c.mu.Lock()
	defer c.mu.Unlock()
	maps.DeleteFunc(c.views, func(_ string, entry *cachedView[V]) bool { return entry.bytes > 0 })
}

// bytes returns the size of all views. The caller holds c.mu.
func (c *viewCache[V]) bytes() (sum int64) {
	for _, entry := range c.views {
		sum += entry.bytes
	}
	return sum
}

// expire evicts views that have not been used recently.
func (c *viewCache[V]) expire(now time.Time) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for key, entry := range c.views {
		if now.Sub(entry.used) > maxViewIdle {
			delete(c.views, key)
		}
	}
}
