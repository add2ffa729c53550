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
	kept  int // ends
	read  int // characters
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
	maxRead    = 64 << 20 // characters
)

// of returns where the lines of a source end, nil if that is not known. read finds out.
func (x *lines) of(s source, now time.Time, read func() []int) []int {
	x.mu.Lock()
	defer x.mu.Unlock()
	if x.ends == nil || now.Sub(x.began) >= linesWhile {
		x.began, x.ends, x.kept, x.read = now, map[source][]int{}, 0, 0
	}
	if ends, ok := x.ends[s]; ok {
		return ends
	}
	if x.read += s.length; x.read > maxRead {
		return nil
	}
	ends := read()
	if x.kept += len(ends) + 1; x.kept <= maxKept {
		x.ends[s] = ends
	}
	return ends
}
