package ebpf

import (
	"sync"
	"time"
)

// status is the state of a component that debug info and its page show, in addition to the figures in metrics.
type status struct {
	args    Settings  // the newest
	targets []string  // usable targets of args
	started time.Time // of the session; zero if none runs
	rate    int       // current samples per second and CPU; 0: no session has started
	cost    cost      // of profiling in the last round; 0 without a limit
	memory  int64     // bytes that profiling took at the end of the last round
}

// statusBoard holds the published status. It is safe for concurrent use.
type statusBoard struct {
	mu      sync.Mutex
	current status
}

// publish applies a change to the status. change must not call the board.
func (b *statusBoard) publish(change func(*status)) {
	b.mu.Lock()
	defer b.mu.Unlock()
	change(&b.current)
}

// readStatus returns a copy of the current status.
func (b *statusBoard) readStatus() status {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.current
}
