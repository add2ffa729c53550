package process

import "sync"

// Walks that miss a page of an executable again and again will miss its neighbours next: what a program does is often
// in a few of its source files, whose functions lie next to each other. A miss costs the copy of a stack and waking up,
// many times what it takes to build the page after another. So where walks have missed some pages, those around the
// next one are built when there is nothing else to do, and more of them where walks have missed many.
const (
	someMissed = 8
	manyMissed = 64
	fewAround  = 8 // pages with the missed one, a power of two
	manyAround = 16

	// maxStretches bounds those that wait.
	maxStretches = 256
)

// stretch is pages of an image that lie next to each other.
type stretch struct {
	image      *image
	first, end uint64
}

// stretches are those that are worth building. Safe for concurrent use.
type stretches struct {
	mu      sync.Mutex
	waiting []stretch
}

// add adds a stretch, unless there are too many: walks will miss it again.
func (s *stretches) add(one stretch) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.waiting) < maxStretches {
		s.waiting = append(s.waiting, one)
	}
}

// take returns a stretch, the one that was wanted last first.
func (s *stretches) take() (one stretch, ok bool) {
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

// around returns the stretch that is worth building because a page was missed. i.building is held.
func (i *image) around(page uint64) (s stretch, ok bool) {
	i.missed++
	size := uint64(manyAround)
	switch {
	case i.elf == nil || i.missed < someMissed: // code that is made while it runs changes
		return s, false
	case i.missed < manyMissed:
		size = fewAround
	}
	first := page - page%size
	return stretch{i, first, first + size}, true
}

// BuildAhead builds some pages that walks are likely to want next, and reports whether there may be more to build. It
// is for when nobody waits for anything else.
func (t *Tracker) BuildAhead() bool {
	s, ok := t.ahead.take()
	if ok {
		s.build(t.store)
	}
	return ok
}

// build makes those of the pages resident that are not, if there is memory for it. What cannot be read or stored is
// left to the walks that want it.
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
