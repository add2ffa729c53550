package unwindtable

import (
	"io"
	"math/rand/v2"
	"testing"

	"github.com/headwater/headwater/ebpf/unwind"
)

// countedReads counts the reads of a section.
type countedReads struct {
	io.ReaderAt
	reads int
}

func (c *countedReads) ReadAt(b []byte, off int64) (int, error) {
	c.reads++
	return c.ReaderAt.ReadAt(b, off)
}

// TestFewReads: finding a page takes few reads of the search table, and neighbouring pages take
// almost none.
func TestFewReads(t *testing.T) {
	table := openTable(t, largest(t))
	header := &countedReads{ReaderAt: table.sections.EHFrameHdr.Data}
	table.sections.EHFrameHdr.Data = header
	first := table.sections.Text[0].Addr >> unwind.MinPageShift
	pages := table.sections.Text[0].Size >> unwind.MinPageShift
	build := func(n uint64) int {
		before := header.reads
		if _, err := table.Page(first+n, unwind.MinPageShift); err != nil {
			t.Fatal(err)
		}
		return header.reads - before
	}
	random, reads := rand.New(rand.NewPCG(1, 2)), 0
	const searches = 2000
	for range searches { // the first steps of the searches are cached
		build(random.Uint64N(pages))
	}
	for range searches {
		reads += build(random.Uint64N(pages))
	}
	if reads > searches*3/2 {
		t.Errorf("%d reads of the search table for %d pages here and there", reads, searches)
	}
	t.Logf("%.2f reads a page here and there", float64(reads)/searches)
	next, inOrder := 0, min(pages/2, searches)
	build(pages / 4)
	for n := range inOrder {
		next += build(pages/4 + 1 + n)
	}
	if next > int(inOrder)/2 {
		t.Errorf("%d reads of the search table for %d pages next to each other", next, inOrder)
	}
	t.Logf("%.2f reads a page next to another", float64(next)/float64(inOrder))
}
