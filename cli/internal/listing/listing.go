// Package listing writes the unwind table of a file as text and as JSON.
package listing

import (
	"debug/elf"
	"errors"
	"fmt"
	"strings"

	"github.com/headwater/headwater/ebpf/elffile"
	"github.com/headwater/headwater/ebpf/unwindtable"
)

// File is the unwind table of a file.
type File struct {
	path    string
	file    *elffile.File
	table   *unwindtable.Table
	machine elf.Machine
	shift   uint8 // of its pages
}

// Open opens the table of the file at path. The caller must close it. A file without unwind information is an error.
func Open(path string) (*File, error) {
	f, err := elffile.Open(path)
	if err != nil {
		return nil, err
	}
	t := &File{path: path, file: f, machine: f.Machine(), shift: unwindtable.PageShift(f)}
	if t.table, err = tableOf(f); err != nil {
		f.Close()
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	return t, nil
}

// Close closes the file.
func (t *File) Close() error { return t.file.Close() }

func tableOf(f *elffile.File) (*unwindtable.Table, error) {
	if f.Class() != elf.ELFCLASS64 {
		return nil, fmt.Errorf("%w: a 32-bit file", unwindtable.ErrMachine)
	}
	table, err := unwindtable.New(f)
	if err == nil && table.FDEs() == 0 {
		err = unwindtable.ErrNoUnwindInfo
	}
	if errors.Is(err, unwindtable.ErrNoUnwindInfo) {
		const missing = "no .eh_frame, no .debug_frame, no table of Go functions; frame pointers are followed"
		return nil, fmt.Errorf("%w: %s", unwindtable.ErrNoUnwindInfo, missing)
	}
	return table, err
}

// segmentOf returns the executable segment that holds pc.
func (t *File) segmentOf(pc uint64) (elffile.Segment, error) {
	var text []string
	for _, s := range t.file.TextSegments() {
		if pc >= s.Vaddr && pc-s.Vaddr < s.Memsz {
			return s, nil
		}
		text = append(text, fmt.Sprintf("%#x-%#x", s.Vaddr, s.Vaddr+s.Memsz))
	}
	return elffile.Segment{}, fmt.Errorf("pc %#x is outside the text of %s, %s", pc, t.path, strings.Join(text, ", "))
}
