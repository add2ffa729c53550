package v8

import (
	"sync"
	"time"

	"github.com/headwater/headwater/ebpf/language"
)

// lines caches the line ends of scripts for a while, so that a script with many functions is read once. All processes
// share one cache. Safe for concurrent use.
type lines struct {
	mu      sync.Mutex
	began   time.Time
	ends    map[source][]int
	kept    int                        // number of ends
	amounts map[language.Memory]amount // by process
}

// amount is the use of the cache by a process in one period.
type amount struct{ read, kept int } // characters, and ends

// source is the text of a script in a process.
type source struct {
	memory language.Memory
	script tagged
	text   tagged
	length int
}

// Limits of a period.
const (
	linesWhile = 10 * time.Second
	maxKept    = 1 << 20  // line ends of all processes
	maxRead    = 32 << 20 // characters of one process
)

// linesOf returns the line ends of a source, or nil if they are unknown. read computes them. No lock is held during
// read, so that requests for different sources do not wait: a read of a process's memory may hang.
func (x *lines) linesOf(s source, now time.Time, read func() []int) []int {
	ends, done := x.known(s, now)
	if done {
		return ends
	}
	ends = read()
	x.mu.Lock()
	defer x.mu.Unlock()
	if _, ok := x.ends[s]; !ok && x.makeRoom(s.memory, len(ends)+1) {
		x.ends[s] = ends
	}
	return ends
}

// makeRoom reserves room for some ends. If the cache is full, the process with the most ends loses all its ends, unless
// it is the requesting process. The lock is held.
func (x *lines) makeRoom(by language.Memory, ends int) bool {
	if x.kept+ends > maxKept {
		most := by
		for other, had := range x.amounts {
			if had.kept > x.amounts[most].kept {
				most = other
			}
		}
		if most == by {
			return false
		}
		for s := range x.ends {
			if s.memory == most {
				delete(x.ends, s)
			}
		}
		x.kept -= x.amounts[most].kept
		x.amounts[most] = amount{read: x.amounts[most].read}
	}
	if x.kept+ends > maxKept {
		return false
	}
	x.kept += ends
	had := x.amounts[by]
	had.kept += ends
	x.amounts[by] = had
	return true
}

// known returns the cached ends of a source, and false if the source must be read.
func (x *lines) known(s source, now time.Time) (ends []int, done bool) {
	x.mu.Lock()
	defer x.mu.Unlock()
	if x.ends == nil || now.Sub(x.began) >= linesWhile {
		x.began, x.ends, x.kept, x.amounts = now, map[source][]int{}, 0, map[language.Memory]amount{}
	}
	if ends, ok := x.ends[s]; ok {
		return ends, true
	}
	had := x.amounts[s.memory]
	had.read += s.length
	x.amounts[s.memory] = had
	return nil, had.read > maxRead
}
