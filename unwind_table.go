package main

import (
	"debug/elf"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"github.com/headwater/headwater/ebpf/elffile"
	"github.com/headwater/headwater/ebpf/unwind"
)

func unwindTableCommand() *cobra.Command {
	var options tableOptions
	cmd := &cobra.Command{
		Use:   "unwind-table [flags] FILE",
		Short: "Show the unwind rows of an executable or library",
		Long: `Shows the rows that user stacks are unwound by, as they are made from .eh_frame and
.debug_frame of FILE, or of Go's table of functions: from which pc on up to which, how
to find the canonical frame address (CFA), the caller's frame pointer and the return
address. The rules are written as "readelf --debug-dump=frames-interp" writes them: c-16 is what is stored 16
bytes below the CFA, s the same value as before, u undefined. Text without a rule
has "-": there the frame pointer is followed. A rule that cannot be executed has
the reason.`,
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			return showTable(cmd.OutOrStdout(), args[0], options)
		},
	}
	cmd.Flags().StringVar(&options.pc, "pc", "", "show only the row at this address of the file, in hexadecimal, and its FDE")
	cmd.Flags().BoolVar(&options.stats, "stats", false, "show sizes and what could not be translated instead of rows")
	cmd.Flags().BoolVar(&options.json, "json", false, "write JSON, one object a line")
	cmd.MarkFlagsMutuallyExclusive("pc", "stats")
	return cmd
}

type tableOptions struct {
	pc          string
	stats, json bool
}

func showTable(out io.Writer, path string, options tableOptions) error {
	t, err := openTable(path)
	if err != nil {
		return err
	}
	defer t.file.Close()
	switch {
	case options.pc != "":
		pc, err := strconv.ParseUint(strings.TrimPrefix(strings.ToLower(options.pc), "0x"), 16, 64)
		if err != nil {
			return fmt.Errorf("--pc %s: not an address in hexadecimal", options.pc)
		}
		return t.showPC(out, pc, options.json)
	case options.stats:
		return t.showStats(out, options.json)
	}
	return t.showRows(out, options.json)
}

// fileTable is the unwind table of a file.
type fileTable struct {
	path    string
	file    *elffile.File
	table   *unwind.Table
	machine elf.Machine
	shift   uint8 // of its pages
}

// openTable opens the table of the file at path; the caller closes the file. A
// file without unwind information is an error.
func openTable(path string) (*fileTable, error) {
	f, err := elffile.Open(path)
	if err != nil {
		return nil, err
	}
	t := &fileTable{path: path, file: f, machine: f.Machine(), shift: unwind.PageShift(f)}
	if t.table, err = tableOf(f); err != nil {
		f.Close()
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	return t, nil
}

func tableOf(f *elffile.File) (*unwind.Table, error) {
	if f.Class() != elf.ELFCLASS64 {
		return nil, fmt.Errorf("%w: a 32-bit file", unwind.ErrMachine)
	}
	table, err := unwind.NewTable(f)
	if err == nil && table.FDEs() == 0 {
		err = unwind.ErrNoUnwindInfo
	}
	if errors.Is(err, unwind.ErrNoUnwindInfo) {
		return nil, fmt.Errorf("%w: no .eh_frame, no .debug_frame, no table of Go functions; frame pointers are followed", unwind.ErrNoUnwindInfo)
	}
	return table, err
}

// tableRow is one rule and the text that it is in force for.
type tableRow struct {
	start, end uint64
	rule       unwind.WideRule
}

// rows calls yield for every row of the executable segments in ascending order
// within each, gaps included, until it returns an error. Equal neighbours are
// one row.
func (t *fileTable) rows(yield func(tableRow) error) error {
	for _, s := range t.file.TextSegments() {
		if err := t.segmentRows(s, yield); err != nil {
			return err
		}
	}
	return nil
}

func (t *fileTable) segmentRows(s elffile.Segment, yield func(tableRow) error) error {
	last := tableRow{start: s.Vaddr, end: s.Vaddr}
	err := t.pages(s, func(p *unwind.Page) error {
		for _, row := range rowsOf(p) {
			row.start, row.end = max(row.start, s.Vaddr), min(row.end, s.Vaddr+s.Memsz)
			switch {
			case row.start >= row.end:
				continue
			case row.rule == last.rule && last.start < last.end:
				last.end = row.end
				continue
			case last.start < last.end:
				if err := yield(last); err != nil {
					return err
				}
			}
			last = row
		}
		return nil
	})
	if err == nil && last.start < last.end {
		err = yield(last)
	}
	return err
}

// rowsOf returns the rows of p, gaps included.
func rowsOf(p *unwind.Page) []tableRow {
	rows := make([]tableRow, 0, len(p.Rows)+1)
	for _, r := range p.Rows {
		rows = append(rows, tableRow{start: p.Address(r), rule: p.Widen(r)})
	}
	if len(rows) == 0 {
		rows = append(rows, tableRow{start: p.Start()})
	}
	for i := range rows[1:] {
		rows[i].end = rows[i+1].start
	}
	rows[len(rows)-1].end = p.Start() + 1<<p.Shift
	return rows
}

// pages calls yield for every page of a segment, until it returns an error.
func (t *fileTable) pages(s elffile.Segment, yield func(*unwind.Page) error) error {
	end := s.Vaddr + s.Memsz
	if s.Memsz == 0 || end < s.Vaddr {
		return nil
	}
	for n := s.Vaddr >> t.shift; n <= (end-1)>>t.shift; n++ {
		p, err := t.table.Page(n, t.shift)
		if err == nil {
			err = yield(p)
		}
		if err != nil {
			return fmt.Errorf("%s: %w", t.path, err)
		}
	}
	return nil
}

// segmentOf returns the executable segment that holds pc.
func (t *fileTable) segmentOf(pc uint64) (elffile.Segment, error) {
	var text []string
	for _, s := range t.file.TextSegments() {
		if pc >= s.Vaddr && pc-s.Vaddr < s.Memsz {
			return s, nil
		}
		text = append(text, fmt.Sprintf("%#x-%#x", s.Vaddr, s.Vaddr+s.Memsz))
	}
	return elffile.Segment{}, fmt.Errorf("pc %#x is outside the text of %s, %s", pc, t.path, strings.Join(text, ", "))
}
