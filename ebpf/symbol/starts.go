package symbol

import (
	"errors"

	"github.com/headwater/headwater/ebpf/object/elffile"
	"github.com/headwater/headwater/ebpf/unwind/unwindtable"
)

// starts finds the start of functions without a symbol from call frame information, which stripped code also has. One
// goroutine uses it at a time.
type starts struct {
	file   *elffile.File
	opened bool
	table  *unwindtable.Table // nil before it is opened, and if it cannot be opened
}

// newStarts returns nil if the file has no call frame information.
func newStarts(file *elffile.File) *starts {
	_, eh := file.OpenEHFrame()
	_, debug := file.OpenDebugFrame()
	if errors.Is(eh, elffile.ErrNoSection) && errors.Is(debug, elffile.ErrNoSection) {
		return nil
	}
	return &starts{file: file}
}

// entry returns the call frame information for the ELF virtual address at; ok is false if there is none, or if s is
// nil.
func (s *starts) entry(at uint64) (entry unwindtable.Entry, ok bool) {
	if !s.openReader() {
		return unwindtable.Entry{}, false
	}
	entry, ok, err := s.table.Entry(at)
	return entry, ok && err == nil
}

// between reports whether a function with call frame information starts after ELF virtual address from, and at or
// before to.
func (s *starts) between(from, to uint64) bool {
	if !s.openReader() {
		return false
	}
	start, ok, err := s.table.LastStart(to)
	return err == nil && ok && start > from
}

// openReader opens the table, and reports whether there is one.
func (s *starts) openReader() bool {
	if s == nil {
		return false
	}
	if !s.opened {
		s.opened = true
		s.table, _ = unwindtable.New(s.file)
	}
	return s.table != nil
}

// startOf returns the start of the function at the ELF virtual address at, or at itself if the start is unknown or s is
// nil.
func (s *starts) startOf(at uint64) uint64 {
	if entry, ok := s.entry(at); ok {
		return entry.Start
	}
	return at
}

// startsBytes is the approximate memory of an open table: its windows on the sections.
const startsBytes = 16 << 10

func (s *starts) bytes() int {
	if s == nil || s.table == nil {
		return 0
	}
	return startsBytes + s.table.IndexBytes()
}
