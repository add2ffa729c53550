package listing

import (
	"encoding/json"
	"fmt"
	"io"

	"github.com/headwater/headwater/ebpf/unwind/unwindtable"
)

// Stats is the size of a whole table, as JSON.
type Stats struct {
	File      string `json:"file"`
	DebugFile string `json:"debug_file,omitempty"` // with .debug_frame
	unwindtable.Stats
}

// WriteStats writes the size of the table.
func (t *File) WriteStats(out io.Writer, asJSON bool) error {
	s, err := t.table.Stats(t.file.TextSegments(), t.shift)
	if err != nil {
		return fmt.Errorf("%s: %w", t.path, err)
	}
	record := Stats{t.path, t.debug.Path, s}
	if asJSON {
		return json.NewEncoder(out).Encode(record)
	}
	return record.write(out)
}

func (s *Stats) write(out io.Writer) error {
	described := max(s.TextBytes-s.GapBytes, 1)
	fmt.Fprintf(out, "%s\n\n", s.File)
	fmt.Fprintf(out, "text            %12d bytes\n", s.TextBytes)
	fmt.Fprintf(out, "with a rule     %12d bytes, %.3f %% of the text that is not a gap\n",
		s.CoveredBytes, 100*float64(s.CoveredBytes)/float64(described))
	s.writeSources(out)
	fmt.Fprintf(out, "gaps            %12d bytes, in %d ranges: frame pointers are followed\n", s.GapBytes, s.Gaps)
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

// writeSources writes the sources of the rules.
func (s *Stats) writeSources(out io.Writer) {
	for _, source := range s.Sources {
		switch source.Source {
		case unwindtable.SourceEHFrame:
			fmt.Fprintf(out, "  .eh_frame     %12d bytes, by %d FDEs\n", source.Bytes, source.Entries)
		case unwindtable.SourceDebugFrame:
			file := s.DebugFile
			if file == "" {
				file = s.File
			}
			fmt.Fprintf(out, "  .debug_frame  %12d bytes, by %d FDEs in %s\n", source.Bytes, source.Entries, file)
		case unwindtable.SourceGo:
			fmt.Fprintf(out, "  Go's table    %12d bytes, by %d functions\n", source.Bytes, source.Entries)
		case unwindtable.SourceKnownCode:
			fmt.Fprintf(out, "  known code    %12d bytes, where threads and programs start and signals return\n", source.Bytes)
		case unwindtable.SourceCode:
			fmt.Fprintf(out, "  the code      %12d bytes, where there is no call frame information\n", source.Bytes)
		}
	}
}
