package filework

import (
	"slices"
	"sync"
	"time"

	"github.com/headwater/headwater/ebpf/host/footprint"
)

// workers start work with the priority of the goroutine that waits for it. Otherwise, the work of a goroutine with a
// high priority, see footprint.RaisePriority, would get a CPU only after all busy programs.
type workers struct {
	mu   sync.Mutex
	idle []chan func() // of goroutines with a high priority
}

// An idle goroutine is kept for some time. A new goroutine gets its priority only after it runs, which takes long if
// CPUs are busy.
const (
	maxIdle = 2
	idleFor = 2 * time.Second
)

// start runs work on another goroutine.
func (w *workers) start(work func()) {
	if !footprint.Raised() {
		go work()
		return
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	last := len(w.idle) - 1
	if last < 0 {
		go w.runWork(work)
		return
	}
	w.idle[last] <- work
	w.idle = w.idle[:last]
}

// runWork runs work, and then further work.
func (w *workers) runWork(work func()) {
	footprint.RaisePriority()
	next, patience := make(chan func(), 1), time.NewTimer(idleFor)
	defer patience.Stop()
	for work != nil {
		work()
		work = w.await(next, patience)
	}
}

// await returns the next work, or nil if none comes for a while.
func (w *workers) await(next chan func(), patience *time.Timer) func() {
	w.mu.Lock()
	if len(w.idle) >= maxIdle {
		w.mu.Unlock()
		return nil
	}
	w.idle = append(w.idle, next)
	w.mu.Unlock()
	patience.Reset(idleFor)
	select {
	case work := <-next:
		return work
	case <-patience.C:
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if i := slices.Index(w.idle, next); i >= 0 {
		w.idle = slices.Delete(w.idle, i, i+1)
		return nil
	}
	return <-next // it came just now
}
