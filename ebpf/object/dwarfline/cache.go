package dwarfline

import (
	"container/list"
	"errors"
)

// hitUnit is a unit in which an address was looked up.
type hitUnit struct {
	root      *unit // in the executable
	entries   *unit // with the functions: root, or the split unit if root is a skeleton
	functions []piece
	lines     *lineTable // nil if there are none
	err       error      // of the first part that could not be read
}

func (h *hitUnit) bytes() int {
	n := unitSize + h.root.bytes() + cap(h.functions)*pieceSize
	if h.entries != h.root {
		n += h.entries.bytes()
	}
	if h.lines != nil {
		n += h.lines.bytes()
	}
	return n
}

const unitSize = 1024

func (u *unit) bytes() int {
	n := unitSize
	if u.abbrevs != nil {
		n += u.abbrevs.bytes
	}
	return n
}

// unitCache holds units within a budget of bytes. It evicts the least recently used unit first.
type unitCache struct {
	budget, used int
	byPlace      map[place]*list.Element
	recent       *list.List // of *cached, most recently used first
}

// place identifies a unit.
type place struct {
	file *file
	at   uint64
	hit  bool // a hitUnit, not only a unit that other units refer to
}

// cached is a unit in the cache.
type cached struct {
	place
	unit  *unit    // unless hit
	whole *hitUnit // if hit
	err   error    // set if there is neither
	bytes int
}

func newUnitCache(budget int) *unitCache {
	return &unitCache{budget: budget, byPlace: map[place]*list.Element{}, recent: list.New()}
}

func (c *unitCache) getUnit(p place) *cached {
	e := c.byPlace[p]
	if e == nil {
		return nil
	}
	c.recent.MoveToFront(e)
	return e.Value.(*cached)
}

// putUnit adds a unit and evicts units until the budget is met, but never the unit just added.
func (c *unitCache) putUnit(e *cached) {
	c.byPlace[e.place] = c.recent.PushFront(e)
	c.used += e.bytes
	for c.used > c.budget && c.recent.Len() > 1 {
		c.dropUnit(c.recent.Back())
	}
}

func (c *unitCache) dropUnit(element *list.Element) {
	e := element.Value.(*cached)
	c.recent.Remove(element)
	delete(c.byPlace, e.place)
	c.used -= e.bytes
	if e.whole != nil {
		e.whole.close()
	}
}

func (c *unitCache) clear() {
	for c.recent.Len() > 0 {
		c.dropUnit(c.recent.Back())
	}
}

// readUnit returns a unit that is the target of a reference.
func (c *unitCache) readUnit(f *file, at uint64, w *work) (*unit, error) {
	p := place{file: f, at: at}
	if e := c.getUnit(p); e != nil {
		return e.unit, e.err
	}
	u, err := readUnit(f, at, false, w)
	if err != nil {
		if !errors.Is(err, ErrTooMuchWork) { // earlier steps of the lookup may have used the work
			c.putUnit(&cached{place: p, err: err, bytes: unitSize})
		}
		return nil, err
	}
	c.putUnit(&cached{place: p, unit: u, bytes: u.bytes()})
	return u, nil
}

// hitUnitAt returns the unit at an offset of the executable's .debug_info, ready for lookups.
func (d *Data) hitUnitAt(at uint64, w *work) (*hitUnit, error) {
	p := place{file: d.main, at: at, hit: true}
	if e := d.cache.getUnit(p); e != nil {
		return e.whole, e.err
	}
	h, err := d.loadUnit(at, w)
	if err != nil {
		d.cache.putUnit(&cached{place: p, err: err, bytes: unitSize})
		return nil, err
	}
	d.cache.putUnit(&cached{place: p, whole: h, bytes: h.bytes()})
	d.read += h.root.end - h.root.at
	if h.lines != nil {
		d.read += uint64(len(h.lines.data)) - h.lines.program
	}
	return h, nil
}

// loadUnit reads a unit's abbreviations, functions and lines.
func (d *Data) loadUnit(at uint64, w *work) (*hitUnit, error) {
	root, err := readUnit(d.main, at, false, w)
	if err != nil {
		return nil, err
	}
	h := &hitUnit{root: root, entries: root}
	if v, ok := root.root.getField(fieldStmtList); ok {
		h.lines, h.err = readLineTable(root, v.n)
		if h.err == nil {
			h.err = h.lines.findSequences(w)
		}
	}
	if _, ok := root.root.getField(fieldDwoName); ok {
		split, err := d.splitOf(root, w)
		h.err = firstError(h.err, err)
		if split == nil {
			return h, nil
		}
		h.entries = split
	}
	h.functions, err = h.entries.functions(w)
	h.err = firstError(h.err, err)
	return h, nil
}

func (h *hitUnit) close() {
	if h.entries != h.root && h.entries.owned {
		h.entries.file.close()
	}
}
