package v8

import (
	"sync"
	"time"

	"github.com/headwater/headwater/ebpf/runtime"
)

// lines remembers for a while where the lines of scripts end, so that a script with many functions is read once. Safe
// for concurrent use.
type lines struct {
	mu    sync.Mutex
	began time.Time
	ends  map[source][]int
	kept  int                    // ends
	read  map[runtime.Memory]int // characters, by process
}

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
	maxKept    = 1 << 20  // ends of lines
	maxRead    = 64 << 20 // characters of a process
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
	if x.kept += len(ends) + 1; x.kept <= maxKept {
		x.ends[s] = ends
	}
	return ends
}

// known returns what is remembered of a source, and false if it is to be read.
func (x *lines) known(s source, now time.Time) (ends []int, done bool) {
	x.mu.Lock()
	defer x.mu.Unlock()
	if x.ends == nil || now.Sub(x.began) >= linesWhile {
		x.began, x.ends, x.kept, x.read = now, map[source][]int{}, 0, map[runtime.Memory]int{}
	}
	if ends, ok := x.ends[s]; ok {
		return ends, true
	}
	x.read[s.memory] += s.length
	return nil, x.read[s.memory] > maxRead
}
