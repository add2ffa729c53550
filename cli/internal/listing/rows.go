package listing

import (
	"bufio"
	"debug/elf"
	"encoding/json"
	"fmt"
	"io"

	"github.com/headwater/headwater/ebpf/unwind"
	"github.com/headwater/headwater/ebpf/unwind/unwindtable"
)

// Row is a row as JSON.
type Row struct {
	Start  string `json:"start"`
	End    string `json:"end"`
	CFA    string `json:"cfa"`
	FP     string `json:"fp"`
	RA     string `json:"ra"`
	Reason string `json:"reason,omitempty"` // why the rule cannot be executed
}

func recordOf(r unwindtable.Range, m elf.Machine) Row {
	cfa, fp, ra := r.Rule.Columns(m)
	record := Row{Start: address(r.Start), End: address(r.End), CFA: cfa, FP: fp, RA: ra}
	if r.Rule.CFA == unwind.CFAUnsupported {
		record.CFA, record.Reason = "", unwind.Reason(r.Rule.CFAOff).String()
	}
	return record
}

func address(v uint64) string { return fmt.Sprintf("%#x", v) }

// WriteRows writes all rows.
func (t *File) WriteRows(out io.Writer, asJSON bool) error {
	w := bufio.NewWriter(out)
	encoder := json.NewEncoder(w)
	if !asJSON {
		t.writeHead(w)
	}
	for _, segment := range t.file.TextSegments() {
		for r, err := range t.table.Ranges(segment, t.shift) {
			switch {
			case err != nil:
				return fmt.Errorf("%s: %w", t.path, err)
			case asJSON:
				err = encoder.Encode(recordOf(r, t.machine))
			default:
				err = t.writeRange(w, r)
			}
			if err != nil {
				return err
			}
		}
	}
	return w.Flush()
}

// writeHead writes the heading of a table in text.
func (t *File) writeHead(w io.Writer) {
	fp := "rbp"
	if t.machine == elf.EM_AARCH64 {
		fp = "x29"
	}
	fmt.Fprintf(w, "%-16s %-16s %-22s %-10s %s\n", "from", "to", "CFA", fp, "ra")
}

// writeRange writes a row of a table in text.
func (t *File) writeRange(w io.Writer, r unwindtable.Range) error {
	cfa, fp, ra := r.Rule.Columns(t.machine)
	_, err := fmt.Fprintf(w, "%016x %016x %-22s %-10s %s\n", r.Start, r.End, cfa, fp, ra)
	return err
}

// PC is the row of one address and its FDE, as JSON.
type PC struct {
	PC      string `json:"pc"`
	Row     Row    `json:"row"`
	Formula string `json:"formula"`
	FDE     *FDE   `json:"fde,omitempty"` // nil if no FDE covers the address
}

// FDE describes an FDE, as JSON.
type FDE struct {
	Section      string `json:"section"`
	File         string `json:"file"` // that has the section
	Offset       string `json:"offset"`
	CIE          string `json:"cie"`
	Augmentation string `json:"augmentation"`
	Start        string `json:"start"`
	End          string `json:"end"`
}

// WritePC writes the row of pc, and its FDE.
func (t *File) WritePC(out io.Writer, pc uint64, asJSON bool) error {
	row, err := t.rowAt(pc)
	if err != nil {
		return err
	}
	entry, ok, err := t.table.Entry(pc)
	if err != nil {
		return fmt.Errorf("%s: %w", t.path, err)
	}
	if asJSON {
		record := PC{PC: address(pc), Row: recordOf(row, t.machine), Formula: row.Rule.String()}
		if ok {
			record.FDE = &FDE{
				Section: entry.Section, File: t.fileOf(entry.Section), Offset: address(entry.Offset), CIE: address(entry.CIE),
				Augmentation: entry.Augmentation, Start: address(entry.Start), End: address(entry.End),
			}
		}
		return json.NewEncoder(out).Encode(record)
	}
	t.writeHead(out)
	if err := t.writeRange(out, row); err != nil {
		return err
	}
	fmt.Fprintf(out, "\n%s\n", row.Rule)
	if !ok {
		_, err = fmt.Fprintln(out,
			"no FDE covers this address: the row is from the code or Go's table of functions, or a gap")
		return err
	}
	section := entry.Section
	if file := t.fileOf(section); file != t.path {
		section += " in " + file
	}
	_, err = fmt.Fprintf(out, "FDE %#x of %s, pc=%#x..%#x; CIE %#x %q\n",
		entry.Offset, section, entry.Start, entry.End, entry.CIE, entry.Augmentation)
	return err
}

// fileOf returns the path of the file whose section is used.
func (t *File) fileOf(section string) string {
	if section == ".debug_frame" && t.debug.File != nil {
		return t.debug.Path
	}
	return t.path
}

// rowAt returns the row of pc, limited to its page.
func (t *File) rowAt(pc uint64) (unwindtable.Range, error) {
	segment, err := t.segmentOf(pc)
	if err != nil {
		return unwindtable.Range{}, err
	}
	page := pc >> t.shift << t.shift
	segment.Memsz = min(segment.Vaddr+segment.Memsz, page+1<<t.shift) - max(segment.Vaddr, page)
	segment.Vaddr = max(segment.Vaddr, page)
	for r, err := range t.table.Ranges(segment, t.shift) {
		if err != nil {
			return unwindtable.Range{}, fmt.Errorf("%s: %w", t.path, err)
		}
		if r.Start <= pc && pc < r.End {
			return r, nil
		}
	}
	return unwindtable.Range{}, nil
}
