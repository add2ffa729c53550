// Package process knows which processes there are, which executables they have mapped
// where, and which pages of unwind rows of those executables are resident in the kernel.
//
// Four parts share the work. The state is pure: an Event changes it and returns Commands. A
// Command reads files or processes' memory, without a lock, and ends in another Event. The
// publisher (publish, push) copies what has changed to the Store, where walks in the kernel
// look. Readers of samples look a process up once, with Tracker.At.
package process

import (
	"debug/elf"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"

	"github.com/headwater/headwater/ebpf/elffile"
	"github.com/headwater/headwater/ebpf/runtime"
	"github.com/headwater/headwater/ebpf/unwind"
)

// Store is where the unwinder in the kernel looks things up; kernel.Tables is
// one. See there for the contracts.
type Store interface {
	SetProcess(pid uint32, p unwind.Process) error // does not keep p.Mappings
	DeleteProcess(pid uint32) error
	AddDirectory(first, pages uint32, shift uint8) (unwind.Directory, error)
	SetPage(d unwind.Directory, page uint64, p *unwind.Page) error
	Rule(d unwind.Directory, vaddr uint64) (unwind.WideRule, bool)
	Resident(d unwind.Directory, page uint64) bool
	Unbuilt(d unwind.Directory, from, to uint64) []uint64
	RemoveDirectory(d unwind.Directory)
	DropPage(d unwind.Directory, page uint64)
	EvictUnused(lately time.Duration)
	AddInterpreter(s *runtime.Spec) (number uint16, id uint32, err error)
	RemoveInterpreter(number uint16)
	SetProgram(p unwind.Program, number uint16) error
}

// Executable is one file that processes have mapped. Its identity is the file's: two
// files of one build ID are two executables. Those of equal content share an image.
// All fields but those of the registry are set once, before anybody else sees it.
type Executable struct {
	ID      unwind.ExeID // never reused within a Tracker
	Path    string       // as the first process that mapped it sees it
	BuildID string       // GNU build ID, hex, or ""
	Root    string       // /proc/PID/root of that process, which may be gone
	Err     error        // why the file could not be read; nil otherwise

	key     fileKey
	remote  bool                  // the file may hang: the image is a copy, if there is one
	pending bool                  // the file was not opened in time: another executable is the file once it was
	image   atomic.Pointer[image] // never nil
	library runtime.Library       // the language runtime that the file is; nil: no runtime

	// Guarded by the registry.
	stale          bool   // the file was written to since
	unchangedUntil uint64 // CLOCK_MONOTONIC: it was not until then
	refs           int    // mappings of processes
	unusedSince    time.Time
	held           int // descriptor of its file while it shares the image of another; 0: none
}

// isNoELF reports whether the file was read and is no executable of any kind that has rows or names.
func (e *Executable) isNoELF() bool {
	var format *elf.FormatError
	return e != nil && errors.As(e.Err, &format)
}

// now returns what the file's identity is now and was when it was opened, and false if it is
// not held open. That is one system call, which asks nothing of the file system but of its inode.
func (e *Executable) now() (now, before fileKey, ok bool) {
	i, fd, before := e.image.Load(), e.held, e.key
	if i.first == e && i.elf != nil {
		fd, before = i.elf.Fd(), i.key
	}
	var st unix.Stat_t
	ok = fd != 0 && unix.Fstat(fd, &st) == nil
	return keyOf(&st), before, ok
}

// unchanged reports whether the file is what it was, if it is held open.
func (e *Executable) unchanged() bool {
	now, before, ok := e.now()
	return ok && now == before
}

// written reports whether the file was written to since, if it is held open.
func (e *Executable) written() bool {
	now, before, ok := e.now()
	return ok && now.writtenSince(before)
}

// Version distinguishes builds of one program: it is the build ID or, of a file without, "file:" and its size and the
// time when it was written last, which copies of an image of a container share. It is "" for what is no file.
func (e *Executable) Version() string {
	switch {
	case e.BuildID != "":
		return e.BuildID
	case e.Err != nil || e.key.inode == 0:
		return ""
	}
	return fmt.Sprintf("file:%x-%x", e.key.size, e.key.mtime.Nano())
}

// Segment returns the executable segment that holds vaddr.
func (e *Executable) Segment(vaddr uint64) (elffile.Segment, bool) {
	file := e.image.Load().elf
	if file == nil {
		return elffile.Segment{}, false
	}
	for _, s := range file.TextSegments() {
		if vaddr >= s.Vaddr && vaddr-s.Vaddr < s.Memsz {
			return s, true
		}
	}
	return elffile.Segment{}, false
}

// errNoFile says that an executable is code that a process has made.
var errNoFile = errors.New("code made while the process runs is no file")

// Open opens the executable again, or one that is equal, even when it has been
// deleted. The caller closes it. The error is elffile.ErrChanged when it was written to.
func (e *Executable) Open() (*elffile.File, error) {
	if e.Err != nil {
		return nil, e.Err
	}
	file := e.image.Load().elf
	if file == nil {
		return nil, errNoFile
	}
	return file.Reopen()
}

// Source is the file that the code of an executable has its names from: its own, one of
// equal content, or one of equal code that has more names.
type Source struct {
	ID                  unwind.ExeID // of the executable whose file it is, or was
	Path, BuildID, Root string       // as those of Executable
	Open                func() (*elffile.File, error)
}

// Source returns what e's code is to be named by.
func (t *Tracker) Source(e *Executable) Source {
	i := e.image.Load()
	if e.Err != nil || i.elf == nil {
		return Source{e.ID, e.Path, e.BuildID, e.Root, e.Open}
	}
	t.exes.mu.Lock()
	defer t.exes.mu.Unlock()
	if i.names != nil {
		i = i.names
	}
	return Source{i.first.ID, i.first.Path, i.first.BuildID, i.first.Root, i.elf.Reopen}
}

// page builds one page of rows. The image's building is held.
func (e *Executable) page(i *image, n uint64) (*unwind.Page, error) {
	i.built = time.Now()
	p, err := i.rows.Page(n, i.directory.Shift)
	if err != nil {
		return p, fmt.Errorf("%s: %w", e.Path, err)
	}
	return p, nil
}

// callFrame returns what call frame information states about vaddr.
func (e *Executable) callFrame(vaddr uint64) (c unwind.CallFrame, ok bool, err error) {
	i := e.image.Load()
	i.building.Lock()
	defer i.building.Unlock()
	if c, ok, err = i.rows.CallFrame(vaddr); err != nil {
		return c, false, fmt.Errorf("%s: %w", e.Path, err)
	}
	return c, ok, nil
}

// outermost reports whether vaddr is in the code at the entry point.
func (e *Executable) outermost(vaddr uint64) (bool, error) {
	i := e.image.Load()
	i.building.Lock()
	defer i.building.Unlock()
	file, ok := i.rows.(*fileRows)
	if !ok {
		return false, nil
	}
	outermost, err := file.Outermost(vaddr)
	if err != nil {
		return false, fmt.Errorf("%s: %w", e.Path, err)
	}
	return outermost, nil
}

// called reports whether a call may return to vaddr, or a signal handler; known is false for code that is in no file.
func (e *Executable) called(machine elf.Machine, vaddr uint64) (called, known bool) {
	i := e.image.Load()
	i.building.Lock()
	defer i.building.Unlock()
	file, ok := i.rows.(*fileRows)
	if !ok {
		return false, false
	}
	return unwind.ReturnsTo(machine, vaddr, file), true
}

func (e *Executable) String() string { return fmt.Sprintf("%s (build ID %q)", e.Path, e.BuildID) }
