package target

import (
	"sync"
	"sync/atomic"
	"time"

	"github.com/headwater/headwater/ebpf/procfs"
)

// answer is what was found out about a process. It is immutable.
type answer struct {
	view       *view    // nil: target is to be found
	containers []string // that it is in, by ID, the innermost first
	target     *Target

	instance  procfs.Instance // when it was looked at last; Start 0: it was not there any more
	forked    bool            // it was seen to begin
	executed  bool            // it was seen to execute a program
	inherited *Target         // its parent's; nil: it has none, or has executed another program
	since     time.Time       // when it inherited that
}

// cache remembers answers of the processes asked for lately, at most size. When
// it is full, one that was not asked for since the last time round makes room.
type cache struct {
	size int

	mu    sync.RWMutex
	byPID map[uint32]*slot
	slots []*slot // the ring that the hand goes round
	hand  int
}

type slot struct {
	pid    uint32
	index  int // in cache.slots
	answer *answer
	used   atomic.Bool // asked for since the hand last came by
}

func newCache(size int) *cache {
	return &cache{size: size, byPID: make(map[uint32]*slot)}
}

func (c *cache) get(pid uint32) *answer {
	c.mu.RLock()
	defer c.mu.RUnlock()
	s := c.byPID[pid]
	if s == nil {
		return nil
	}
	if !s.used.Load() { // spare the other CPUs a write
		s.used.Store(true)
	}
	return s.answer
}

func (c *cache) put(pid uint32, a *answer) {
	c.mu.Lock()
	defer c.mu.Unlock()
	s := c.byPID[pid]
	switch {
	case s != nil:
	case len(c.slots) < c.size:
		s = &slot{index: len(c.slots)}
		c.slots = append(c.slots, s)
	default:
		s = c.evict()
	}
	s.pid, s.answer = pid, a
	c.byPID[pid] = s
}

// evict returns the slot of a process that was not asked for lately.
func (c *cache) evict() *slot {
	for {
		c.hand = (c.hand + 1) % len(c.slots)
		s := c.slots[c.hand]
		if !s.used.Swap(false) {
			delete(c.byPID, s.pid)
			return s
		}
	}
}

func (c *cache) remove(pid uint32) {
	c.mu.Lock()
	defer c.mu.Unlock()
	s := c.byPID[pid]
	if s == nil {
		return
	}
	delete(c.byPID, pid)
	last := len(c.slots) - 1
	c.slots[s.index] = c.slots[last]
	c.slots[s.index].index = s.index
	c.slots[last] = nil
	c.slots = c.slots[:last]
}
