package symbol

import (
	"container/list"
	"maps"
	"runtime/debug"
	"slices"
	"sync"
	"time"

	"github.com/headwater/headwater/ebpf/common/limit"
	"github.com/headwater/headwater/ebpf/host/filework"
)

// largeTable is the size of a table in bytes above which freed memory is returned to the system at once: building a
// table takes up to ten times its size.
const largeTable = 4 << 20

// tableCache holds the names of executables within a budget of bytes. It evicts the least recently used names first.
type tableCache struct {
	budget int
	load   func(*Object) (*names, Status)
	limits *limit.Counter // counts limits that readers hit; nil if not counted

	mu     sync.Mutex
	byKey  map[tableKey]*tableEntry
	recent *list.List        // of *tableEntry, the most recently used in front
	failed map[uint32]Status // status of unreadable objects, by ID
	used   int
}

// tableKey is the ID of the object whose file the table is made from.
type tableKey uint32

// tableEntry is the names of an executable, loaded or being loaded.
type tableEntry struct {
	key     tableKey
	path    string // of the object for which it was made
	once    sync.Once
	element *list.Element
	ids     map[uint32]struct{} // of the objects that share the entry

	// Set by once, under the cache's mutex.
	names  *names // nil if there are none
	status Status
	bytes  int // memory, 0 until the names are loaded

	looked time.Time     // when its debug file was last searched
	wait   time.Duration // until the next search
}

// entryOverhead is the memory of an entry without its table.
const entryOverhead = 512

func newTableCache(budget int, load func(*Object) (*names, Status)) *tableCache {
	return &tableCache{budget: budget, load: load, byKey: map[tableKey]*tableEntry{}, recent: list.New(),
		failed: map[uint32]Status{}}
}

// frames returns the names at an address of an object.
func (c *tableCache) frames(o *Object, at uint64) answer {
	for {
		e := c.getTable(o)
		if e == nil || e.names == nil {
			return answer{start: at}
		}
		if a, now, ok := e.names.frames(at); ok {
			c.update(e, now)
			return a
		}
	}
}

// getTable returns the loaded entry of an object, or nil if the object could not be read. This is the entry of the
// object's source, unless the source's names are not valid for the object.
func (c *tableCache) getTable(o *Object) *tableEntry {
	e := c.getOf(o, o.source())
	if e != nil && e.alone(o) {
		return c.getOf(o, o)
	}
	return e
}

// alone reports whether an object needs its own entry: because the names of its source come from a debug file that is
// only for the source, or because the source has no debug file. Without a build ID, a debug file is found only next to
// the object.
func (e *tableEntry) alone(o *Object) bool {
	return o.source() != o && (e.status.own || e.status.missing != nil && o.BuildID == "")
}

// getOf returns the loaded entry of a source for an object, or nil if the object could not be read. Concurrent callers
// wait for the load, and load the entry themselves if the load failed for a different object with the same source.
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

// entry finds or makes the entry of a source for an object. It returns nil if the object could not be read before.
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

// loaded records a result and evicts entries over the budget. An unreadable file is recorded only for this object: a
// different object with the same source may be readable.
func (c *tableCache) loaded(e *tableEntry, id uint32, n *names, status Status) {
	c.mu.Lock()
	defer c.mu.Unlock()
	e.names, e.status = n, status
	c.limits.Note(status.Err)
	if c.byKey[e.key] != e {
		if n != nil {
			n.close() // it was forgotten during the load
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

// trimTables frees the memory of all tables that is only needed while names are read. It is called between collections.
func (c *tableCache) trimUnused() {
	c.mu.Lock()
	var all []*names
	for _, e := range c.byKey {
		if e.names != nil {
			all = append(all, e.names)
		}
	}
	c.mu.Unlock()
	for _, n := range all {
		n.trimUnused()
	}
}

// update records the state of e's names after use.
func (c *tableCache) update(e *tableEntry, now usage) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.byKey[e.key] != e {
		return
	}
	if now.problem != nil { // the problem stays when the sources are dropped
		if e.status.DebugInfo == nil {
			c.limits.Note(now.problem)
		}
		e.status.DebugInfo = now.problem
	}
	if e.status.Bytes != now.bytes {
		c.account(e, now.bytes)
	}
}

// problems returns the missing or damaged debug info, by the path of the first object that used it.
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

// account sets the memory of e and evicts entries over the budget.
func (c *tableCache) account(e *tableEntry, bytes int) {
	e.status.Bytes = bytes
	c.used += bytes + entryOverhead - e.bytes
	e.bytes = bytes + entryOverhead
	c.shrink(e)
}

// shrink evicts entries over the budget, except keep.
func (c *tableCache) shrink(keep *tableEntry) {
	for c.used > c.budget {
		last := c.oldest(keep)
		if last == nil {
			return
		}
		c.remove(last)
	}
}

// oldest returns the least recently used loaded entry except keep, or nil.
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

// forget drops the entries that belong only to the object.
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

// takeScarce forgets the objects that could not be read because file descriptors or memory ran out, and returns their
// IDs.
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

// missing returns all entries whose debug file is missing, and the entries whose next search on disk is due. The
// Fetcher is asked for all entries.
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

// dropTable removes an entry and returns the objects that shared it.
func (c *tableCache) dropTable(e *tableEntry) (ids []uint32) {
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

// setBudget changes the budget, and evicts entries over it.
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

// frameCache remembers the names of addresses. When the young generation is full, it becomes the old one, and the old
// one, with the names that were not requested since, is dropped.
type frameCache struct {
	half int

	mu         sync.Mutex
	young, old generation
	forgotten  map[uint32]bool // objects whose names were forgotten, see Symbolizer.Forgotten
}

// generation is half of the cache.
type generation struct {
	frames map[uint32]map[uint64][]Frame // by object and address
	count  int
}

func newGeneration() generation { return generation{frames: map[uint32]map[uint64][]Frame{}} }

func (g *generation) putFrames(id uint32, at uint64, frames []Frame) {
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

// setSize changes the number of remembered addresses; it drops a generation that is over its half.
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

func (c *frameCache) getFrames(id uint32, at uint64) []Frame {
	c.mu.Lock()
	defer c.mu.Unlock()
	if frames := c.young.frames[id][at]; frames != nil {
		return frames
	}
	frames := c.old.frames[id][at]
	if frames != nil {
		c.addFrames(id, at, frames)
	}
	return frames
}

func (c *frameCache) putFrames(id uint32, at uint64, frames []Frame) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.addFrames(id, at, frames)
}

func (c *frameCache) addFrames(id uint32, at uint64, frames []Frame) {
	if c.young.count >= c.half {
		c.old, c.young = c.young, newGeneration()
	}
	c.young.putFrames(id, at, frames)
}

func (c *frameCache) forget(id uint32) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.young.forget(id)
	c.old.forget(id)
	c.forgotten[id] = true
}

// takeForgotten returns the objects for which forget was called since the last call.
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
