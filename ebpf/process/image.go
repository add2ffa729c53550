package process

import (
	"errors"
	"fmt"
	"os"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"github.com/headwater/headwater/ebpf/language"
	"github.com/headwater/headwater/ebpf/object/elffile"
	"github.com/headwater/headwater/ebpf/unwind"
	"github.com/headwater/headwater/ebpf/unwind/unwindtable"
)

// image is shared by executables of equal content: an open file, the directory of its pages in the store, and the
// source of the pages.
type image struct {
	first     *Executable   // the executable whose file it is
	elf       *elffile.File // kept open, because the path may change its meaning; nil if there is none, or for code
	key       fileKey       // of elf
	trust     trust
	shape     string // see elffile.File.Shape; only files of equal shape are compared
	symbols   int    // number of sources of names in the file
	mapped    uint64 // bytes from ELF virtual address 0 that are mapped regardless of the segments
	directory unwind.Directory

	building sync.Mutex         // one page at a time; guards the rest
	rows     language.RowSource // source of the pages
	built    time.Time          // when a page was last built
	missed   int                // pages built because a walk missed them
	closed   bool
	recent   map[uint64]*unwind.Page // pages of walks in user space for which the store had no room

	// Guarded by the registry.
	members   map[*Executable]bool
	users     int       // members, images that have their names from it, running comparisons
	unusedFor time.Time // when users became 0
	queued    bool      // it is or was queued for comparison
	compared  bool      // content is known
	content   elffile.Content
	names     *image // image of equal code with more symbols; nil if its own names are used
}

// newImage returns the image of an executable's own file, which is nil if it cannot be read.
func newImage(e *Executable, file *elffile.File) *image {
	i := &image{first: e, elf: file, rows: noRows{}, trust: trust{private: true}}
	if file != nil {
		i.rows = &fileRows{elf: file, index: runIndexing}
	}
	return i
}

// describe sets the properties of an opened file with status st. A copy is private: its original may show different
// content to different users.
func (i *image) describe(st *unix.Stat_t, isCopy bool) {
	i.key, i.trust = keyOf(st), trustOf(i.elf.Fd(), st)
	if isCopy {
		var own unix.Stat_t
		if unix.Fstat(i.elf.Fd(), &own) == nil {
			i.key = keyOf(&own)
		}
		i.trust.private = true
	}
	i.shape = i.elf.Shape()
	if i.elf.HasSymtab() {
		i.symbols++
	}
	if i.elf.HasSection(".debug_info") || i.elf.HasSection(".zdebug_info") {
		i.symbols++
	}
}

// MaxPages bounds the directory of an executable: 1 MiB of table memory, for 8 GiB of text.
const MaxPages = 1 << 17

// loadDirectory reserves a directory for i's pages in the store.
func (i *image) loadDirectory(store Store) error {
	first, last, ok := textRange(i.elf.TextSegments())
	if !ok {
		return errors.New("no executable segment")
	}
	if i.mapped > last {
		last = i.mapped - 1
	}
	shift := unwindtable.PageShift(i.elf)
	for shift < unwind.MaxPageShift && last>>shift-first>>shift >= MaxPages {
		shift++
	}
	from, to := first>>shift, last>>shift
	if to-from >= MaxPages || to >= 1<<32 {
		return fmt.Errorf("text from 0x%x to 0x%x is more than %d pages, or too far away", first, last, MaxPages)
	}
	var err error
	i.directory, err = store.AddDirectory(uint32(from), uint32(to-from+1), shift)
	return err
}

// textRange returns the first and last ELF virtual address in the memory pages that hold the given segments.
func textRange(segments []elffile.Segment) (first, last uint64, ok bool) {
	for _, s := range segments {
		end := s.Vaddr + s.Memsz
		if s.Memsz == 0 || end < s.Vaddr {
			continue
		}
		if !ok {
			first, last, ok = s.Vaddr, end-1, true
		}
		first, last = min(first, s.Vaddr), max(last, end-1)
	}
	memoryPage := uint64(os.Getpagesize())
	return first &^ (memoryPage - 1), last | (memoryPage - 1), ok
}

// unchanged reports whether the file still has the identity that it was opened with. It costs one system call, which
// only reads the file's inode.
func (i *image) unchanged() bool {
	var st unix.Stat_t
	return i.elf != nil && unix.Fstat(i.elf.Fd(), &st) == nil && keyOf(&st) == i.key
}

// resident reports whether a page is in the store, or would be if there was room.
func (i *image) resident(store Store, n uint64) bool {
	return store.Resident(i.directory, n) || i.recent[n] != nil
}

// dropPages drops pages from the store. The caller holds i.building.
func (i *image) dropPages(store Store, pages []uint64) {
	for _, n := range pages {
		store.DropPage(i.directory, n)
		delete(i.recent, n)
	}
}

// trimUnused frees data that is only needed to build pages, unless it was used recently.
func (i *image) trimUnused(since time.Time) {
	i.building.Lock()
	defer i.building.Unlock()
	if i.built.Before(since) {
		i.recent = nil
	}
	i.rows.Trim(since)
}

// close closes the image. It waits for a walk that is using it.
func (i *image) close() {
	i.building.Lock()
	defer i.building.Unlock()
	i.closed = true
	if i.elf != nil {
		i.elf.Close()
	}
	switch rows := i.rows.(type) {
	case *fileRows:
		rows.debug.close()
	case language.Code:
		rows.Close()
	}
}
