package tablestore

import (
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/headwater/headwater/ebpf/unwind"
)

// bareStore returns a store without BPF maps.
func bareStore(slabs int) *Store {
	s := bareSlabs(slabs)
	s.limit = slabs
	s.free[0] = []run{{start: runAlign, words: uint32(SlabWords - runAlign)}}
	return newStore(s)
}

// fullPage returns a page with a number of rows.
func fullPage(rows int) *unwind.Page {
	p := &unwind.Page{Rows: make([]unwind.Row, rows)}
	for i := range p.Rows {
		p.Rows[i] = unwind.Row{Off: uint16(i), CFA: unwind.CFASP, CFAOff: int16(i)}
	}
	return p
}

// lookUp marks a page as BPF does when a walk looks it up.
func (s *Store) lookUp(d unwind.Directory, page uint64) bool {
	entry, _ := s.entry(d, page)
	words, _ := s.slabs.words(entry, 1)
	word := &words[0]
	if *word>>48&0xff != PageResident {
		return false
	}
	*word |= PageAccessed << 56
	return true
}

// TestEviction fills memory more than twice over, while two pages are looked up all the time: these two stay, and the
// limit holds.
func TestEviction(t *testing.T) {
	const rows, pages = 8000, 200
	store := bareStore(2)
	d, err := store.AddDirectory(10, pages, unwind.MaxPageShift)
	if err != nil {
		t.Fatal(err)
	}
	hot := []uint64{10, 13}
	for page := uint64(10); page < 10+pages; page++ {
		if err := store.SetPage(d, page, fullPage(rows)); err != nil {
			t.Fatalf("page %d: %v", page, err)
		}
		for _, h := range hot {
			if h <= page && !store.lookUp(d, h) {
				t.Fatalf("page %d was evicted while it was in use, when page %d came", h, page)
			}
		}
		store.slabs.forget()
	}
	u := store.Usage()
	if u.Reserved != uint64(2*slabBytes) || u.Used > u.Limit || u.Evicted < pages/2 ||
		uint64(u.Pages)+u.Evicted != pages {
		t.Errorf("usage %+v after %d pages of %d bytes in %d", u, pages, 8*rows, 2*slabBytes)
	}
	for page := uint64(10); page < 10+pages; page++ {
		if store.Resident(d, page) != store.lookUp(d, page) {
			t.Errorf("page %d: user space and the kernel differ about its being there", page)
		}
	}
}

// TestEvictUnused evicts only pages that are not looked up.
func TestEvictUnused(t *testing.T) {
	const pages = 6
	store := bareStore(1)
	d, err := store.AddDirectory(0, pages, unwind.MinPageShift)
	if err != nil {
		t.Fatal(err)
	}
	for page := range uint64(pages) {
		if err := store.SetPage(d, page, fullPage(50)); err != nil {
			t.Fatal(err)
		}
	}
	resident := func() (found []uint64) {
		for page := range uint64(pages) {
			if store.lookUp(d, page) != store.Resident(d, page) {
				t.Errorf("page %d: user space and the kernel differ about its being there", page)
			}
			if store.Resident(d, page) {
				found = append(found, page)
			}
		}
		store.EvictUnused(time.Hour) // clears the accessed marks
		return found
	}
	store.EvictUnused(time.Hour)
	if got := resident(); len(got) != pages {
		t.Errorf("pages %v are resident, want all: none is an hour old", got)
	}
	for _, page := range []uint64{1, 4} {
		store.lookUp(d, page)
	}
	store.EvictUnused(0)
	if got := resident(); !slices.Equal(got, []uint64{1, 4}) {
		t.Errorf("pages %v are resident, want those that were looked up", got)
	}
	if u := store.Usage(); u.Rows != 2*50 || u.Evicted != pages-2 {
		t.Errorf("usage %+v with two pages of 50 rows", u)
	}
}

// TestChanged: changed is called when rows are evicted or replaced, and short stays true until little memory is used.
func TestChanged(t *testing.T) {
	const rows, pages = 8000, 40
	store := bareStore(1)
	var told []bool
	store.changed = func(short bool) { told = append(told, short) }
	d, err := store.AddDirectory(0, pages, unwind.MaxPageShift)
	if err != nil {
		t.Fatal(err)
	}
	set := func(page uint64) {
		t.Helper()
		if err := store.SetPage(d, page, fullPage(rows)); err != nil {
			t.Fatal(err)
		}
		store.slabs.forget()
	}
	expect := func(what string, want ...bool) {
		t.Helper()
		if !slices.Equal(told, want) {
			t.Errorf("%s: told %v, want %v", what, told, want)
		}
		told = nil
	}
	set(0)
	expect("a new page")
	set(0)
	expect("other rows", false)
	store.DropPage(d, 0)
	expect("a page that is dropped", false)
	for page := range uint64(pages) {
		set(page)
	}
	if len(told) == 0 || slices.Contains(told, false) {
		t.Errorf("pages that made room: told %v, want that memory is short", told)
	}
	told = nil
	store.easy = 0
	store.EvictUnused(time.Hour)
	expect("much is used")
	store.easy = slabBytes
	for page := range uint64(pages) {
		if store.slabs.usedBytes() > slabBytes/4 {
			store.DropPage(d, page)
		}
	}
	told = nil
	store.EvictUnused(time.Hour)
	store.EvictUnused(time.Hour)
	expect("little is used", false)
}

