package kernel

import (
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/headwater/headwater/ebpf/unwind"
)

// bareTables are tables without maps behind them.
func bareTables(slabs int) *Tables {
	s := bareSlabs(slabs)
	s.limit = slabs
	s.free[0] = []run{{start: runAlign, words: uint32(slabWords - runAlign)}}
	return newTables(s, nil)
}

// fullPage is a page of so many rows.
func fullPage(rows int) *unwind.Page {
	p := &unwind.Page{Rows: make([]unwind.Row, rows)}
	for i := range p.Rows {
		p.Rows[i] = unwind.Row{Off: uint16(i), CFA: unwind.CFASP, CFAOff: int16(i)}
	}
	return p
}

// lookUp marks a page as BPF does when a walk looks it up.
func (t *Tables) lookUp(d unwind.Directory, page uint64) bool {
	entry, _ := t.entry(d, page)
	words, _ := t.slabs.words(entry, 1)
	word := &words[0]
	if *word>>48&0xff != uint64(profilerPageStatePAGE_RESIDENT) {
		return false
	}
	*word |= uint64(profilerPageMarkPAGE_ACCESSED) << 56
	return true
}

// Resident reports whether a page has been set.
func (t *Tables) Resident(d unwind.Directory, page uint64) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	entry, ok := t.entry(d, page)
	if !ok {
		return false
	}
	return t.pages.has(entry)
}

// TestEviction fills memory more than twice over, while two pages are looked up
// all the time: those stay, and the limit holds.
func TestEviction(t *testing.T) {
	const rows, pages = 8000, 200
	tables := bareTables(2)
	d, err := tables.AddDirectory(10, pages, unwind.MaxPageShift)
	if err != nil {
		t.Fatal(err)
	}
	hot := []uint64{10, 13}
	for page := uint64(10); page < 10+pages; page++ {
		if err := tables.SetPage(d, page, fullPage(rows)); err != nil {
			t.Fatalf("page %d: %v", page, err)
		}
		for _, h := range hot {
			if h <= page && !tables.lookUp(d, h) {
				t.Fatalf("page %d was evicted while it was in use, when page %d came", h, page)
			}
		}
		tables.slabs.forget()
	}
	u := tables.Usage()
	if u.Reserved != uint64(2*slabBytes) || u.Used > u.Limit || u.Evicted < pages/2 || uint64(u.Pages)+u.Evicted != pages {
		t.Errorf("usage %+v after %d pages of %d bytes in %d", u, pages, 8*rows, 2*slabBytes)
	}
	for page := uint64(10); page < 10+pages; page++ {
		if tables.Resident(d, page) != tables.lookUp(d, page) {
			t.Errorf("page %d: user space and the kernel differ about its being there", page)
		}
	}
}

// TestEvictUnused gives up what is not looked up, and nothing else.
func TestEvictUnused(t *testing.T) {
	const pages = 6
	tables := bareTables(1)
	d, err := tables.AddDirectory(0, pages, unwind.MinPageShift)
	if err != nil {
		t.Fatal(err)
	}
	for page := range uint64(pages) {
		if err := tables.SetPage(d, page, fullPage(50)); err != nil {
			t.Fatal(err)
		}
	}
	resident := func() (found []uint64) {
		for page := range uint64(pages) {
			if tables.lookUp(d, page) != tables.Resident(d, page) {
				t.Errorf("page %d: user space and the kernel differ about its being there", page)
			}
			if tables.Resident(d, page) {
				found = append(found, page)
			}
		}
		tables.EvictUnused(time.Hour) // forgets that they were looked up
		return found
	}
	tables.EvictUnused(time.Hour)
	if got := resident(); len(got) != pages {
		t.Errorf("pages %v are resident, want all: none is an hour old", got)
	}
	for _, page := range []uint64{1, 4} {
		tables.lookUp(d, page)
	}
	tables.EvictUnused(0)
	if got := resident(); !slices.Equal(got, []uint64{1, 4}) {
		t.Errorf("pages %v are resident, want those that were looked up", got)
	}
	if u := tables.Usage(); u.Rows != 2*50 || u.Evicted != pages-2 {
		t.Errorf("usage %+v with two pages of 50 rows", u)
	}
}

// TestNoRoom has nothing to evict.
func TestNoRoom(t *testing.T) {
	tables := bareTables(1)
	if _, err := tables.AddDirectory(0, uint32(slabWords), unwind.MaxPageShift); !errors.Is(err, errTableMemory) {
		t.Errorf("a directory as large as memory: %v", err)
	}
	d, err := tables.AddDirectory(0, 8, unwind.MaxPageShift)
	if err != nil {
		t.Fatal(err)
	}
	for page := range uint64(8) {
		err = tables.SetPage(d, page, fullPage(60_000))
	}
	if !errors.Is(err, errTableMemory) {
		t.Errorf("eight pages of 60,000 rows in %d words: %v", slabWords, err)
	}
}

func TestDirectories(t *testing.T) {
	tables := bareTables(1)
	d, err := tables.AddDirectory(10, 5, unwind.MaxPageShift)
	if err != nil {
		t.Fatal(err)
	}
	if err := tables.SetPage(d, 12, fullPage(3)); err != nil {
		t.Fatal(err)
	}
	if got, want := tables.rows(d, 12), fullPage(3).Words(); !slices.Equal(got, want) {
		t.Errorf("page 12 reads as %x, want %x", got, want)
	}
	if err := tables.SetPage(d, 12, fullPage(3)); err != nil { // once more
		t.Fatal(err)
	}
	if u := tables.Usage(); u.Pages != 1 || u.Rows != 3 || u.RowBytes != 8*runAlign || u.Used != 2*8*runAlign {
		t.Errorf("usage %+v with one page of 3 rows", u)
	}
	for _, page := range []uint64{9, 15, 1 << 40} {
		if err := tables.SetPage(d, page, fullPage(1)); err == nil {
			t.Errorf("page %d was set outside of a directory of pages 10 to 14", page)
		}
	}
	tables.RemoveDirectory(d)
	if err := tables.SetPage(d, 12, fullPage(3)); err == nil {
		t.Error("a page was set in a directory that is gone")
	}
	if u := tables.Usage(); u.Used != 0 || u.Pages != 0 || u.Rows != 0 || u.RowBytes != 0 {
		t.Errorf("usage %+v when all is removed", u)
	}
}

// rows reads a page as BPF does.
func (t *Tables) rows(d unwind.Directory, page uint64) []uint64 {
	words, _ := t.slabs.words((zeroPage(d)+uint32(page))&uint32(profilerLimitsWORD_MASK), 1)
	entry := words[0]
	words, _ = t.slabs.words(uint32(entry), int(entry>>32&0xffff))
	return words
}
