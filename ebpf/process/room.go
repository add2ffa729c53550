package process

import (
	"errors"
	"sync"
	"time"
)

// MaxRemembered bounds the memory of what is remembered of the functions of all interpreters in all processes: their
// names and tables, which code objects they are, and the machine code that was made of them. What has no room is shown
// without a name, unless others go that were not met lately, or that the process has which has most. So one that has
// ever new functions does not keep others from theirs.
const MaxRemembered = 64 << 20

// About the memory that each takes, without its texts and tables.
const (
	functionBytes    = 320
	codeBytes        = 96
	metBytes         = 64
	machineCodeBytes = 128
)

const (
	crowdedRest  = 20 * time.Second // what was not met for that long goes when there is no room, ...
	crowdedPause = 10 * time.Second // ... looked for once in that time
	evictPause   = time.Second      // nor has a process to give its room more often
)

var errRoom = errors.New("no room for more functions of interpreters")

// room is what is left of MaxRemembered. Its mutex guards what the holders have, too.
type room struct {
	mu      sync.Mutex
	bytes   int
	of      map[uint32]int // by the PID of the process that took it
	holders map[holder]bool

	made    time.Time // when room was made last
	evicted time.Time // when a process had to give its own
	dropped uint64    // what there was no room for
}

// holder has taken room. The mutex is held when it is called.
type holder interface {
	forget(since time.Time) // forgets what was not met since a time
	drop(pid uint32)        // forgets what a process has
}

func newRoom() *room { return &room{of: map[uint32]int{}, holders: map[holder]bool{}} }

// add lets holders give room back when it is wanted.
func (r *room) add(holders ...holder) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, h := range holders {
		r.holders[h] = true
	}
}

// remove has holders give back all that they have taken.
func (r *room) remove(holders ...holder) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, h := range holders {
		h.forget(time.Now().Add(time.Hour))
		delete(r.holders, h)
	}
}

// take takes some bytes for a process, and reports false if there are too few. The mutex is held.
func (r *room) take(pid uint32, bytes int, now time.Time) bool {
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

// give gives back what was taken for a process. The mutex is held.
func (r *room) give(pid uint32, bytes int) {
	r.bytes -= bytes
	if r.of[pid] -= bytes; r.of[pid] <= 0 {
		delete(r.of, pid)
	}
}

// makeRoom has holders forget what was not met lately, or else what the process has that has most, if that is far more
// than what the one has that wants room.
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
		h.drop(most)
	}
}

// refused returns how often there was no room since it was called before.
func (r *room) refused() uint64 {
	r.mu.Lock()
	defer r.mu.Unlock()
	n := r.dropped
	r.dropped = 0
	return n
}
