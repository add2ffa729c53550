package engine

import (
	"errors"
	"sync"
	"time"
)

// MaxRemembered bounds the memory for functions of all interpreters in all processes: their names and tables, their
// code objects, and their machine code. When the memory is used up, entries are evicted that samples have not had
// recently, or else the entries of the largest process; if that frees too little, functions are shown without a name.
// So a process that keeps creating functions does not displace the functions of other processes.
const MaxRemembered = 64 << 20

// Approximate memory of each entry in bytes, without its texts and tables.
const (
	functionBytes    = 320
	codeBytes        = 96
	metBytes         = 64
	machineCodeBytes = 128
)

const (
	crowdedRest  = 20 * time.Second // without room, entries that were not seen for this long are evicted, ...
	crowdedPause = 10 * time.Second // ... at most once in this time
	evictPause   = time.Second      // pause between evictions of all entries of a process
)

var errRoom = errors.New("the memory for functions of interpreters is full")

// room accounts for MaxRemembered. Its mutex also guards the entries of the holders.
type room struct {
	mu      sync.Mutex
	bytes   int
	of      map[uint32]int // bytes by PID
	holders map[holder]bool

	made    time.Time // last eviction of entries that were not seen recently
	evicted time.Time // last eviction of the entries of a process
	dropped uint64    // requests that were refused
}

// holder has entries that take room. The caller of its methods holds the room's mutex.
type holder interface {
	forget(since time.Time) // forgets entries that were not seen since a time
	dropProcess(pid uint32) // forgets the entries of a process
}

func newRoom() *room { return &room{of: map[uint32]int{}, holders: map[holder]bool{}} }

// addHolders registers holders, whose entries may then be evicted.
func (r *room) addHolders(holders ...holder) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, h := range holders {
		r.holders[h] = true
	}
}

// remove evicts all entries of holders and unregisters them.
func (r *room) remove(holders ...holder) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, h := range holders {
		h.forget(time.Now().Add(time.Hour))
		delete(r.holders, h)
	}
}

// takeBytes reserves bytes for a process, and reports false if there is no room. The caller holds the mutex.
func (r *room) takeBytes(pid uint32, bytes int, now time.Time) bool {
	if r.bytes+bytes > MaxRemembered {
		r.makeRoom(pid, now)
	}
	if r.bytes+bytes > MaxRemembered {
		r.dropped++
		return false
	}
	r.bytes += bytes
	r.of[pid] += bytes
	return true
}

// giveBytes frees bytes of a process. The caller holds the mutex.
func (r *room) giveBytes(pid uint32, bytes int) {
	r.bytes -= bytes
	if r.of[pid] -= bytes; r.of[pid] <= 0 {
		delete(r.of, pid)
	}
}

// makeRoom evicts entries that were not seen recently. If it did so a moment ago, it evicts the entries of the largest
// process instead, unless that process has less than twice the bytes of the one that needs room.
func (r *room) makeRoom(pid uint32, now time.Time) {
	if now.Sub(r.made) >= crowdedPause {
		r.made = now
		for h := range r.holders {
			h.forget(now.Add(-crowdedRest))
		}
		return
	}
	if now.Sub(r.evicted) < evictPause {
		return
	}
	r.evicted = now
	most := pid
	for other, bytes := range r.of {
		if bytes > r.of[most] {
			most = other
		}
	}
	if r.of[most] < 2*r.of[pid] || most == pid {
		return
	}
	for h := range r.holders {
		h.dropProcess(most)
	}
}

// refused returns how many requests were refused since the last call.
func (r *room) refused() uint64 {
	r.mu.Lock()
	defer r.mu.Unlock()
	n := r.dropped
	r.dropped = 0
	return n
}
