package symbol

import (
	"sync"
	"time"

	"github.com/headwater/headwater/ebpf/elffile"
)

// source names the code of one executable. One goroutine uses it at a time.
type source interface {
	// frames returns the functions at the ELF virtual address at, which is a
	// CodeAddress: the innermost first, then those that it was inlined into. None
	// if the source does not know the address.
	frames(at uint64) []Frame
	// bytes returns the memory that the source holds now; use may make it grow.
	bytes() int
}

// closer is a source that holds more than memory.
type closer interface{ close() }

// rester is a source that can do with less memory while nothing is asked of it.
type rester interface{ rest() }

// prober is a source that may find out late that something is missing or damaged.
type prober interface {
	// problem returns the first thing that could not be read, nil if all is well.
	problem() error
}

// files are what the sources of one executable read. They stay open as long as
// its names are in use.
type files struct {
	object    *elffile.File // the executable itself
	debug     *elffile.File // its separate debug file, nil if there is none
	debugPath string
	looked    time.Time // when changed last looked
}

// changeInterval is how long what was read of a file may be used before somebody
// looks whether it was written to: a system call for each name costs more than the name.
const changeInterval = time.Second

// changed reports whether somebody wrote to one of the files since it was opened.
// What was read of it before would lead to wrong names.
func (f *files) changed() bool {
	now := time.Now()
	if now.Sub(f.looked) < changeInterval {
		return false
	}
	f.looked = now
	return f.object.Changed() || f.debug != nil && f.debug.Changed()
}

func (f *files) close() {
	for _, file := range []*elffile.File{f.object, f.debug} {
		if file != nil {
			file.Close()
		}
	}
	f.object, f.debug = nil, nil
}

// names holds the sources of one executable.
type names struct {
	mu      sync.Mutex
	files   files
	sources []source // the first one that knows an address names it
	closed  bool
}

// usage tells how the sources of an executable stand.
type usage struct {
	bytes   int   // memory that they hold
	problem error // the first thing that could not be read
}

// frames asks the sources in their order. ok is false if the names were closed
// meanwhile.
func (n *names) frames(at uint64) (frames []Frame, now usage, ok bool) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.closed {
		return nil, usage{}, false
	}
	if n.files.changed() {
		n.dropSources()
	}
	for _, s := range n.sources {
		if frames = s.frames(at); len(frames) > 0 {
			break
		}
	}
	return frames, usage{n.bytesLocked(), n.problemLocked()}, true
}

// rest tells the sources that nothing is asked of them for a while.
func (n *names) rest() {
	n.mu.Lock()
	defer n.mu.Unlock()
	for _, s := range n.sources {
		if r, ok := s.(rester); ok {
			r.rest()
		}
	}
}

func (n *names) problemLocked() error {
	for _, s := range n.sources {
		if p, ok := s.(prober); ok && p.problem() != nil {
			return p.problem()
		}
	}
	return nil
}

func (n *names) bytesLocked() int {
	bytes := 0
	for _, s := range n.sources {
		bytes += s.bytes()
	}
	return bytes
}

// close waits for those who use the names and releases the files.
func (n *names) close() {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.closed = true
	n.dropSources()
	n.files.close()
}

func (n *names) dropSources() {
	for _, s := range n.sources {
		if c, ok := s.(closer); ok {
			c.close()
		}
	}
	n.sources = nil
}
