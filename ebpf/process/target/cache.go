package target

import (
	"sync"
	"sync/atomic"
	"time"

	"github.com/headwater/headwater/ebpf/host/procfs"
)

// answer is the known data of a process. It is immutable.
type answer struct {
	view       *view    // nil if target must be looked up
	containers []string // IDs of its containers, the innermost first
	target     *Target

	instance  procfs.Instance // at the last look; Start is 0 if the process was gone
	forked    bool            // its fork was seen
	executed  bool            // an exec of it was seen
	inherited *Target         // its parent's target; nil if none, or after an exec
	since     time.Time       // when it inherited the target
}

// cache remembers answers of recently requested processes, at most size. When it is full, it evicts an answer that was
// not requested since the hand last passed it.
type cache struct {
	size int

	mu    sync.RWMutex
	byPID map[uint32]*slot
	slots []*slot // the ring of the clock
	hand  int
}

type slot struct {
	pid    uint32
	index  int // in cache.slots
	answer *answer
	used   atomic.Bool // requested since the hand last passed
}

func newCache(size int) *cache {
	return &cache{size: size, byPID: make(map[uint32]*slot)}
}

func (c *cache) getAnswer(pid uint32) *answer {
	c.mu.RLock()
	defer c.mu.RUnlock()
	s := c.byPID[pid]
	if s == nil {
		return nil
	}
	if !s.used.Load() { // spares the other CPUs a write
		s.used.Store(true)
	}
	return s.answer
}

func (c *cache) putAnswer(pid uint32, a *answer) {
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

// evict removes a process that was not requested recently, and returns its slot.
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
