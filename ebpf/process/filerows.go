package process

import (
	"encoding/binary"
	"errors"
	"time"

	"github.com/headwater/headwater/ebpf/elffile"
	"github.com/headwater/headwater/ebpf/filework"
	"github.com/headwater/headwater/ebpf/unwind"
	"github.com/headwater/headwater/ebpf/unwindtable"
)

// fileRows are the rows of a file. It implements runtime.RowSource.
type fileRows struct {
	elf   *elffile.File
	table *unwindtable.Table // nil if not in use
	used  time.Time          // when the table was last used

	// index runs long work: it reads all entries of a file without an index.
	index   indexing
	indexed *indexedTable // table whose index is being made; nil if none
}

// indexing starts work, or refuses to, and returns a function that waits for its end. The errors come from filework.
type indexing func(work func()) (wait func() error, err error)

// runIndexing runs the work at once, for small files.
func runIndexing(work func()) (wait func() error, err error) {
	work()
	return func() error { return nil }, nil
}

// indexedTable is a table whose index is being made.
type indexedTable struct {
	*unwindtable.Table
	wait func() error
}

// open returns the table that pages are built from, or nil if the file has no unwind information. An error for which
// filework.Later is true says that the index of the table is not made yet; the next call waits for the same work.
func (f *fileRows) open() (*unwindtable.Table, error) {
	f.used = time.Now()
	if f.table != nil {
		return f.table, nil
	}
	if f.indexed == nil {
		table, err := unwindtable.New(f.elf)
		if errors.Is(err, unwindtable.ErrNoUnwindInfo) {
			return nil, nil
		}
		if err != nil {
			return nil, err
		}
		if table.HasIndex() {
			f.table = table
			return table, nil
		}
		wait, err := f.index(table.MakeIndex)
		if err != nil {
			return nil, err
		}
		f.indexed = &indexedTable{table, wait}
	}
	if err := f.indexed.wait(); err != nil {
		return nil, err
	}
	f.table, f.indexed = f.indexed.Table, nil
	return f.table, nil
}

// ReadU64 implements unwind.Words.
func (f *fileRows) ReadU64(vaddr uint64) (uint64, bool) {
	var b [8]byte
	err := f.elf.ReadVaddr(b[:], vaddr)
	return binary.LittleEndian.Uint64(b[:]), err == nil
}

// Page implements runtime.RowSource. Without unwind information a page has no rows.
func (f *fileRows) Page(n uint64, shift uint8) (*unwind.Page, error) {
	unsupported := unwind.Row{Off: uint16(n << shift), CFA: unwind.CFAUnsupported}
	unreadable := &unwind.Page{Number: n, Shift: shift, Rows: []unwind.Row{unsupported}}
	if f.elf.Changed() {
		return unreadable, elffile.ErrChanged
	}
	table, err := f.open()
	if filework.Later(err) {
		return nil, err
	}
	if err != nil {
		return unreadable, err
	}
	if table == nil {
		return &unwind.Page{Number: n, Shift: shift}, nil
	}
	p, err := table.Page(n, shift)
	if err != nil {
		return unreadable, err
	}
	return p, p.Beyond
}

// CallFrame implements runtime.RowSource.
func (f *fileRows) CallFrame(vaddr uint64) (c unwind.CallFrame, ok bool, err error) {
	table, err := f.open()
	if err != nil || table == nil {
		return c, false, err
	}
	return table.CallFrame(vaddr)
}

// Outermost reports whether vaddr is in the code at the entry point.
func (f *fileRows) Outermost(vaddr uint64) (bool, error) {
	table, err := f.open()
	if err != nil || table == nil {
		return false, err
	}
	return table.Outermost(vaddr)
}

// Changed implements runtime.RowSource: a file that was written to becomes another executable.
func (f *fileRows) Changed([]uint64) []uint64 { return nil }

// Trim implements runtime.RowSource.
func (f *fileRows) Trim(since time.Time) {
	if f.used.Before(since) {
		f.table = nil
	}
}

// noRows stands for the rows of a file that cannot be read.
type noRows struct{}

// Page implements runtime.RowSource.
func (noRows) Page(n uint64, shift uint8) (*unwind.Page, error) {
	return &unwind.Page{Number: n, Shift: shift}, nil
}

// CallFrame implements runtime.RowSource.
func (noRows) CallFrame(uint64) (c unwind.CallFrame, ok bool, err error) { return c, false, nil }

// Changed implements runtime.RowSource.
func (noRows) Changed([]uint64) []uint64 { return nil }

// Trim implements runtime.RowSource.
func (noRows) Trim(time.Time) {}
