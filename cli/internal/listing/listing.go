// Package listing writes the unwind table of a file as text and as JSON.
package listing

import (
	"debug/elf"
	"errors"
	"fmt"
	"path/filepath"
	"strings"

	"github.com/headwater/headwater/ebpf/object/debugfile"
	"github.com/headwater/headwater/ebpf/object/elffile"
	"github.com/headwater/headwater/ebpf/unwind/unwindtable"
)

// File is the unwind table of a file.
type File struct {
	path    string
	file    *elffile.File
	debug   debugfile.Found // with .debug_frame
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
	if t.table, err = t.openTable(); err != nil {
		t.Close()
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	return t, nil
}

// Close closes the file.
func (t *File) Close() error {
	t.debug.Close()
	return t.file.Close()
}

func (t *File) openTable() (*unwindtable.Table, error) {
	if t.file.Class() != elf.ELFCLASS64 {
		return nil, fmt.Errorf("%w: a 32-bit file", unwindtable.ErrMachine)
	}
	if err := t.findDebugFile(); err != nil {
		return nil, err
	}
	table, err := unwindtable.NewWithDebugFile(t.file, t.debug.File)
	if errors.Is(err, unwindtable.ErrNoUnwindInfo) {
		const missing = "no .eh_frame, no .debug_frame, no table of Go functions: the unwinder follows frame pointers"
		return nil, fmt.Errorf("%w: %s", unwindtable.ErrNoUnwindInfo, missing)
	}
	return table, err
}

// findDebugFile finds the debug file with .debug_frame, as the profiler does, unless the file itself has the section.
func (t *File) findDebugFile() error {
	if t.file.IsGo() || t.file.HasDebugFrame() {
		return nil
	}
	path, err := filepath.Abs(t.path)
	if err != nil {
		return err
	}
	w := debugfile.Wanted{Path: path, Useful: (*elffile.File).HasDebugFrame}
	w.Identify(t.file)
	t.debug, err = debugfile.New(nil, nil).Find(w)
	return err
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
