package sampler

import (
	"slices"
	"sync"

	"github.com/headwater/headwater/ebpf/clock"
	"github.com/headwater/headwater/ebpf/kernel"
	"github.com/headwater/headwater/ebpf/unwind"
)

// maxGaps bounds how many times of lost side-band records are remembered.
const maxGaps = 64

// gaps are the times for which side-band records were lost: what began then may be unknown
// until it ends.
type gaps struct {
	mu    sync.Mutex
	times []gap // the newest last
	lost  uint64
}

type gap struct{ since, until uint64 }

// add notes a record that reports lost ones.
func (g *gaps) add(r *kernel.Record) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.lost += r.Count
	if n := len(g.times); n > 0 && r.Since <= g.times[n-1].until { // the same, or one that goes on
		g.times[n-1].since, g.times[n-1].until = min(r.Since, g.times[n-1].since), max(r.Time, g.times[n-1].until)
		return
	}
	if len(g.times) == maxGaps {
		g.times = slices.Delete(g.times, 0, 1)
	}
	g.times = append(g.times, gap{since: r.Since, until: r.Time})
}

// cover reports whether records of a time were lost.
func (g *gaps) cover(time uint64) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	return slices.ContainsFunc(g.times, func(t gap) bool { return t.since <= time && time <= t.until })
}

// late is the age, in ns, from which on a sample comes too late: processes may have ended
// meanwhile, and what they had mapped cannot be opened any more.
const late = 3e9

// blame gives a stack the outcome that says so if it ended because records were lost, or
// because nobody read them in time.
func (g *gaps) blame(s *kernel.Sample) {
	if s.Outcome != unwind.ProcessUnknown && s.Outcome != unwind.NoMapping {
		return
	}
	if g.cover(s.Time) || s.Time+late < clock.Monotonic() {
		s.Outcome = unwind.RecordsLost
	}
}

// lostRecords is how many side-band records were lost, as far as the kernel has reported.
func (g *gaps) lostRecords() uint64 {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.lost
}
