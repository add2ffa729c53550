package v8

import (
	"sync"
	"time"

	"github.com/headwater/headwater/ebpf/runtime"
)

// lines remembers for a while where the lines of scripts end, so that a script with many functions is read once. All
// processes have one. Safe for concurrent use.
type lines struct {
	mu      sync.Mutex
	began   time.Time
	ends    map[source][]int
	kept    int                       // ends
	amounts map[runtime.Memory]amount // by process
}

// amount is what a process had in a while.
type amount struct{ read, kept int } // characters, and ends

// source is the text of a script in a process.
type source struct {
	memory runtime.Memory
	script tagged
	text   tagged
	length int
}

// Limits of what is remembered and read in a while.
const (
	linesWhile = 10 * time.Second
	maxKept    = 1 << 20  // ends of lines, of all processes
	maxRead    = 32 << 20 // characters of a process
)

// of returns where the lines of a source end, nil if that is not known. read finds out. Nobody waits for it who asks
// for another source: memory of a process may hang.
func (x *lines) of(s source, now time.Time, read func() []int) []int {
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

// makeRoom takes room for some ends. Where there is none, the process loses its own that has most, unless it is the
// one that wants it. The lock is held.
func (x *lines) makeRoom(by runtime.Memory, ends int) bool {
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

// known returns what is remembered of a source, and false if it is to be read.
func (x *lines) known(s source, now time.Time) (ends []int, done bool) {
	x.mu.Lock()
	defer x.mu.Unlock()
	if x.ends == nil || now.Sub(x.began) >= linesWhile {
		x.began, x.ends, x.kept, x.amounts = now, map[source][]int{}, 0, map[runtime.Memory]amount{}
	}
	if ends, ok := x.ends[s]; ok {
		return ends, true
	}
	had := x.amounts[s.memory]
	had.read += s.length
	x.amounts[s.memory] = had
	return nil, had.read > maxRead
}
