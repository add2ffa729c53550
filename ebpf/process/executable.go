// Package process is the state machine behind the unwinder: which processes
// there are, which executables they have mapped where, and which pages of
// unwind rows of those executables are resident in the kernel.
package process

import (
	"errors"
	"fmt"
	"os"
	"sync"
	"time"

	"github.com/headwater/headwater/ebpf/elffile"
	"github.com/headwater/headwater/ebpf/hotspot"
	"github.com/headwater/headwater/ebpf/unwind"
)

// Store is where the unwinder in the kernel looks things up; kernel.Tables is
// one. See there for the contracts.
type Store interface {
	SetProcess(pid uint32, p unwind.Process) error
	DeleteProcess(pid uint32) error
	AddDirectory(first, pages uint32, shift uint8) (unwind.Directory, error)
	SetPage(d unwind.Directory, page uint64, p *unwind.Page) error
	Rule(d unwind.Directory, vaddr uint64) (unwind.WideRule, bool)
	RemoveDirectory(d unwind.Directory)
	DropPage(d unwind.Directory, page uint64)
	EvictUnused(lately time.Duration)
}

// Executable is one distinct ELF file that processes have mapped. Its identity
// is its build ID, or the file itself where there is none. All fields but those
// of the registry are set once, before anybody else sees it.
type Executable struct {
	ID      uint32 // never reused within a Tracker
	Path    string // as the first process that mapped it sees it
	BuildID string // GNU build ID, hex, or ""
	PID     uint32 // of the process that has made the code; 0: a file
	Root    string // /proc/PID/root of that process, which may be gone
	Err     error  // why the file could not be read; nil otherwise

	elf       *elffile.File // kept open: the path may change its meaning; nil with Err
	mapped    uint64        // bytes from ELF virtual address 0 on that are mapped whatever the segments say
	directory unwind.Directory
	code      *codeCache // nil: a file

	building  sync.Mutex              // one page at a time; guards the rest
	table     *unwind.Table           // nil: not in use
	layout    *hotspot.Layout         // of a Java VM; nil: not read yet
	tableUsed time.Time               // when a page was last built
	recent    map[uint64]*unwind.Page // pages that walks in user space used, and the store had no room for

	refs        int       // mappings of processes; guarded by the registry
	unusedSince time.Time // when refs became 0
}

// maxPages bounds the directory of an executable: 1 MiB of table memory, for 8 GiB of text.
const maxPages = 1 << 17

// load makes room for the pages of e.
func (e *Executable) load(store Store) error {
	first, last, ok := textRange(e.elf.TextSegments())
	if !ok {
		return fmt.Errorf("%s: no executable segment", e.Path)
	}
	if e.mapped > last {
		last = e.mapped - 1
	}
	shift := unwind.PageShift(e.elf)
	for shift < unwind.MaxPageShift && last>>shift-first>>shift >= maxPages {
		shift++
	}
	from, to := first>>shift, last>>shift
	if to-from >= maxPages || to >= 1<<32 {
		return fmt.Errorf("%s: text from 0x%x to 0x%x is more than %d pages, or too far away", e.Path, first, last, maxPages)
	}
	var err error
	e.directory, err = store.AddDirectory(uint32(from), uint32(to-from+1), shift)
	return err
}

// textRange returns the first and last ELF virtual address in the pages of memory that
// the given segments are mapped by.
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

// errNoFile says that an executable is code that a process has made.
var errNoFile = errors.New("code made while the process runs is no file")

// Open opens the executable anew, even when it has been deleted. The caller
// closes it.
func (e *Executable) Open() (*elffile.File, error) {
	if e.Err != nil {
		return nil, e.Err
	}
	if e.code != nil {
		return nil, errNoFile
	}
	return e.elf.Reopen()
}

// open returns what pages are built of; nil without unwind information. e.building
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

// page builds one page of rows; without unwind information it has none. There is a
// page with an error, too: walks end there, and do not ask again.
func (e *Executable) page(n uint64) (*unwind.Page, error) {
	shift := e.directory.Shift
	if e.code != nil {
		return e.code.page(n, shift)
	}
	unreadable := &unwind.Page{Number: n, Shift: shift, Rows: []unwind.Row{{Off: uint16(n << shift), CFA: unwind.CFAUnsupported}}}
	table, err := e.open()
	if err != nil {
		return unreadable, err
	}
	if table == nil {
		return &unwind.Page{Number: n, Shift: shift}, nil
	}
	p, err := table.Page(n, shift)
	if err != nil {
		return unreadable, fmt.Errorf("%s: %w", e.Path, err)
	}
	return p, nil
}

// callFrame returns what call frame information states about vaddr.
func (e *Executable) callFrame(vaddr uint64) (c unwind.CallFrame, ok bool, err error) {
	e.building.Lock()
	defer e.building.Unlock()
	if e.code != nil {
		return c, false, nil
	}
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
	e.building.Lock()
	defer e.building.Unlock()
	if e.tableUsed.Before(since) {
		e.table, e.recent = nil, nil
	}
}

func (e *Executable) close() {
	if e.elf != nil {
		e.elf.Close()
	}
}
