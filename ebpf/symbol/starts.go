package symbol

import (
	"errors"

	"github.com/headwater/headwater/ebpf/elffile"
	"github.com/headwater/headwater/ebpf/unwindtable"
)

// starts finds where functions without a symbol begin: call frame information says that of stripped code, too.
// One goroutine uses it at a time.
type starts struct {
	file   *elffile.File
	opened bool
	table  *unwindtable.Table // nil before it is opened, and if it cannot be
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

// of returns where the function at the ELF virtual address at begins; at itself if that is not known, which is so
// for a nil s, too.
func (s *starts) of(at uint64) uint64 {
	if s == nil {
		return at
	}
	if !s.opened {
		s.opened = true
		s.table, _ = unwindtable.New(s.file)
	}
	if s.table == nil {
		return at
	}
	if entry, ok, err := s.table.Entry(at); err == nil && ok {
		return entry.Start
	}
	return at
}

// startsBytes is about the memory of a table that is open: its windows on the sections.
const startsBytes = 16 << 10

func (s *starts) bytes() int {
	if s == nil || s.table == nil {
		return 0
	}
	return startsBytes + s.table.IndexBytes()
}
