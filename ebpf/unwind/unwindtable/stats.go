package unwindtable

import (
	"cmp"
	"slices"

	"github.com/headwater/headwater/ebpf/object/elffile"
	"github.com/headwater/headwater/ebpf/unwind"
)

// directoryBytes is the number of bytes of table memory that a page takes in addition to its rows,
// see struct row_page in bpf/abi/rows.h.
const directoryBytes = 8

// Stats describes the size of a whole table.
type Stats struct {
	FDEs         int            `json:"fdes"`
	TextBytes    uint64         `json:"text_bytes"`      // bytes of the executable segments
	CoveredBytes uint64         `json:"covered_bytes"`   // bytes of text with a rule
	ByAnalysis   uint64         `json:"from_code_bytes"` // bytes of text with a rule from code analysis
	Gaps         int            `json:"gaps"`            // ranges of text without a rule
	GapBytes     uint64         `json:"gap_bytes"`       // bytes of text without a rule
	PageBytes    uint64         `json:"page_bytes"`      // bytes of text that a page covers
	Pages        int            `json:"pages"`           // pages with rows
	EmptyPages   int            `json:"empty_pages"`     // pages that are all gap, without rows
	Rows         int            `json:"rows"`            // in all pages
	WideRules    int            `json:"wide_rules"`      // in all pages
	RowBytes     int            `json:"row_bytes"`       // bytes of table memory for rows and wide rules
	DirBytes     int            `json:"directory_bytes"` // bytes of table memory for the directory of pages
	BytesPerRow  float64        `json:"bytes_per_row"`   // including directory and wide rules
	MedianRows   int            `json:"median_rows"`     // per page with rows
	MaxRows      int            `json:"max_rows"`        // of a page
	Untranslated []Untranslated `json:"untranslated"`    // text whose rule cannot be executed
	Sources      []SourceStats  `json:"sources"`         // of the rules, in order of precedence
}

// Untranslated is text whose rule cannot be executed for one reason.
type Untranslated struct {
	Reason string  `json:"reason"`
	Bytes  uint64  `json:"bytes"`
	Share  float64 `json:"share"` // fraction of the text that is not a gap
}

// Stats makes all rows of the segments of text, in pages of 1<<shift bytes, and returns their size.
// The error is a read error.
func (t *Table) Stats(text []elffile.Segment, shift uint8) (Stats, error) {
	c := statsCounter{unsupported: make(map[unwind.Reason]uint64)}
	c.FDEs, c.PageBytes, c.Untranslated = t.FDEs(), 1<<shift, []Untranslated{}
	var counts sourceBytes
	for _, segment := range text {
		for page, err := range t.pages(segment, shift, &counts) {
			if err != nil {
				return Stats{}, err
			}
			c.countPage(page, counts)
		}
		for r, err := range t.Ranges(segment, shift) {
			if err != nil {
				return Stats{}, err
			}
			c.countRange(r)
		}
	}
	c.finish()
	c.Sources = t.bySource(c.bySource, c.ByAnalysis, c.GapBytes)
	return c.Stats, nil
}

type statsCounter struct {
	Stats
	unsupported map[unwind.Reason]uint64
	rowsOfPages []int
	bySource    sourceBytes
	next        uint64 // number of the last counted page, plus one
}

// countPage adds a page. Segments may share a page, which is counted once.
func (c *statsCounter) countPage(p *unwind.Page, by sourceBytes) {
	if p.Number < c.next {
		return
	}
	c.next = p.Number + 1
	c.ByAnalysis += uint64(p.ByAnalysis)
	c.bySource.first += by.first
	c.bySource.second += by.second
	c.bySource.known += by.known
	c.Rows += len(p.Rows)
	c.WideRules += len(p.Wide)
	c.RowBytes += 8 * p.Len()
	c.DirBytes += directoryBytes
	if len(p.Rows) == 0 {
		c.EmptyPages++
		return
	}
	c.Pages++
	c.rowsOfPages = append(c.rowsOfPages, len(p.Rows))
}

// countRange adds a range of text.
func (c *statsCounter) countRange(r Range) {
	size := r.End - r.Start
	c.TextBytes += size
	switch r.Rule.CFA {
	case unwind.CFANone:
		c.Gaps++
		c.GapBytes += size
	case unwind.CFAUnsupported:
		c.unsupported[unwind.Reason(r.Rule.CFAOff)] += size
	default:
		c.CoveredBytes += size
	}
}

func (c *statsCounter) finish() {
	if c.Rows > 0 {
		c.BytesPerRow = float64(c.RowBytes+c.DirBytes) / float64(c.Rows)
	}
	if n := len(c.rowsOfPages); n > 0 {
		slices.Sort(c.rowsOfPages)
		c.MedianRows, c.MaxRows = c.rowsOfPages[n/2], c.rowsOfPages[n-1]
	}
	for reason, bytes := range c.unsupported {
		share := float64(bytes) / float64(c.TextBytes-c.GapBytes)
		c.Untranslated = append(c.Untranslated, Untranslated{reason.String(), bytes, share})
	}
	slices.SortStableFunc(c.Untranslated, func(a, b Untranslated) int { return cmp.Compare(b.Bytes, a.Bytes) })
}
