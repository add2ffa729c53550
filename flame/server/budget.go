package server

import (
	"sync"
	"time"
)

// Limits of the cost of live views: 2 % of a CPU in total. About a third of it is not measured, such as garbage
// collection and sending answers.
const (
	liveShare = 0.0125          // of a CPU, for the measured part
	maxPause  = 5 * time.Minute // between two updates of a live view
)

// budget paces live views: the CPU time spent on views is a debt that decreases over time, and live views wait until it
// is paid. Other requests of visitors are answered at once. It is safe for concurrent use; the zero value has no debt.
type budget struct {
	mu   sync.Mutex
	debt time.Duration // CPU time
	at   time.Time     // time at which debt was updated
}

// spend adds CPU time to the debt.
func (b *budget) spend(cpu time.Duration, now time.Time) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.payFor(now)
	b.debt = min(b.debt+cpu, time.Duration(liveShare*float64(maxPause)))
}

// pause returns how long a live view must wait.
func (b *budget) pause(now time.Time) time.Duration {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.payFor(now)
	return time.Duration(float64(b.debt) / liveShare)
}

// payFor reduces the debt according to the time since the last update. The caller holds b.mu.
func (b *budget) payFor(now time.Time) {
	if passed := now.Sub(b.at); passed > 0 {
		b.debt = max(0, b.debt-time.Duration(liveShare*float64(passed)))
		b.at = now
	}
}
