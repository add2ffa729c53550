package symbol

import (
	"sync"
	"sync/atomic"
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

// trimmer is a source that can do with less memory while nothing is asked of it.
type trimmer interface{ trim() }

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
	starts  *starts  // of functions that none of them knows; nil: there is no call frame information

	closed atomic.Bool
}

// usage says how the sources of an executable stand.
type usage struct {
	bytes   int   // memory that they hold
	problem error // the first thing that could not be read
}

// answer is what an executable's names say of an address.
type answer struct {
	frames []Frame // none: no source knows the address
	start  uint64  // of the function there if there are no frames; the address itself if that is not known either
}

// frames asks the sources in their order. ok is false if the names were closed
// meanwhile.
func (n *names) frames(at uint64) (a answer, now usage, ok bool) {
	n.mu.Lock()
	defer n.unlock()
	if n.closed.Load() {
		return answer{}, usage{}, false
	}
	if n.files.changed() {
		n.dropSources()
	}
	for _, s := range n.sources {
		if a.frames = s.frames(at); len(a.frames) > 0 {
			break
		}
	}
	if len(a.frames) == 0 {
		a.start = n.starts.of(at)
	}
	return a, usage{n.bytesLocked(), n.problemLocked()}, true
}

// trim gives back memory that the sources need only while they are read, unless somebody
// reads them now.
func (n *names) trim() {
	if !n.mu.TryLock() {
		return
	}
	defer n.unlock()
	for _, s := range n.sources {
		if r, ok := s.(trimmer); ok {
			r.trim()
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
	bytes := n.starts.bytes()
	for _, s := range n.sources {
		bytes += s.bytes()
	}
	return bytes
}

// close releases the files, or lets who uses the names do so: that may read a file
// which takes long.
func (n *names) close() {
	n.closed.Store(true)
	n.release()
}

// unlock ends the use of the names.
func (n *names) unlock() {
	n.mu.Unlock()
	if n.closed.Load() {
		n.release()
	}
}

// release releases everything, unless somebody uses it.
func (n *names) release() {
	if !n.mu.TryLock() {
		return // unlock releases it
	}
	defer n.mu.Unlock()
	n.dropSources()
	n.files.close()
}

func (n *names) dropSources() {
	for _, s := range n.sources {
		if c, ok := s.(closer); ok {
			c.close()
		}
	}
	n.sources, n.starts = nil, nil
}
