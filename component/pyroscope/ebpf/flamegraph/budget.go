package flamegraph

import (
	"sync"
	"time"
)

// Limits of what live views cost: all together 2 % of a CPU. A third of that is what is not counted, such as to collect
// the garbage and to send answers.
const (
	liveShare = 0.0125          // of a CPU, of what is counted
	maxPause  = 5 * time.Minute // between two pictures of one
)

// budget paces live views: what has been made for views is a debt that time pays off, and live views wait for that.
// What a visitor asks for is answered at once. It is safe for concurrent use; the zero value owes nothing.
type budget struct {
	mu   sync.Mutex
	debt time.Duration // CPU time
	at   time.Time     // when it was as much
}

// spend adds CPU time to the debt.
func (b *budget) spend(cpu time.Duration, now time.Time) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.pay(now)
	b.debt = min(b.debt+cpu, time.Duration(liveShare*float64(maxPause)))
}

// pause returns how long a live view waits.
func (b *budget) pause(now time.Time) time.Duration {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.pay(now)
	return time.Duration(float64(b.debt) / liveShare)
}

// pay takes off the debt what the time since then is good for. The caller holds b.mu.
func (b *budget) pay(now time.Time) {
	if passed := now.Sub(b.at); passed > 0 {
		b.debt = max(0, b.debt-time.Duration(liveShare*float64(passed)))
		b.at = now
	}
}
