package sampler

import (
	"slices"
	"sync"

	"github.com/headwater/headwater/ebpf/common/clock"
	"github.com/headwater/headwater/ebpf/kernel"
	"github.com/headwater/headwater/ebpf/unwind"
)

// maxGaps bounds the number of gaps that are remembered.
const maxGaps = 64

// gaps are the times in which side-band records were lost. A process or mapping that started in a gap may be unknown
// until it ends.
type gaps struct {
	mu    sync.Mutex
	times []gap // the newest last
	lost  uint64
}

type gap struct{ since, until uint64 }

// addRecord notes a record that reports lost records.
func (g *gaps) addRecord(r *kernel.Record) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.lost += r.Count
	if n := len(g.times); n > 0 && r.Since <= g.times[n-1].until { // the same gap, or its continuation
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

// late is the age, in ns, from which on a sample is too late: its process may have ended, so that the files that it had
// mapped can no longer be opened.
const late = 3e9

// blame sets the outcome RecordsLost if a stack ended because records were lost, or because they were not read in time.
func (g *gaps) blame(s *kernel.Sample) {
	if s.Outcome != unwind.ProcessUnknown && s.Outcome != unwind.NoMapping {
		return
	}
	if g.cover(s.Time) || s.Time+late < clock.Monotonic() {
		s.Outcome = unwind.RecordsLost
	}
}

// lostRecords returns how many side-band records were lost, as far as the kernel has reported.
func (g *gaps) lostRecords() uint64 {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.lost
}
