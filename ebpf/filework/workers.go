package filework

import (
	"slices"
	"sync"
	"time"

	"github.com/headwater/headwater/ebpf/footprint"
)

// workers let work begin with the priority of who waits for it. A goroutine that runs before others, see
// footprint.RaisePriority, would else wait for its work behind all programs that are busy.
type workers struct {
	mu   sync.Mutex
	idle []chan func() // of goroutines with a high priority
}

// Such a goroutine stays for a while: it has its priority only once it runs, which takes long where CPUs are busy.
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
		go w.run(work)
		return
	}
	w.idle[last] <- work
	w.idle = w.idle[:last]
}

// run runs work, and then what else there is.
func (w *workers) run(work func()) {
	footprint.RaisePriority()
	next, patience := make(chan func(), 1), time.NewTimer(idleFor)
	defer patience.Stop()
	for work != nil {
		work()
		work = w.await(next, patience)
	}
}

// await returns the next work, nil if there is none for a while.
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
