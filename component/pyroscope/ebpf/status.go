package ebpf

import (
	"sync"
	"time"
)

// status is what a component shows of itself, in debug info and on its page, next to its
// figures, which are in metrics.
type status struct {
	args    Settings  // the newest
	targets []string  // usable ones of args
	started time.Time // of the session; zero if none runs
	rate    int       // samples per second and CPU now; 0: no session has begun
	cost    cost      // of profiling in the last round; 0 without a limit
	memory  int64     // bytes that profiling took at the end of the last round
}

// statusBoard holds the published status. It is safe for concurrent use.
type statusBoard struct {
	mu      sync.Mutex
	current status
}

// publish makes a change to the status, which must not call the board.
func (b *statusBoard) publish(change func(*status)) {
	b.mu.Lock()
	defer b.mu.Unlock()
	change(&b.current)
}

// read returns the status as it is now, for the caller to keep.
func (b *statusBoard) read() status {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.current
}
