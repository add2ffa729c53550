package kernel

import (
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"
	"unsafe"

	"github.com/cilium/ebpf"

	"github.com/headwater/headwater/ebpf/unwind"
)

const mappingWords = int(profilerLimitsMAPPING_WORDS)

// Tables is what the unwinder in the kernel looks things up in: the mappings of
// processes, and for each executable a directory of pages of unwind rows. Safe
// for concurrent use.
type Tables struct {
	mu        sync.Mutex
	slabs     *slabs
	processes *ebpf.Map
	mappings  map[uint32]run // by PID
	pages     residentPages
	dirs      map[uint32]dirEntry // by first word of the directory
	evicted   uint64
}

type dirEntry struct {
	run
	directory unwind.Directory
}

func newTables(s *slabs, processes *ebpf.Map) *Tables {
	return &Tables{slabs: s, processes: processes, mappings: map[uint32]run{}, pages: newResidentPages(), dirs: map[uint32]dirEntry{}}
}

// SetLimit changes the limit of memory, in bytes. Memory taken stays taken, but
// is not used beyond the limit.
func (t *Tables) SetLimit(bytes int) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.slabs.setLimit(bytes)
	t.makeRoom(0)
}

// SetProcess makes the mappings of a process known, sorted by start and not
// overlapping, and drops those it had. Samples taken from now on carry
// p.Generation.
func (t *Tables) SetProcess(pid uint32, p unwind.Process) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	mappings := p.Mappings
	var r run
	if len(mappings) > 0 {
		var err error
		if r, err = t.slabs.alloc(len(mappings) * mappingWords); err != nil {
			return fmt.Errorf("store %d mappings of process %d: %w", len(mappings), pid, err)
		}
		words, err := t.slabs.words(r.start, len(mappings)*mappingWords)
		if err != nil {
			t.slabs.release(r)
			return fmt.Errorf("store %d mappings of process %d: %w", len(mappings), pid, err)
		}
		writeMappings(words, mappings)
	}
	value := profilerProcess{Mappings: r.start, Count: uint32(len(mappings)), Generation: p.Generation}
	var relative profilerProcess
	if p.SameProgramAs != 0 && t.processes.Lookup(p.SameProgramAs, &relative) == nil {
		value.Program = relative.Program
	}
	if p.Ignore {
		value.Flags |= uint32(profilerProcessFlagsPROCESS_IGNORED)
	}
	if p.MakesCode {
		value.Flags |= uint32(profilerProcessFlagsPROCESS_MAKES_CODE)
	}
	if err := t.processes.Put(pid, &value); err != nil {
		t.slabs.release(r)
		return fmt.Errorf("store process %d: %w", pid, err)
	}
	t.slabs.release(t.mappings[pid])
	t.mappings[pid] = r
	return nil
}

func writeMappings(words []uint64, mappings []unwind.Mapping) {
	for i, m := range mappings {
		w := words[i*mappingWords:]
		w[0], w[1], w[2] = m.Start, m.End, m.Bias
		w[3] = uint64(m.Exe) | uint64(directoryOf(m.Directory))<<32
	}
}

// directoryOf is how struct mapping in bpf/abi.h names a directory. It is 0 only for
// one without pages.
func directoryOf(d unwind.Directory) uint32 {
	if d.Pages == 0 {
		return 0
	}
	size := uint32(d.Shift) - uint32(profilerLimitsMIN_ROW_PAGE_SHIFT) + 1
	return zeroPage(d) | size<<uint32(profilerLimitsWORD_BITS)
}

// zeroPage is the index that the entry of page 0 would have, of the bits of an index.
func zeroPage(d unwind.Directory) uint32 { return (d.Word - d.First) & uint32(profilerLimitsWORD_MASK) }

// DeleteProcess forgets a process.
func (t *Tables) DeleteProcess(pid uint32) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	r, ok := t.mappings[pid]
	if !ok {
		return nil
	}
	delete(t.mappings, pid)
	t.slabs.release(r)
	if err := t.processes.Delete(pid); err != nil && !errors.Is(err, ebpf.ErrKeyNotExist) {
		return fmt.Errorf("forget process %d: %w", pid, err)
	}
	return nil
}

// AddDirectory makes room for the entries of an executable's pages of rows, all
// absent at first. Pages cover 1<<shift bytes of text each.
func (t *Tables) AddDirectory(first, pages uint32, shift uint8) (unwind.Directory, error) {
	if pages == 0 {
		return unwind.Directory{}, nil
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	r, err := t.slabs.alloc(int(pages))
	if err != nil {
		return unwind.Directory{}, fmt.Errorf("directory of %d pages: %w", pages, err)
	}
	words, err := t.slabs.words(r.start, int(pages))
	if err != nil {
		t.slabs.release(r)
		return unwind.Directory{}, fmt.Errorf("directory of %d pages: %w", pages, err)
	}
	clear(words)
	d := unwind.Directory{Word: r.start, First: first, Pages: pages, Shift: shift}
	t.dirs[r.start] = dirEntry{run: r, directory: d}
	return d, nil
}

// SetPage makes a page of rows resident. Without rows, frames of the page are
// unwound by frame pointer. When memory runs short, pages that were not looked
// up lately make room; the error says so if that was not enough yet.
func (t *Tables) SetPage(d unwind.Directory, page uint64, p *unwind.Page) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	entry, ok := t.entry(d, page)
	if !ok {
		return fmt.Errorf("page %d is outside its directory", page)
	}
	n := p.Len()
	t.makeRoom(8 * n)
	var r run
	if n > 0 {
		var err error
		if r, err = t.slabs.alloc(n); err != nil {
			return fmt.Errorf("store %d unwind rows: %w", len(p.Rows), err)
		}
		to, err := t.slabs.words(r.start, n)
		if err != nil {
			t.slabs.release(r)
			return fmt.Errorf("store %d unwind rows: %w", len(p.Rows), err)
		}
		p.AppendWords(to[:0])
	}
	if err := t.storeEntry(entry, uint64(r.start)|uint64(uint16(len(p.Rows)))<<32|uint64(profilerPageStatePAGE_RESIDENT)<<48); err != nil {
		t.slabs.release(r)
		return fmt.Errorf("store %d unwind rows: %w", len(p.Rows), err)
	}
	t.slabs.release(t.pages.set(entry, r, len(p.Rows)))
	return nil
}

