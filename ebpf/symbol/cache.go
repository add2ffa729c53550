package symbol

import (
	"container/list"
	"maps"
	"runtime/debug"
	"slices"
	"sync"
	"time"

	"github.com/headwater/headwater/ebpf/filework"
	"github.com/headwater/headwater/ebpf/limit"
)

// largeTable is the size of a table, in bytes, whose making takes so much more
// memory, up to ten times, that it is given back to the system at once.
const largeTable = 4 << 20

// tableCache holds the names of executables within a budget of bytes. Those not
// used for the longest time go first.
type tableCache struct {
	budget int
	load   func(*Object) (*names, Status)
	limits *limit.Counter // that readers hit; nil: not counted

	mu     sync.Mutex
	byKey  map[tableKey]*tableEntry
	recent *list.List        // of *tableEntry, the last used in front
	failed map[uint32]Status // objects that could not be read, by ID
	used   int
}

// tableKey is the ID of the object whose file the table is made from.
type tableKey uint32

// tableEntry is the names of an executable, loaded or being loaded.
type tableEntry struct {
	key     tableKey
	path    string // of the object that it was made for
	once    sync.Once
	element *list.Element
	ids     map[uint32]struct{} // of the objects that share it

	// Set by once, under the cache's mutex.
	names  *names // nil if there are none
	status Status
	bytes  int // memory, 0 until the names are loaded

	looked time.Time     // when its debug file was last looked for
	wait   time.Duration // until it is looked for again
}

// entryOverhead is the memory of an entry besides its table.
const entryOverhead = 512

func newTableCache(budget int, load func(*Object) (*names, Status)) *tableCache {
	return &tableCache{budget: budget, load: load, byKey: map[tableKey]*tableEntry{}, recent: list.New(),
		failed: map[uint32]Status{}}
}

// frames returns what is known of an address of an object.
func (c *tableCache) frames(o *Object, at uint64) answer {
	for {
		e := c.get(o)
		if e == nil || e.names == nil {
			return answer{start: at}
		}
		if a, now, ok := e.names.frames(at); ok {
			c.update(e, now)
			return a
		}
	}
}

// get returns the loaded entry of an object, nil if it could not be read: that of its
// source, unless that is not for others.
func (c *tableCache) get(o *Object) *tableEntry {
	e := c.getOf(o, o.source())
	if e != nil && e.alone(o) {
		return c.getOf(o, o)
	}
	return e
}

// alone reports whether an object needs an entry of its own, for the names of its source
// are of a debug file that is not for others, or the source has none: without a build ID,
// that is found next to the object only.
func (e *tableEntry) alone(o *Object) bool {
	return o.source() != o && (e.status.own || e.status.missing != nil && o.BuildID == "")
}

// getOf returns the loaded entry of a source for an object, nil if it could not be read.
// Callers that come while it is being loaded wait for it, and load it themselves if
// another object with the same source could not be read.
func (c *tableCache) getOf(o, source *Object) *tableEntry {
	for {
		e := c.entry(o, source)
		if e == nil {
			return nil
		}
		mine := false
		e.once.Do(func() {
			mine = true
			n, status := c.load(source)
			c.loaded(e, o.ID, n, status)
			if status.Bytes > largeTable {
				debug.FreeOSMemory()
			}
		})
		if mine || e.status.Reason != Unreadable {
			return e
		}
	}
}

// entry finds or makes the entry of a source for an object; nil if it could not be read
// before.
func (c *tableCache) entry(o, source *Object) *tableEntry {
	key := tableKey(source.ID)
	c.mu.Lock()
	defer c.mu.Unlock()
	if e := c.byKey[key]; e != nil {
		c.recent.MoveToFront(e.element)
		e.ids[o.ID] = struct{}{}
		return e
	}
	if _, failed := c.failed[o.ID]; failed {
		return nil
	}
	e := &tableEntry{key: key, path: source.Path, ids: map[uint32]struct{}{o.ID: {}}}
	e.element = c.recent.PushFront(e)
	c.byKey[key] = e
	return e
}

// loaded records a result and drops what exceeds the budget. That a file could
// not be read is remembered for the object alone: another with the same source may
// have better luck.
func (c *tableCache) loaded(e *tableEntry, id uint32, n *names, status Status) {
	c.mu.Lock()
	defer c.mu.Unlock()
	e.names, e.status = n, status
	c.limits.Note(status.Err)
	if c.byKey[e.key] != e {
		if n != nil {
			n.close() // forgotten meanwhile
		}
		return
	}
	if status.Reason == Unreadable {
		c.remove(e)
		c.failed[id] = status
		return
	}
	c.account(e, status.Bytes)
}

// trim gives back memory of all tables that nobody reads between two collections.
func (c *tableCache) trim() {
	c.mu.Lock()
	var all []*names
	for _, e := range c.byKey {
		if e.names != nil {
			all = append(all, e.names)
		}
	}
	c.mu.Unlock()
	for _, n := range all {
		n.trim()
	}
}

// update records how the names of e stand after use.
func (c *tableCache) update(e *tableEntry, now usage) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.byKey[e.key] != e {
		return
	}
	if now.problem != nil { // which stays when the sources are dropped
		if e.status.DebugInfo == nil {
			c.limits.Note(now.problem)
		}
		e.status.DebugInfo = now.problem
	}
	if e.status.Bytes != now.bytes {
		c.account(e, now.bytes)
	}
}

// problems returns what is missing or damaged of debug info, by the path of the
// object that was seen with it first.
func (c *tableCache) problems() map[string]error {
	c.mu.Lock()
	defer c.mu.Unlock()
	found := map[string]error{}
	for _, e := range c.byKey {
		if e.bytes > 0 && e.status.DebugInfo != nil {
			found[e.path] = e.status.DebugInfo
		}
	}
	return found
}