// TestNoRoom has no pages to evict.
func TestNoRoom(t *testing.T) {
	store := bareStore(1)
	if _, err := store.AddDirectory(0, uint32(SlabWords), unwind.MaxPageShift); !errors.Is(err, ErrFull) {
		t.Errorf("a directory as large as memory: %v", err)
	}
	d, err := store.AddDirectory(0, 8, unwind.MaxPageShift)
	if err != nil {
		t.Fatal(err)
	}
	for page := range uint64(8) {
		err = store.SetPage(d, page, fullPage(60_000))
	}
	if !errors.Is(err, ErrFull) {
		t.Errorf("eight pages of 60,000 rows in %d words: %v", SlabWords, err)
	}
}

func TestDirectories(t *testing.T) {
	store := bareStore(1)
	d, err := store.AddDirectory(10, 5, unwind.MaxPageShift)
	if err != nil {
		t.Fatal(err)
	}
	if err := store.SetPage(d, 12, fullPage(3)); err != nil {
		t.Fatal(err)
	}
	if got, want := store.rows(d, 12), fullPage(3).Words(); !slices.Equal(got, want) {
		t.Errorf("page 12 reads as %x, want %x", got, want)
	}
	if err := store.SetPage(d, 12, fullPage(3)); err != nil { // again
		t.Fatal(err)
	}
	if u := store.Usage(); u.Pages != 1 || u.Rows != 3 || u.RowBytes != 8*runAlign || u.Used != 2*8*runAlign {
		t.Errorf("usage %+v with one page of 3 rows", u)
	}
	for _, page := range []uint64{9, 15, 1 << 40} {
		if err := store.SetPage(d, page, fullPage(1)); err == nil {
			t.Errorf("page %d was set outside of a directory of pages 10 to 14", page)
		}
	}
	store.RemoveDirectory(d)
	if err := store.SetPage(d, 12, fullPage(3)); err == nil {
		t.Error("a page was set in a directory that is gone")
	}
	if u := store.Usage(); u.Used != 0 || u.Pages != 0 || u.Rows != 0 || u.RowBytes != 0 {
		t.Errorf("usage %+v when all is removed", u)
	}
}

// rows reads a page as BPF does.
func (s *Store) rows(d unwind.Directory, page uint64) []uint64 {
	words, _ := s.slabs.words((zeroPage(d)+uint32(page))&WordMask, 1)
	entry := words[0]
	words, _ = s.slabs.words(uint32(entry), int(entry>>32&0xffff))
	return words
}

// TestClosed: a worker that opened a file too late finds the store closed, with words in quarantine or without.
func TestClosed(t *testing.T) {
	store := bareStore(1)
	d, err := store.AddDirectory(0, 4, unwind.MinPageShift)
	if err != nil {
		t.Fatal(err)
	}
	if err := store.SetPage(d, 0, fullPage(100)); err != nil {
		t.Fatal(err)
	}
	store.DropPage(d, 0)
	store.slabs.dead[0].since = time.Now().Add(-quarantine)
	if err := store.Close(); err != nil {
		t.Fatal(err)
	}
	if _, err := store.AddDirectory(0, 4, unwind.MinPageShift); !errors.Is(err, ErrClosed) {
		t.Errorf("a directory more: %v", err)
	}
	if _, err := store.AddMappings(make([]unwind.Mapping, 1)); !errors.Is(err, ErrClosed) {
		t.Errorf("mappings more: %v", err)
	}
	if err := store.SetPage(d, 0, fullPage(100)); !errors.Is(err, ErrClosed) {
		t.Errorf("a page more: %v", err)
	}
	if _, resident := store.Rule(d, 0); resident {
		t.Error("a rule of the closed store")
	}
	store.DropPage(d, 0)
	store.EvictUnused(0)
	store.RemoveDirectory(d)
}

// TestUnbuilt: while little memory is used, pages without demand may be built, and stay; after that, neither.
func TestUnbuilt(t *testing.T) {
	store := bareStore(2)
	store.easy = 8 * SlabWords / 2
	d, err := store.AddDirectory(100, 8, unwind.MinPageShift)
	if err != nil {
		t.Fatal(err)
	}
	if err := store.SetPage(d, 103, fullPage(SlabWords/4)); err != nil {
		t.Fatal(err)
	}
	if got := store.Unbuilt(d, 98, 105); !slices.Equal(got, []uint64{100, 101, 102, 104}) {
		t.Errorf("pages %v are not built, 103 is", got)
	}
	store.EvictUnused(0)
	if !store.Resident(d, 103) {
		t.Error("a page was given up though there is room")
	}
	if err := store.SetPage(d, 104, fullPage(SlabWords/4)); err != nil {
		t.Fatal(err)
	}
	if got := store.Unbuilt(d, 98, 105); got != nil {
		t.Errorf("pages %v may be built, but half a slab is used", got)
	}
	store.lookUp(d, 104)
	store.EvictUnused(0)
	if store.Resident(d, 103) || !store.Resident(d, 104) {
		t.Error("the page that was looked up has to stay, the other not")
	}
}
