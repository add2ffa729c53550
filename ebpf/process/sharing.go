package process

import (
	"slices"
	"time"

	"golang.org/x/sys/unix"

	"github.com/headwater/headwater/ebpf/object/elffile"
	"github.com/headwater/headwater/ebpf/unwind"
)

// Files of equal content share tables and names: a thousand containers from one image take the memory of one. An equal
// build ID is no proof of equal content, because anyone can write one into a file, so the files are read and compared.
// A goroutine does that, because it takes long; until it is done, a file has its own tables.

// sharing finds the executables that can share an image. The registry's mutex guards
// it.
type sharing struct {
	byShape map[string][]*image // open and not private
	pending []*image            // to be compared
	working bool                // a goroutine compares them
	ready   []*image            // compared: their content is known
	stale   []*Executable       // written to; their processes must be read again
	renamed []unwind.ExeID      // executables whose names may now come from another file
	unused  []*image            // to be closed
	held    int                 // descriptors of files whose executables share another's image
	closed  bool
}

const (
	// compareShare bounds the time of comparisons to one part in compareShare of a CPU's time.
	compareShare = 10
	// maxPending bounds the files that wait for comparison; further files share no tables.
	maxPending = 4096
	// maxHeld bounds the files that are held open although another file's image is used for them. For further files, it
	// costs more to find out whether they were written to.
	maxHeld = 1024
	// imageGrace is how long an unused image stays open, for walks that are still using it.
	imageGrace = 2 * time.Second
)

// addImage registers a new image, and queues it for comparison if there are other images of its shape.
func (s *sharing) addImage(x *executables, i *image) {
	if i.trust.private || i.shape == "" {
		return
	}
	same := append(s.byShape[i.shape], i)
	s.byShape[i.shape] = same
	if len(same) < 2 {
		return
	}
	for _, i := range same {
		if !i.queued && len(s.pending) < maxPending {
			i.queued = true
			i.users++ // until compare is done
			s.pending = append(s.pending, i)
		}
	}
	if !s.working {
		s.working = true
		go x.compare()
	}
}

// compare reads the pending images. It holds no lock while it reads.
func (x *executables) compare() {
	for {
		x.mu.Lock()
		s := &x.sharing
		if len(s.pending) == 0 || s.closed {
			s.working, s.pending = false, nil
			x.mu.Unlock()
			return
		}
		i := s.pending[0]
		s.pending = s.pending[1:]
		x.mu.Unlock()

		begun := time.Now()
		content, err := i.contentOf()
		known := err == nil && i.unchanged()
		spent := time.Since(begun)

		x.mu.Lock()
		if i.content, i.compared = content, known; known {
			s.ready = append(s.ready, i)
		} else {
			s.release(i, time.Now())
		}
		x.mu.Unlock()
		time.Sleep(min((compareShare-1)*spent, time.Minute))
	}
}

// contentOf returns checksums of all data that rows and names are made from. It may wait for a search for a debug file.
func (i *image) contentOf() (elffile.Content, error) {
	content, err := i.elf.Content()
	if rows, ok := i.rows.(*fileRows); ok && err == nil {
		err = rows.debug.share(&content.Rows)
	}
	return content, err
}

// share lets compared images be shared. It returns the executables that have a new image; their mappings must be pushed
// to the store again.
func (x *executables) share() (moved map[*Executable]bool) {
	x.mu.Lock()
	defer x.mu.Unlock()
	s := &x.sharing
	moved = map[*Executable]bool{}
	for _, i := range s.ready {
		if !i.first.stale {
			s.shareImage(i, moved)
		}
		s.release(i, time.Now())
	}
	s.ready = nil
	return moved
}

// shareImage gives i's executables another image of equal content, preferably one whose file root owns. If there is
// none, images of equal code may supply names for each other.
func (s *sharing) shareImage(i *image, moved map[*Executable]bool) {
	var best *image
	var alike []*image
	for _, other := range s.byShape[i.shape] {
		if other == i || !other.compared || other.content.Code != i.content.Code || other.elf.Changed() {
			continue
		}
		alike = append(alike, other)
		if other.content.Rows == i.content.Rows && other.mayName(i) && (best == nil || best.trust.owner != 0) {
			best = other
		}
	}
	if best != nil {
		s.moveExecutables(i, best, moved)
		return
	}
	for _, other := range alike {
		s.nameBy(other, i)
		s.nameBy(i, other)
	}
}

// moveExecutables replaces the image of all executables of from by to.
func (s *sharing) moveExecutables(from, to *image, moved map[*Executable]bool) {
	if from.members[from.first] {
		s.holdImage(from.first)
	}
	for e := range from.members {
		e.image.Store(to)
		to.members[e] = true
		to.users++
		s.release(from, time.Now())
		s.renamed = append(s.renamed, e.ID)
		moved[e] = true
	}
	clear(from.members)
	s.forget(from)
}

// holdImage keeps the file of an executable open that gets another image. Otherwise, each mapping of the file by a new
// process would require opening the file to see whether it was written to.
func (s *sharing) holdImage(e *Executable) {
	if s.held >= maxHeld {
		return
	}
	if fd, err := unix.FcntlInt(uintptr(e.image.Load().elf.Fd()), unix.F_DUPFD_CLOEXEC, 0); err == nil {
		e.held = fd
		s.held++
	}
}

// letGo closes the file of an executable that shares another executable's image.
func (s *sharing) letGo(e *Executable) {
	if e.held != 0 {
		unix.Close(e.held)
		e.held = 0
		s.held--
	}
}

// mayName reports whether data read from i's file may be used for another image.
func (i *image) mayName(other *image) bool {
	return i.content.NamesOf(&other.content) && i.trust.allows(other.trust)
}

// nameBy gives i the names of another image if that has more symbols.
func (s *sharing) nameBy(i, other *image) {
	if other.symbols <= i.symbols || i.names != nil && other.symbols <= i.names.symbols || !other.mayName(i) {
		return
	}
	if i.names != nil {
		s.release(i.names, time.Now())
	}
	i.names = other
	other.users++
	for e := range i.members {
		s.renamed = append(s.renamed, e.ID)
	}
}

// forget removes i from the images that other executables can share.
func (s *sharing) forget(i *image) {
	same := slices.DeleteFunc(s.byShape[i.shape], func(other *image) bool { return other == i })
	if s.byShape[i.shape] = same; len(same) == 0 {
		delete(s.byShape, i.shape)
	}
}

// release ends one use of i.
func (s *sharing) release(i *image, now time.Time) {
	if i.users--; i.users == 0 {
		i.unusedFor = now
		s.unused = append(s.unused, i)
	}
}

// sweep closes the images that have been unused since a time, and returns the IDs of the executables whose files they
// were.
func (s *sharing) sweep(store Store, before time.Time) (gone []unwind.ExeID) {
	unused := s.unused
	s.unused = nil
	for _, i := range unused {
		switch {
		case i.users > 0: // in use again
		case i.unusedFor.After(before):
			s.unused = append(s.unused, i)
		default:
			if i.names != nil {
				s.release(i.names, time.Now())
			}
			s.forget(i)
			store.RemoveDirectory(i.directory)
			i.close()
			gone = append(gone, i.first.ID)
		}
	}
	return gone
}