// account sets the memory of e and drops what exceeds the budget.
func (c *tableCache) account(e *tableEntry, bytes int) {
	e.status.Bytes = bytes
	c.used += bytes + entryOverhead - e.bytes
	e.bytes = bytes + entryOverhead
	c.shrink(e)
}

// shrink drops what exceeds the budget, but for the entry keep.
func (c *tableCache) shrink(keep *tableEntry) {
	for c.used > c.budget {
		last := c.oldest(keep)
		if last == nil {
			return
		}
		c.remove(last)
	}
}

// oldest returns the loaded entry that was not used for the longest time and is
// not keep.
func (c *tableCache) oldest(keep *tableEntry) *tableEntry {
	for el := c.recent.Back(); el != nil; el = el.Prev() {
		if e := el.Value.(*tableEntry); e != keep && e.bytes > 0 {
			return e
		}
	}
	return nil
}

func (c *tableCache) remove(e *tableEntry) {
	delete(c.byKey, e.key)
	c.recent.Remove(e.element)
	c.used -= e.bytes
	e.bytes = 0
	if e.names != nil {
		e.names.close()
	}
}

// forget drops what belongs to the object alone.
func (c *tableCache) forget(id uint32) {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.failed, id)
	for _, e := range c.byKey {
		delete(e.ids, id)
	}
	if e := c.byKey[tableKey(id)]; e != nil {
		c.remove(e)
	}
}

// takeScarce forgets that objects could not be read when file descriptors or memory ran out, and returns their IDs.
func (c *tableCache) takeScarce() (ids []uint32) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for id, status := range c.failed {
		if filework.Scarce(status.Err) {
			delete(c.failed, id)
			ids = append(ids, id)
		}
	}
	return ids
}

// missing returns the entries whose debug file is to be looked for again, and
// those due for more than asking whether it was fetched.
func (c *tableCache) missing(now time.Time) (all, due []*tableEntry) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, e := range c.byKey {
		if e.bytes == 0 || e.status.missing == nil {
			continue
		}
		all = append(all, e)
		if e.wait == 0 {
			e.looked, e.wait = now, firstLook
		}
		if now.Sub(e.looked) >= e.wait {
			e.looked, e.wait = now, min(2*e.wait, lastLook)
			due = append(due, e)
		}
	}
	return all, due
}

// drop removes an entry and returns the objects that shared it.
func (c *tableCache) drop(e *tableEntry) (ids []uint32) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.byKey[e.key] != e {
		return nil
	}
	c.remove(e)
	return slices.Collect(maps.Keys(e.ids))
}

func (c *tableCache) setFetch(e *tableEntry, err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	e.status.Fetch = err
}

func (c *tableCache) status(o *Object) (Status, bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	e := c.byKey[tableKey(o.source().ID)]
	if e != nil && e.bytes > 0 && e.alone(o) {
		e = c.byKey[tableKey(o.ID)]
	}
	if e != nil && e.bytes > 0 {
		return e.status, true
	}
	status, ok := c.failed[o.ID]
	return status, ok
}

// setBudget changes the budget, and drops what exceeds it.
func (c *tableCache) setBudget(bytes int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.budget = bytes
	c.shrink(nil)
}

func (c *tableCache) size() (tables, bytes int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return len(c.byKey), c.used
}

// frameCache remembers the names of addresses. When it is half full, what was
// asked for since the last time that happened stays, and the rest goes.
type frameCache struct {
	half int

	mu         sync.Mutex
	young, old generation
	forgotten  map[uint32]bool // objects of which names were forgotten, see Symbolizer.Forgotten
}

// generation is a part of the cache.
type generation struct {
	frames map[uint32]map[uint64][]Frame // by object and address
	count  int
}

func newGeneration() generation { return generation{frames: map[uint32]map[uint64][]Frame{}} }

func (g *generation) put(id uint32, at uint64, frames []Frame) {
	m := g.frames[id]
	if m == nil {
		m = map[uint64][]Frame{}
		g.frames[id] = m
	}
	if _, ok := m[at]; !ok {
		g.count++
	}
	m[at] = frames
}

func (g *generation) forget(id uint32) {
	g.count -= len(g.frames[id])
	delete(g.frames, id)
}

func newFrameCache(size int) *frameCache {
	return &frameCache{
		half: max(size/2, 1), young: newGeneration(), old: newGeneration(), forgotten: map[uint32]bool{},
	}
}

// setSize changes how many addresses are remembered; those that are too many go.
func (c *frameCache) setSize(size int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.half = max(size/2, 1)
	if c.old.count > c.half {
		c.old = newGeneration()
	}
	if c.young.count > c.half {
		c.young = newGeneration()
	}
}

func (c *frameCache) get(id uint32, at uint64) []Frame {
	c.mu.Lock()
	defer c.mu.Unlock()
	if frames := c.young.frames[id][at]; frames != nil {
		return frames
	}
	frames := c.old.frames[id][at]
	if frames != nil {
		c.add(id, at, frames)
	}
	return frames
}

func (c *frameCache) put(id uint32, at uint64, frames []Frame) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.add(id, at, frames)
}

func (c *frameCache) add(id uint32, at uint64, frames []Frame) {
	if c.young.count >= c.half {
		c.old, c.young = c.young, newGeneration()
	}
	c.young.put(id, at, frames)
}

func (c *frameCache) forget(id uint32) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.young.forget(id)
	c.old.forget(id)
	c.forgotten[id] = true
}

// takeForgotten returns the objects that forget was called for since the last call.
func (c *frameCache) takeForgotten() map[uint32]bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	taken := c.forgotten
	c.forgotten = map[uint32]bool{}
	return taken
}

func (c *frameCache) size() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.young.count + c.old.count
}
