package tablestore

import "time"

// residentPages is the set of resident pages of rows. They are on the ring of a clock algorithm, which gives each page
// a second chance before eviction.
type residentPages struct {
	byEntry map[uint32]*residentPage
	ring    []*residentPage
	hand    int
	rows    int // of all pages
	words   int // of all pages, with their wide rules
}

type residentPage struct {
	run
	rows  int
	entry uint32    // word of the directory entry
	index int       // in ring
	used  time.Time // when it was set, or last found accessed
}

func newResidentPages() residentPages { return residentPages{byEntry: map[uint32]*residentPage{}} }

func (p *residentPages) len() int { return len(p.ring) }

func (p *residentPages) hasPage(entry uint32) bool { return p.byEntry[entry] != nil }

// setPage records the location of a page's rows, and returns the old location.
func (p *residentPages) setPage(entry uint32, r run, rows int) (old run) {
	p.rows, p.words = p.rows+rows, p.words+int(r.words)
	if page := p.byEntry[entry]; page != nil {
		p.rows, p.words = p.rows-page.rows, p.words-int(page.words)
		old, page.run, page.rows, page.used = page.run, r, rows, time.Now()
		return old
	}
	page := &residentPage{run: r, rows: rows, entry: entry, index: len(p.ring), used: time.Now()}
	p.byEntry[entry] = page
	p.ring = append(p.ring, page)
	return run{}
}

// remove forgets a page, and returns the location of its rows.
func (p *residentPages) remove(entry uint32) run {
	page := p.byEntry[entry]
	p.rows, p.words = p.rows-page.rows, p.words-int(page.words)
	delete(p.byEntry, entry)
	last := len(p.ring) - 1
	p.ring[page.index] = p.ring[last]
	p.ring[page.index].index = page.index
	p.ring[last] = nil
	p.ring = p.ring[:last]
	return page.run
}

// victim returns a page with rows that was not accessed since the hand last passed it. accessed returns and clears the
// accessed mark of a page.
func (p *residentPages) victim(accessed func(entry uint32) bool) (entry uint32, ok bool) {
	for range 2 * len(p.ring) {
		if p.hand >= len(p.ring) {
			p.hand = 0
		}
		page := p.ring[p.hand]
		p.hand++
		if page.words > 0 && !page.inUse(accessed) {
			return page.entry, true
		}
	}
	return 0, false
}

// unused returns the pages with rows that have not been accessed since a time.
func (p *residentPages) unused(since time.Time, accessed func(entry uint32) bool) (entries []uint32) {
	for _, page := range p.ring {
		if page.words > 0 && !page.inUse(accessed) && page.used.Before(since) {
			entries = append(entries, page.entry)
		}
	}
	return entries
}

// inUse reports whether the page was accessed since the last call.
func (p *residentPage) inUse(accessed func(entry uint32) bool) bool {
	if !accessed(p.entry) {
		return false
	}
	p.used = time.Now()
	return true
}
