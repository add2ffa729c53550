// Package process is the state machine behind the unwinder: which processes
// there are, which executables they have mapped where, and which pages of
// unwind rows of those executables are resident in the kernel.
package process

import (
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/headwater/headwater/ebpf/elffile"
	"github.com/headwater/headwater/ebpf/unwind"
)

// Store is where the unwinder in the kernel looks things up; kernel.Tables is
// one. See there for the contracts.
type Store interface {
	SetProcess(pid uint32, p unwind.Process) error
	DeleteProcess(pid uint32) error
	AddDirectory(first, pages uint32) (unwind.Directory, error)
	SetPage(d unwind.Directory, page uint64, p *unwind.Page) error
	Resident(d unwind.Directory, page uint64) bool
	Rule(d unwind.Directory, vaddr uint64) (unwind.WideRule, bool)
	RemoveDirectory(d unwind.Directory)
	HasRoom() bool
}

// Executable is one distinct ELF file that processes have mapped. Its identity
// is its build ID, or the file itself where there is none. All fields but those
// of the registry are set once, before anybody else sees it.
type Executable struct {
	ID      uint32 // never reused within a Tracker
	Path    string // as the first process that mapped it sees it
	BuildID string // GNU build ID, hex, or ""
	Root    string // /proc/PID/root of that process, which may be gone
	Err     error  // why the file could not be read; nil otherwise

	elf       *elffile.File // kept open: the path may change its meaning; nil with Err
	directory unwind.Directory

	filling   sync.Mutex              // one page at a time; guards the rest
	table     *unwind.Table           // nil: not in use
	tableUsed time.Time               // when a page was last built
	recent    map[uint64]*unwind.Page // pages that walks in user space used, and the store had no room for

	refs        int       // mappings of processes; guarded by the registry
	unusedSince time.Time // when refs became 0
}

// smallPages is the size, in pages of rows, up to which an executable is filled
// at first sight.
const smallPages = 64

// middlePages is the size up to which the rest of an executable is filled while
// there is nothing else to do: 16 MiB of text.
const middlePages = 256

// maxPages bounds the directory of an executable: 16 GiB of text.
const maxPages = 1 << 18

// load makes room for the pages of e.
func (e *Executable) load(store Store) error {
	first, last, ok := textPages(e.elf.TextSegments())
	if !ok {
		return fmt.Errorf("%s: no executable segment", e.Path)
	}
	if last-first >= maxPages {
		return fmt.Errorf("%s: text from 0x%x to 0x%x is more than %d pages", e.Path, first<<unwind.PageShift, last<<unwind.PageShift, maxPages)
	}
	var err error
	e.directory, err = store.AddDirectory(uint32(first), uint32(last-first+1))
	return err
}

// textPages returns the first and last page of rows of the given segments.
func textPages(segments []elffile.Segment) (first, last uint64, ok bool) {
	for _, s := range segments {
		end := s.Vaddr + s.Memsz
		if s.Memsz == 0 || end < s.Vaddr {
			continue
		}
		lo, hi := s.Vaddr>>unwind.PageShift, (end-1)>>unwind.PageShift
		if !ok {
			first, last, ok = lo, hi, true
		}
		first, last = min(first, lo), max(last, hi)
	}
	return first, last, ok && last < 1<<32
}

// Segment returns the executable segment that holds vaddr.
func (e *Executable) Segment(vaddr uint64) (elffile.Segment, bool) {
	if e.elf == nil {
		return elffile.Segment{}, false
	}
	for _, s := range e.elf.TextSegments() {
		if vaddr >= s.Vaddr && vaddr-s.Vaddr < s.Memsz {
			return s, true
		}
	}
	return elffile.Segment{}, false
}

// Open opens the executable anew, even when it has been deleted. The caller
// closes it.
func (e *Executable) Open() (*elffile.File, error) {
	if e.Err != nil {
		return nil, e.Err
	}
	return e.elf.Reopen()
}

// open returns what pages are built of; nil without unwind information. e.filling
// is held.
func (e *Executable) open() (*unwind.Table, error) {
	e.tableUsed = time.Now()
	if e.table != nil {
		return e.table, nil
	}
	table, err := unwind.NewTable(e.elf)
	if errors.Is(err, unwind.ErrNoUnwindInfo) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("%s: %w", e.Path, err)
	}
	e.table = table
	return table, nil
}

// page builds one page of rows; without unwind information it has none.
func (e *Executable) page(n uint64) (*unwind.Page, error) {
	table, err := e.open()
	if err != nil {
		return nil, err
	}
	if table == nil {
		return &unwind.Page{}, nil
	}
	p, err := table.Page(n)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", e.Path, err)
	}
	return p, nil
}

// callFrame returns what call frame information states about vaddr.
func (e *Executable) callFrame(vaddr uint64) (c unwind.CallFrame, ok bool, err error) {
	e.filling.Lock()
	defer e.filling.Unlock()
	table, err := e.open()
	if err != nil || table == nil {
		return c, false, err
	}
	if c, ok, err = table.CallFrame(vaddr); err != nil {
		return c, false, fmt.Errorf("%s: %w", e.Path, err)
	}
	return c, ok, nil
}

// rest frees what is only needed to build pages, unless it was in use lately.
func (e *Executable) rest(since time.Time) {
	e.filling.Lock()
	defer e.filling.Unlock()
	if e.tableUsed.Before(since) {
		e.table, e.recent = nil, nil
	}
}

// fill makes one page resident, unless it is.
func (e *Executable) fill(store Store, n uint64) error {
	if !e.directory.Holds(n) {
		return nil
	}
	e.filling.Lock()
	defer e.filling.Unlock()
	if store.Resident(e.directory, n) {
		return nil
	}
	p, err := e.page(n)
	if err != nil {
		// Say so once, and let walks end there without asking again.
		p = &unwind.Page{Rows: []unwind.Row{{CFA: unwind.CFAUnsupported}}}
	}
	return errors.Join(err, store.SetPage(e.directory, n, p))
}

func (e *Executable) close() {
	if e.elf != nil {
		e.elf.Close()
	}
}
