// Package tablestore is the memory of the tables that the unwinder in the kernel reads: the mappings of processes, and
// for each executable a directory of pages of unwind rows. It consists of slabs, which BPF programs read.
package tablestore

import (
	"fmt"
	"sync"
	"sync/atomic"
	"time"
	"unsafe"

	"github.com/headwater/headwater/ebpf/unwind"
)

// The layout of table memory, see enum limits in bpf/abi/limits.h, row_page_state and
// row_page_mark in bpf/abi/rows.h.
const (
	SlabWords    = 1 << 18         // words of 8 bytes in a slab
	MaxSlabs     = 1 << 10         // maximum number of slabs
	WordBits     = 28              // of a word's index
	WordMask     = 1<<WordBits - 1 // the bits of that index
	MappingWords = 4               // words of one mapping of a process
	PageResident = 1               // state of a page of rows
	PageAccessed = 1               // mark of a page that a walk has looked up
)

// Store is table memory and an index of its contents. Safe for concurrent use.
type Store struct {
	mu      sync.Mutex
	slabs   *slabs
	pages   residentPages
	dirs    map[uint32]dirEntry // by first word of the directory
	easy    int                 // bytes that pages without demand may use, see easyBytes
	evicted uint64
	short   bool             // pages were evicted to make room, and use is not back below ease
	changed func(short bool) // called when resident rows are evicted or replaced, or short becomes false
}

// easyBytes is the memory of a Store below which it may keep pages that no walk has looked up, or not recently: if a
// walk misses a page, the sample costs a copy of a stack. It is twice the memory of the rows of a compiler, and a small
// part of the memory of whole tables.
const easyBytes = 11 << 20

type dirEntry struct {
	run
	directory unwind.Directory
}

// New returns a store of at most the given number of bytes, but at least one slab. create makes slab number n and
// registers it with the BPF programs; slabs are made in order, on demand, and closed with the store. changed is called
// whenever a resident page of rows is evicted or replaced: walks may have cached its rows. While short is true, walks
// must not cache rows, because pages in use would look unused. changed must not call the store.
func New(create func(n int) (Slab, error), changed func(short bool), bytes int) (*Store, error) {
	s, err := newSlabs(create, bytes)
	if err != nil {
		return nil, err
	}
	store := newStore(s)
	store.easy, store.changed = easyBytes, changed
	return store, nil
}

func newStore(s *slabs) *Store {
	return &Store{slabs: s, pages: newResidentPages(), dirs: map[uint32]dirEntry{}, changed: func(bool) {}}
}

// Close closes the slabs. Later additions, such as by a worker that has waited for a file, return ErrClosed.
func (s *Store) Close() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.slabs.close()
}

// SetLimit changes the limit of memory, in bytes. Memory beyond a lower limit stays reserved, but is not used.
func (s *Store) SetLimit(bytes int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.slabs.setLimit(bytes)
	s.makeRoom(0)
}

// AddDirectory allocates the entries of an executable's pages of rows, all absent at first. Each page covers 1<<shift
// bytes of text.
func (s *Store) AddDirectory(first, pages uint32, shift uint8) (unwind.Directory, error) {
	if pages == 0 {
		return unwind.Directory{}, nil
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	r, words, err := s.alloc(int(pages))
	if err != nil {
		return unwind.Directory{}, fmt.Errorf("directory of %d pages: %w", pages, err)
	}
	clear(words)
	d := unwind.Directory{Word: r.start, First: first, Pages: pages, Shift: shift}
	s.dirs[r.start] = dirEntry{run: r, directory: d}
	return d, nil
}

// SetPage makes a page of rows resident. If the page has no rows, its frames are unwound by frame pointer. When memory
// runs short, SetPage evicts pages that were not looked up recently; it returns an error if that was not enough yet.
func (s *Store) SetPage(d unwind.Directory, page uint64, p *unwind.Page) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	entry, ok := s.entry(d, page)
	if !ok {
		return fmt.Errorf("page %d is outside its directory", page)
	}
	n := p.Len()
	s.makeRoom(8 * n)
	var r run
	if n > 0 {
		var words []uint64
		var err error
		if r, words, err = s.alloc(n); err != nil {
			return fmt.Errorf("store %d unwind rows: %w", len(p.Rows), err)
		}
		p.AppendWords(words[:0])
	}
	if err := s.storeEntry(entry, uint64(r.start)|uint64(uint16(len(p.Rows)))<<32|PageResident<<48); err != nil {
		s.slabs.release(r)
		return fmt.Errorf("store %d unwind rows: %w", len(p.Rows), err)
	}
	if old := s.pages.setPage(entry, r, len(p.Rows)); old.words != 0 {
		s.slabs.release(old)
		s.changed(s.short)
	}
	return nil
}

// Shares of table memory, in eighths: makeRoom starts to evict above evictAbove and stops at evictTo. Evicted memory
// can only be used half a second later, so some memory must be left until then.
const (
	evictAbove = 7
	evictTo    = 6
)

// makeRoom evicts pages if an allocation of bytes would leave little memory.
func (s *Store) makeRoom(bytes int) {
	limit := s.slabs.limitBytes()
	if (s.slabs.usedBytes()+bytes)/8 <= limit/64*evictAbove {
		return
	}
	s.short = true
	for s.slabs.usedBytes()/8 > limit/64*evictTo {
		entry, ok := s.pages.victim(s.wasAccessed)
		if !ok || !s.evict(entry) {
			return
		}
	}
}