// Shares of table memory, in eighths: makeRoom begins to evict above the first
// and stops at the second. What is evicted can be used half a second later, so
// some must be left until then.
const (
	evictAbove = 7
	evictTo    = 6
)

// makeRoom evicts pages when another few bytes would leave little memory.
func (t *Tables) makeRoom(bytes int) {
	limit := t.slabs.limitBytes()
	if (t.slabs.usedBytes()+bytes)/8 <= limit/64*evictAbove {
		return
	}
	for t.slabs.usedBytes()/8 > limit/64*evictTo {
		entry, ok := t.pages.victim(t.wasAccessed)
		if !ok || !t.evict(entry) {
			return
		}
	}
}

// EvictUnused gives up the pages that no walk has looked up lately, so that what is
// resident is what walks want, however much room there is. To notice that a page was
// looked up it has to be called more often than that.
func (t *Tables) EvictUnused(lately time.Duration) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, entry := range t.pages.unused(time.Now().Add(-lately), t.wasAccessed) {
		if !t.evict(entry) {
			return
		}
	}
}

// DropPage gives up a page: what it says is no longer so.
func (t *Tables) DropPage(d unwind.Directory, page uint64) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if entry, ok := t.entry(d, page); ok && t.pages.has(entry) {
		t.evict(entry)
	}
}

func (t *Tables) evict(entry uint32) bool {
	if t.storeEntry(entry, 0) != nil {
		return false
	}
	t.slabs.release(t.pages.remove(entry))
	t.evicted++
	return true
}

// wasAccessed reports whether walks have looked a page up since the last call for
// it. It changes the mark alone, as BPF does.
func (t *Tables) wasAccessed(entry uint32) bool {
	const markByte = 7 // of struct page, little endian
	words, err := t.slabs.words(entry, 1)
	if err != nil {
		return true // it cannot be evicted now
	}
	mark := &unsafe.Slice((*byte)(unsafe.Pointer(&words[0])), 8)[markByte]
	accessed := *mark == byte(profilerPageMarkPAGE_ACCESSED)
	*mark = 0
	return accessed
}

// Rule returns the rule in force at vaddr, an ELF virtual address of an executable
// with directory d, and false when its page is not resident.
func (t *Tables) Rule(d unwind.Directory, vaddr uint64) (unwind.WideRule, bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	word, ok := t.entry(d, d.Page(vaddr))
	if !ok {
		return unwind.WideRule{}, false
	}
	page := t.pages.byEntry[word]
	if page == nil {
		return unwind.WideRule{}, false
	}
	words, err := t.slabs.words(word, 1)
	if err != nil {
		return unwind.WideRule{}, false
	}
	rows := int(uint16(atomic.LoadUint64(&words[0]) >> 32))
	if rows == 0 {
		return unwind.WideRule{}, true
	}
	if words, err = t.slabs.words(page.start, int(page.words)); err != nil {
		return unwind.WideRule{}, false
	}
	return unwind.RuleIn(words, rows, vaddr), true
}

// RemoveDirectory frees a directory and its pages. No process may have mappings
// that name it.
func (t *Tables) RemoveDirectory(d unwind.Directory) {
	t.mu.Lock()
	defer t.mu.Unlock()
	dir, ok := t.dirs[d.Word]
	if !ok {
		return
	}
	for i := uint32(0); i < d.Pages; i++ {
		_ = t.storeEntry(d.Word+i, 0) // nobody looks there any more
		if t.pages.has(d.Word + i) {
			t.slabs.release(t.pages.remove(d.Word + i))
		}
	}
	t.slabs.release(dir.run)
	delete(t.dirs, d.Word)
}

// Usage is how table memory is used.
type Usage struct {
	Pages    int    // pages of rows that are resident
	Rows     int    // in them
	RowBytes uint64 // of table memory that these rows take
	Evicted  uint64 // pages given up so far: not looked up lately, or to make room for others
	Used     uint64 // bytes of rows, directories and mappings
	Reserved uint64 // bytes of kernel memory taken
	Limit    uint64 // bytes of kernel memory that may be taken
}

// Usage returns the present use.
func (t *Tables) Usage() Usage {
	t.mu.Lock()
	defer t.mu.Unlock()
	return Usage{
		Pages: t.pages.len(), Rows: t.pages.rows, RowBytes: uint64(8 * t.pages.words), Evicted: t.evicted,
		Used: uint64(t.slabs.usedBytes()), Reserved: uint64(t.slabs.bytes()), Limit: uint64(t.slabs.limitBytes()),
	}
}

func (t *Tables) entry(d unwind.Directory, page uint64) (uint32, bool) {
	if dir, ok := t.dirs[d.Word]; !ok || dir.directory != d || !d.Holds(page) {
		return 0, false
	}
	return d.Word + uint32(page) - d.First, true
}

// storeEntry publishes a directory entry: rows written before are seen by
// whoever sees the entry.
func (t *Tables) storeEntry(word uint32, entry uint64) error {
	words, err := t.slabs.words(word, 1)
	if err != nil {
		return err
	}
	atomic.StoreUint64(&words[0], entry)
	return nil
}
