package server

import (
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/headwater/headwater/flame/server/archive"
)

// maxLineValues bounds the cached timelines: values of a name in an interval, about 64 bytes each.
const maxLineValues = 50_000

// pastLines caches timelines of rounds on disk: the next timeline of the same selection reads only the new rounds. It
// is safe for concurrent use.
type pastLines struct {
	mu    sync.Mutex // held while a timeline is read: one at a time bounds the memory
	lines map[string]*pastLine
}

// pastLine is a cached timeline.
type pastLine struct {
	timeline
	rounds []archive.Round // rounds of the timeline
	used   time.Time
}

// getTimeline returns the timeline of rounds. read adds rounds to it. The key contains everything that the timeline
// depends on.
func (l *pastLines) getTimeline(key string, all []archive.Round, read func(*timeline, []archive.Round) error) (
	timeline, error) {
	if len(all) == 0 {
		return newTimeline(), nil
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	line := l.lines[key]
	if line == nil || !line.leadsTo(all) {
		line = &pastLine{timeline: newTimeline()}
	}
	delete(l.lines, key) // if reading fails, the timeline is incomplete
	if err := read(&line.timeline, all[len(line.rounds):]); err != nil {
		return timeline{}, err
	}
	line.rounds, line.used = all, time.Now()
	if l.makeRoom(line.values()) {
		if l.lines == nil {
			l.lines = map[string]*pastLine{}
		}
		l.lines[key] = line
	}
	return line.clone(), nil
}

// leadsTo reports whether a timeline of all rounds starts with this one. If so, it removes earlier intervals.
func (l *pastLine) leadsTo(all []archive.Round) bool {
	gone := slices.Index(l.rounds, all[0])
	if gone < 0 || len(all) < len(l.rounds)-gone || !slices.Equal(l.rounds[gone:], all[:len(l.rounds)-gone]) {
		return false
	}
	l.rounds = l.rounds[gone:]
	l.bins = slices.DeleteFunc(l.bins, func(b *bin) bool { return b.to < all[0].End })
	return true
}

// values returns the number of values in a timeline.
func (t *timeline) values() (n int) {
	for _, b := range t.bins {
		n += 1 + len(b.by)
	}
	return n
}

// makeRoom evicts the least recently used timelines until values more fit. It reports whether they fit. The caller
// holds l.mu.
func (l *pastLines) makeRoom(values int) bool {
	for _, line := range l.lines {
		values += line.values()
	}
	for values > maxLineValues && len(l.lines) > 0 {
		oldest := slices.MinFunc(slices.Collect(maps.Keys(l.lines)), func(a, b string) int {
			return l.lines[a].used.Compare(l.lines[b].used)
		})
		values -= l.lines[oldest].values()
		delete(l.lines, oldest)
	}
	return values <= maxLineValues
}

// expire evicts timelines that have not been used recently.
func (l *pastLines) expire(now time.Time) {
	if !l.mu.TryLock() {
		return // a timeline is being read, which may take long
	}
	defer l.mu.Unlock()
	maps.DeleteFunc(l.lines, func(_ string, line *pastLine) bool { return now.Sub(line.used) > maxViewIdle })
}
