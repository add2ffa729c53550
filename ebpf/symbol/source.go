package symbol

import (
	"sync"
	"sync/atomic"
	"time"

	"github.com/headwater/headwater/ebpf/object/elffile"
)

// source names the code of one executable. One goroutine uses it at a time.
type source interface {
	// frames returns the functions at the ELF virtual address at, which is a CodeAddress: the innermost first, then the
	// functions that it was inlined into. It returns none if the source does not know the address.
	frames(at uint64) []Frame
	// bytes returns the current memory of the source, which may grow with use.
	bytes() int
}

// closer is a source with resources other than memory.
type closer interface{ close() }

// trimmer is a source that can free memory while it is not used.
type trimmer interface{ trimUnused() }

// prober is a source that may find missing or damaged data late.
type prober interface {
	// problem returns the first read error, or nil if all is well.
	problem() error
}

// files are the files that the sources of one executable read. They stay open as long as its names are in use.
type files struct {
	object    *elffile.File // the executable itself
	debug     *elffile.File // its separate debug file, nil if there is none
	debugPath string
	looked    time.Time // time of the last check by changed
}

// changeInterval is the interval of checks for changes of a file: a system call for each name would cost more than the
// name.
const changeInterval = time.Second

// changed reports whether one of the files was written to since it was opened. Data read before would lead to wrong
// names.
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
	sources []source // the first source that knows an address names it
	starts  *starts  // of functions that no source knows; nil if there is no call frame information

	closed atomic.Bool
}

// usage is the state of the sources of an executable.
type usage struct {
	bytes   int   // memory of the sources
	problem error // the first read error
}

// answer is the result of a search for an address.
type answer struct {
	frames []Frame // empty if no source knows the address
	start  uint64  // start of the function if there are no frames; the address itself if it is also unknown
}

// frames searches the sources in order. ok is false if the names were closed before.
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
		a.start = n.starts.startOf(at)
	}
	return a, usage{n.bytesLocked(), n.problemLocked()}, true
}

// trim frees memory that the sources need only while they are read, unless they are being read now.
func (n *names) trimUnused() {
	if !n.mu.TryLock() {
		return
	}
	defer n.unlock()
	for _, s := range n.sources {
		if r, ok := s.(trimmer); ok {
			r.trimUnused()
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

// close releases the files. If the names are in use, which may include a slow read of a file, the user releases the
// files at the end of the use.
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

// release releases all resources, unless the names are in use.
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
