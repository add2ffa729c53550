package process

import "sync"

// If walks keep missing pages of an executable, they will miss neighbouring pages next: a program often runs code of a
// few source files, whose functions are next to each other. A miss costs a copy of a stack and a wakeup, many times the
// cost of building one more page. So after some misses, the pages around each missed page are built when the profiler
// is idle, and more pages after many misses.
const (
	someMissed = 8
	manyMissed = 64
	fewAround  = 8 // pages including the missed one, a power of two
	manyAround = 16

	// maxStretches bounds the queued stretches.
	maxStretches = 256
)

// stretch is a range of consecutive pages of an image.
type stretch struct {
	image      *image
	first, end uint64
}

// stretches is the queue of stretches that are worth building. Safe for concurrent use.
type stretches struct {
	mu      sync.Mutex
	waiting []stretch
}

// addStretch queues a stretch. It drops the stretch if the queue is full: walks will miss its pages again.
func (s *stretches) addStretch(one stretch) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.waiting) < maxStretches {
		s.waiting = append(s.waiting, one)
	}
}

// takeStretch removes a stretch from the queue and returns it, the latest one first.
func (s *stretches) takeStretch() (one stretch, ok bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	last := len(s.waiting) - 1
	if last < 0 {
		return one, false
	}
	one = s.waiting[last]
	s.waiting[last] = stretch{}
	s.waiting = s.waiting[:last]
	return one, true
}

// around returns the stretch that is worth building because a page was missed. The caller holds i.building.
func (i *image) around(page uint64) (s stretch, ok bool) {
	i.missed++
	size := uint64(manyAround)
	switch {
	case i.elf == nil || i.missed < someMissed: // generated code changes
		return s, false
	case i.missed < manyMissed:
		size = fewAround
	}
	first := page - page%size
	return stretch{i, first, first + size}, true
}

// BuildAhead builds some pages that walks are likely to miss next, and reports whether there may be more to build. Call
// it when no other work waits.
func (t *Tracker) BuildAhead() bool {
	s, ok := t.ahead.takeStretch()
	if ok {
		s.build(t.store)
	}
	return ok
}

// build makes the missing pages of the stretch resident, if there is memory for them. If a page cannot be read or
// stored, build leaves the rest to the walks that need them.
func (s *stretch) build(store Store) {
	i := s.image
	i.building.Lock()
	defer i.building.Unlock()
	if i.closed {
		return
	}
	for _, page := range store.Unbuilt(i.directory, s.first, s.end) {
		p, err := i.rows.Page(page, i.directory.Shift)
		if err != nil || store.SetPage(i.directory, page, p) != nil {
			return
		}
	}
}
