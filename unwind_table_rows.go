package main

import (
	"bufio"
	"debug/elf"
	"encoding/json"
	"fmt"
	"io"

	"github.com/headwater/headwater/ebpf/unwind"
)

// rowRecord is a row as JSON.
type rowRecord struct {
	Start  string `json:"start"`
	End    string `json:"end"`
	CFA    string `json:"cfa"`
	FP     string `json:"fp"`
	RA     string `json:"ra"`
	Reason string `json:"reason,omitempty"` // why the rule cannot be executed
}

func recordOf(r tableRow, m elf.Machine) rowRecord {
	cfa, fp, ra := r.rule.Columns(m)
	record := rowRecord{Start: address(r.start), End: address(r.end), CFA: cfa, FP: fp, RA: ra}
	if r.rule.CFA == unwind.CFAUnsupported {
		record.CFA, record.Reason = "", unwind.Reason(r.rule.CFAOff).String()
	}
	return record
}

func address(v uint64) string { return fmt.Sprintf("%#x", v) }

// showRows writes all rows.
func (t *fileTable) showRows(out io.Writer, asJSON bool) error {
	w := bufio.NewWriter(out)
	encoder := json.NewEncoder(w)
	if !asJSON {
		t.head(w)
	}
	err := t.rows(func(r tableRow) error {
		if asJSON {
			return encoder.Encode(recordOf(r, t.machine))
		}
		return t.line(w, r)
	})
	if err != nil {
		return err
	}
	return w.Flush()
}

// head writes the head of a table in text.
func (t *fileTable) head(w io.Writer) {
	fp := "rbp"
	if t.machine == elf.EM_AARCH64 {
		fp = "x29"
	}
	fmt.Fprintf(w, "%-16s %-16s %-22s %-10s %s\n", "from", "to", "CFA", fp, "ra")
}

// line writes a row of a table in text.
func (t *fileTable) line(w io.Writer, r tableRow) error {
	cfa, fp, ra := r.rule.Columns(t.machine)
	_, err := fmt.Fprintf(w, "%016x %016x %-22s %-10s %s\n", r.start, r.end, cfa, fp, ra)
	return err
}

// pcRecord is what is in force at one address, as JSON.
type pcRecord struct {
	PC      string     `json:"pc"`
	Row     rowRecord  `json:"row"`
	Formula string     `json:"formula"`
	FDE     *fdeRecord `json:"fde,omitempty"` // absent where there is none
}

type fdeRecord struct {
	Section      string `json:"section"`
	Offset       string `json:"offset"`
	CIE          string `json:"cie"`
	Augmentation string `json:"augmentation"`
	Start        string `json:"start"`
	End          string `json:"end"`
}

// showPC writes the row in force at pc, and its FDE.
func (t *fileTable) showPC(out io.Writer, pc uint64, asJSON bool) error {
	row, err := t.rowAt(pc)
	if err != nil {
		return err
	}
	entry, ok, err := t.table.Entry(pc)
	if err != nil {
		return fmt.Errorf("%s: %w", t.path, err)
	}
	if asJSON {
		record := pcRecord{PC: address(pc), Row: recordOf(row, t.machine), Formula: row.rule.String()}
		if ok {
			record.FDE = &fdeRecord{entry.Section, address(entry.Offset), address(entry.CIE), entry.Augmentation, address(entry.Start), address(entry.End)}
		}
		return json.NewEncoder(out).Encode(record)
	}
	t.head(out)
	if err := t.line(out, row); err != nil {
		return err
	}
	fmt.Fprintf(out, "\n%s\n", row.rule)
	if !ok {
		_, err = fmt.Fprintln(out, "no FDE is about this address: the row is by the code, by Go's table of functions, or a gap")
		return err
	}
	_, err = fmt.Fprintf(out, "FDE %#x of %s, pc=%#x..%#x; CIE %#x %q\n",
		entry.Offset, entry.Section, entry.Start, entry.End, entry.CIE, entry.Augmentation)
	return err
}

// rowAt returns the row in force at pc, as far as it goes in its page.
func (t *fileTable) rowAt(pc uint64) (tableRow, error) {
	segment, err := t.segmentOf(pc)
	if err != nil {
		return tableRow{}, err
	}
	page := pc >> t.shift << t.shift
	segment.Memsz = min(segment.Vaddr+segment.Memsz, page+1<<t.shift) - max(segment.Vaddr, page)
	segment.Vaddr = max(segment.Vaddr, page)
	var found tableRow
	err = t.segmentRows(segment, func(r tableRow) error {
		if r.start <= pc && pc < r.end {
			found = r
		}
		return nil
	})
	return found, err
}