// Unbuilt returns the pages in [from, to) that are not resident. It returns none unless so little memory is used that
// pages may be made resident before a walk looks them up.
func (s *Store) Unbuilt(d unwind.Directory, from, to uint64) (pages []uint64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.slabs.usedBytes() >= s.easeBudget() {
		return nil
	}
	for page := from; page < to; page++ {
		if entry, ok := s.entry(d, page); ok && !s.pages.hasPage(entry) {
			pages = append(pages, page)
		}
	}
	return pages
}

// easeBudget returns the number of bytes that pages without demand may use.
func (s *Store) easeBudget() int { return min(s.easy, s.slabs.limitBytes()/2) }

// EvictUnused evicts the pages that no walk has looked up for the given time, if the memory in use is at least ease, so
// that the resident pages are the pages in demand. It must be called more often than that time, because a call only
// notices that a page was looked up since the call before.
func (s *Store) EvictUnused(lately time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.slabs.usedBytes() < s.easeBudget() {
		if s.short {
			s.short = false
			s.changed(false)
		}
		return
	}
	for _, entry := range s.pages.unused(time.Now().Add(-lately), s.wasAccessed) {
		if !s.evict(entry) {
			return
		}
	}
}

// DropPage evicts a page whose rows are no longer valid.
func (s *Store) DropPage(d unwind.Directory, page uint64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if entry, ok := s.entry(d, page); ok && s.pages.hasPage(entry) {
		s.evict(entry)
	}
}

func (s *Store) evict(entry uint32) bool {
	if s.storeEntry(entry, 0) != nil {
		return false
	}
	s.slabs.release(s.pages.remove(entry))
	s.changed(s.short)
	s.evicted++
	return true
}

// wasAccessed reports whether walks have looked up a page since the last call for it. It writes only the mark byte, as
// BPF does.
func (s *Store) wasAccessed(entry uint32) bool {
	const markByte = 7 // of struct row_page, little endian
	words, err := s.slabs.words(entry, 1)
	if err != nil {
		return true // it cannot be evicted now
	}
	mark := &unsafe.Slice((*byte)(unsafe.Pointer(&words[0])), 8)[markByte]
	accessed := *mark == PageAccessed
	*mark = 0
	return accessed
}

// Rule returns the rule at vaddr, an ELF virtual address of an executable with directory d. It returns false if the
// page is not resident.
func (s *Store) Rule(d unwind.Directory, vaddr uint64) (unwind.WideRule, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	word, ok := s.entry(d, d.Page(vaddr))
	if !ok {
		return unwind.WideRule{}, false
	}
	page := s.pages.byEntry[word]
	if page == nil {
		return unwind.WideRule{}, false
	}
	words, err := s.slabs.words(word, 1)
	if err != nil {
		return unwind.WideRule{}, false
	}
	rows := int(uint16(atomic.LoadUint64(&words[0]) >> 32))
	if rows == 0 {
		return unwind.WideRule{}, true
	}
	if words, err = s.slabs.words(page.start, int(page.words)); err != nil {
		return unwind.WideRule{}, false
	}
	return unwind.RuleIn(words, rows, vaddr), true
}

// Resident reports whether a page of an executable with directory d is resident. It reads no table memory.
func (s *Store) Resident(d unwind.Directory, page uint64) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	entry, ok := s.entry(d, page)
	return ok && s.pages.hasPage(entry)
}

// RemoveDirectory frees a directory and its pages. No process may have mappings that refer to it.
func (s *Store) RemoveDirectory(d unwind.Directory) {
	s.mu.Lock()
	defer s.mu.Unlock()
	dir, ok := s.dirs[d.Word]
	if !ok {
		return
	}
	for i := uint32(0); i < d.Pages; i++ {
		_ = s.storeEntry(d.Word+i, 0) // no walk reads these entries
		if s.pages.hasPage(d.Word + i) {
			s.slabs.release(s.pages.remove(d.Word + i))
		}
	}
	s.slabs.release(dir.run)
	delete(s.dirs, d.Word)
}

// Usage is the use of table memory.
type Usage struct {
	Pages    int    // resident pages of rows
	Rows     int    // rows in the resident pages
	RowBytes uint64 // table memory of the resident rows
	Evicted  uint64 // pages evicted so far: not looked up recently, or to make room for other pages
	Used     uint64 // bytes of rows, directories and mappings
	Reserved uint64 // bytes of kernel memory reserved
	Limit    uint64 // maximum bytes of kernel memory
}

// Usage returns the current use.
func (s *Store) Usage() Usage {
	s.mu.Lock()
	defer s.mu.Unlock()
	return Usage{
		Pages: s.pages.len(), Rows: s.pages.rows, RowBytes: uint64(8 * s.pages.words), Evicted: s.evicted,
		Used: uint64(s.slabs.usedBytes()), Reserved: uint64(s.slabs.bytes()), Limit: uint64(s.slabs.limitBytes()),
	}
}

// alloc returns a run of n words and the words themselves, which stay mapped until the next call.
func (s *Store) alloc(n int) (run, []uint64, error) {
	r, err := s.slabs.alloc(n)
	if err != nil {
		return run{}, nil, err
	}
	words, err := s.slabs.words(r.start, n)
	if err != nil {
		s.slabs.release(r)
		return run{}, nil, err
	}
	return r, words, nil
}

// entry returns the word of the directory entry of a page.
func (s *Store) entry(d unwind.Directory, page uint64) (uint32, bool) {
	if dir, ok := s.dirs[d.Word]; !ok || dir.directory != d || !d.Holds(page) {
		return 0, false
	}
	return d.Word + uint32(page) - d.First, true
}

// storeEntry publishes a directory entry: a reader that sees the entry also sees the rows written before it.
func (s *Store) storeEntry(word uint32, entry uint64) error {
	words, err := s.slabs.words(word, 1)
	if err != nil {
		return err
	}
	atomic.StoreUint64(&words[0], entry)
	return nil
}
