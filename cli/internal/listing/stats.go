package listing

import (
	"encoding/json"
	"fmt"
	"io"

	"github.com/headwater/headwater/ebpf/unwindtable"
)

// Stats is the size of a whole table, as JSON.
type Stats struct {
	File string `json:"file"`
	unwindtable.Stats
}

// WriteStats writes the size of the table.
func (t *File) WriteStats(out io.Writer, asJSON bool) error {
	s, err := t.table.Stats(t.file.TextSegments(), t.shift)
	if err != nil {
		return fmt.Errorf("%s: %w", t.path, err)
	}
	record := Stats{t.path, s}
	if asJSON {
		return json.NewEncoder(out).Encode(record)
	}
	return record.write(out)
}

func (s *Stats) write(out io.Writer) error {
	described := max(s.TextBytes-s.GapBytes, 1)
	fmt.Fprintf(out, "%s: %d FDEs or Go functions\n\n", s.File, s.FDEs)
	fmt.Fprintf(out, "text            %12d bytes\n", s.TextBytes)
	fmt.Fprintf(out, "with a rule     %12d bytes, %.3f %% of the text that is not a gap\n",
		s.CoveredBytes, 100*float64(s.CoveredBytes)/float64(described))
	fmt.Fprintf(out, "from the code   %12d of them, where there is no call frame information\n", s.ByAnalysis)
	fmt.Fprintf(out, "gaps            %12d bytes, in %d ranges\n", s.GapBytes, s.Gaps)
	fmt.Fprintf(out, "pages           %12d of %d KiB, and %d without rows\n", s.Pages, s.PageBytes>>10, s.EmptyPages)
	fmt.Fprintf(out, "rows            %12d, a page has %d (median) to %d\n", s.Rows, s.MedianRows, s.MaxRows)
	fmt.Fprintf(out, "wide rules      %12d\n", s.WideRules)
	fmt.Fprintf(out, "table memory    %12d bytes, and %d for the directory: %.2f bytes a row\n",
		s.RowBytes, s.DirBytes, s.BytesPerRow)
	if len(s.Untranslated) == 0 {
		_, err := fmt.Fprintln(out, "untranslated               0 bytes")
		return err
	}
	for _, u := range s.Untranslated {
		fmt.Fprintf(out, "untranslated    %12d bytes, %.4f %%: %s\n", u.Bytes, 100*u.Share, u.Reason)
	}
	return nil
}
