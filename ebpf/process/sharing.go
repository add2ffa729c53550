package process

import (
	"slices"
	"time"

	"golang.org/x/sys/unix"

	"github.com/headwater/headwater/ebpf/unwind"
)

// Files of equal content share tables and names: a thousand containers from one image
// take the memory of one. That two are equal is not believed because they have the same
// build ID, which anybody can write into a file; they are read and compared. That takes
// long, so a file has tables of its own until it is known, and a goroutine does it.

// sharing finds the executables that can share an image. The registry's mutex guards
// it.
type sharing struct {
	byShape map[string][]*image // alive, and not private
	pending []*image            // to be compared
	working bool                // a goroutine compares them
	ready   []*image            // their content is known now
	stale   []*Executable       // written to; their processes are to be read again
	renamed []unwind.ExeID      // executables whose names may come from elsewhere now
	unused  []*image            // to be closed
	held    int                 // descriptors of files whose executables share another's image
	closed  bool
}

const (
	// compareShare: comparing takes at most one part in compareShare of a CPU's time.
	compareShare = 10
	// maxPending bounds the files that wait to be compared; others share nothing.
	maxPending = 4096
	// maxHeld bounds the files that are held open though another's image is used for them. Of
	// further ones it takes more to find out whether they were written to.
	maxHeld = 1024
	// imageGrace is how long an image stays that nobody uses, for walks that are at it.
	imageGrace = 2 * time.Second
)

// add takes an image that is new, and lets it be compared if there is one of its shape.
func (s *sharing) add(x *executables, i *image) {
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

// compare reads what is pending. It holds no lock while it reads.
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
		content, err := i.elf.Content()
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

// share lets images that were compared be shared. It returns the executables that have
// another image now, whose mappings the store is to get again.
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

// shareImage lets i's executables have another image of equal content, one of root's if
// there is one; or else lets images of equal code name each other.
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
		s.move(i, best, moved)
		return
	}
	for _, other := range alike {
		s.nameBy(other, i)
		s.nameBy(i, other)
	}
}

// move gives all executables of one image another one.
func (s *sharing) move(from, to *image, moved map[*Executable]bool) {
	if from.members[from.first] {
		s.hold(from.first)
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

// hold keeps the file of an executable open that gets another's image. Without that, each
// mapping of it by a new process would be opened to see whether it was written to.
func (s *sharing) hold(e *Executable) {
	if s.held >= maxHeld {
		return
	}
	if fd, err := unix.FcntlInt(uintptr(e.image.Load().elf.Fd()), unix.F_DUPFD_CLOEXEC, 0); err == nil {
		e.held = fd
		s.held++
	}
}

// letGo closes the file of an executable that shares another's image.
func (s *sharing) letGo(e *Executable) {
	if e.held != 0 {
		unix.Close(e.held)
		e.held = 0
		s.held--
	}
}

// mayName reports whether what is read of i's file may be used for another.
func (i *image) mayName(other *image) bool {
	return i.content.NamesOf(&other.content) && i.trust.of(other.trust)
}

// nameBy lets i have its names from another image, if that has more of them.
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

// forget lets no other executable come to i.
func (s *sharing) forget(i *image) {
	same := slices.DeleteFunc(s.byShape[i.shape], func(other *image) bool { return other == i })
	if s.byShape[i.shape] = same; len(same) == 0 {
		delete(s.byShape, i.shape)
	}
}

// release gives a use of i back.
func (s *sharing) release(i *image, now time.Time) {
	if i.users--; i.users == 0 {
		i.unusedFor = now
		s.unused = append(s.unused, i)
	}
}

// sweep closes the images that nobody uses since a time, and returns the IDs of the
// executables whose files they were.
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
