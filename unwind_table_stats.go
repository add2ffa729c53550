package main

import (
	"cmp"
	"encoding/json"
	"fmt"
	"io"
	"slices"

	"github.com/headwater/headwater/ebpf/unwind"
)

// directoryBytes is what a page takes in table memory besides its rows, see
// struct page in bpf/abi.h.
const directoryBytes = 8

// tableStats is the size of a whole table, as JSON.
type tableStats struct {
	File          string              `json:"file"`
	FDEs          int                 `json:"fdes"`
	TextBytes     uint64              `json:"text_bytes"`      // of the executable segments
	CoveredBytes  uint64              `json:"covered_bytes"`   // of these, with a rule
	FromCode      uint64              `json:"from_code_bytes"` // of these, with one that the code itself led to
	Gaps          int                 `json:"gaps"`            // ranges of text without a rule
	GapBytes      uint64              `json:"gap_bytes"`       // of text in them
	PageBytes     uint64              `json:"page_bytes"`      // of text that a page is about
	Pages         int                 `json:"pages"`           // with rows
	EmptyPages    int                 `json:"empty_pages"`     // that are all gap and have none
	Rows          int                 `json:"rows"`            // in all pages
	WideRules     int                 `json:"wide_rules"`      // in all pages
	RowBytes      int                 `json:"row_bytes"`       // of table memory, for rows and wide rules
	DirBytes      int                 `json:"directory_bytes"` // of table memory, for the directory of pages
	BytesPerRow   float64             `json:"bytes_per_row"`   // directory and wide rules included
	MedianRows    int                 `json:"median_rows"`     // of the pages that are not empty
	MaxRows       int                 `json:"max_rows"`        // of one page
	Untranslated  []untranslatedShare `json:"untranslated"`    // text with a rule that cannot be executed
	unsupported   map[unwind.Reason]uint64
	rowsOfPages   []int
	previousPages uint64 // the page counted last, plus one
}

type untranslatedShare struct {
	Reason string  `json:"reason"`
	Bytes  uint64  `json:"bytes"`
	Share  float64 `json:"share"` // of the text that is not a gap
}

// showStats writes the size of the table.
func (t *fileTable) showStats(out io.Writer, asJSON bool) error {
	s, err := t.stats()
	if err != nil {
		return err
	}
	if asJSON {
		return json.NewEncoder(out).Encode(s)
	}
	return s.write(out)
}

func (t *fileTable) stats() (*tableStats, error) {
	s := &tableStats{File: t.path, FDEs: t.table.FDEs(), PageBytes: 1 << t.shift, Untranslated: []untranslatedShare{}, unsupported: make(map[unwind.Reason]uint64)}
	for _, segment := range t.file.TextSegments() {
		if err := t.pages(segment, s.page); err != nil {
			return nil, err
		}
	}
	err := t.rows(func(r tableRow) error {
		s.row(r)
		return nil
	})
	if err != nil {
		return nil, err
	}
	s.finish()
	return s, nil
}

// page adds a page; segments may share one.
func (s *tableStats) page(p *unwind.Page) error {
	if p.Number < s.previousPages {
		return nil
	}
	s.previousPages = p.Number + 1
	s.FromCode += uint64(p.FromCode)
	s.Rows += len(p.Rows)
	s.WideRules += len(p.Wide)
	s.RowBytes += 8 * p.Len()
	s.DirBytes += directoryBytes
	if len(p.Rows) == 0 {
		s.EmptyPages++
		return nil
	}
	s.Pages++
	s.rowsOfPages = append(s.rowsOfPages, len(p.Rows))
	return nil
}

// row adds a row of the text.
func (s *tableStats) row(r tableRow) {
	size := r.end - r.start
	s.TextBytes += size
	switch r.rule.CFA {
	case unwind.CFANone:
		s.Gaps++
		s.GapBytes += size
	case unwind.CFAUnsupported:
		s.unsupported[unwind.Reason(r.rule.CFAOff)] += size
	default:
		s.CoveredBytes += size
	}
}

func (s *tableStats) finish() {
	if s.Rows > 0 {
		s.BytesPerRow = float64(s.RowBytes+s.DirBytes) / float64(s.Rows)
	}
	if n := len(s.rowsOfPages); n > 0 {
		slices.Sort(s.rowsOfPages)
		s.MedianRows, s.MaxRows = s.rowsOfPages[n/2], s.rowsOfPages[n-1]
	}
	for reason, bytes := range s.unsupported {
		share := float64(bytes) / float64(s.TextBytes-s.GapBytes)
		s.Untranslated = append(s.Untranslated, untranslatedShare{reason.String(), bytes, share})
	}
	slices.SortFunc(s.Untranslated, func(a, b untranslatedShare) int { return cmp.Compare(b.Bytes, a.Bytes) })
}

func (s *tableStats) write(out io.Writer) error {
	described := max(s.TextBytes-s.GapBytes, 1)
	fmt.Fprintf(out, "%s: %d FDEs or Go functions\n\n", s.File, s.FDEs)
	fmt.Fprintf(out, "text            %12d bytes\n", s.TextBytes)
	fmt.Fprintf(out, "with a rule     %12d bytes, %.3f %% of the text that is not a gap\n", s.CoveredBytes, 100*float64(s.CoveredBytes)/float64(described))
	fmt.Fprintf(out, "from the code   %12d of them, for want of call frame information\n", s.FromCode)
	fmt.Fprintf(out, "gaps            %12d bytes, in %d ranges\n", s.GapBytes, s.Gaps)
	fmt.Fprintf(out, "pages           %12d of %d KiB, and %d without rows\n", s.Pages, s.PageBytes>>10, s.EmptyPages)
	fmt.Fprintf(out, "rows            %12d, a page has %d (median) to %d\n", s.Rows, s.MedianRows, s.MaxRows)
	fmt.Fprintf(out, "wide rules      %12d\n", s.WideRules)
	fmt.Fprintf(out, "table memory    %12d bytes, and %d for the directory: %.2f bytes a row\n", s.RowBytes, s.DirBytes, s.BytesPerRow)
	if len(s.Untranslated) == 0 {
		_, err := fmt.Fprintln(out, "untranslated               0 bytes")
		return err
	}
	for _, u := range s.Untranslated {
		fmt.Fprintf(out, "untranslated    %12d bytes, %.4f %%: %s\n", u.Bytes, 100*u.Share, u.Reason)
	}
	return nil
}
