package process

import (
	"encoding/binary"
	"errors"
	"time"

	"github.com/headwater/headwater/ebpf/host/filework"
	"github.com/headwater/headwater/ebpf/object/elffile"
	"github.com/headwater/headwater/ebpf/unwind"
	"github.com/headwater/headwater/ebpf/unwind/unwindtable"
)

// fileRows are the rows of a file. It implements language.RowSource.
type fileRows struct {
	elf   *elffile.File
	own   fileTable   // from the file alone
	whole fileTable   // with .debug_frame of debug
	debug *debugFrame // nil if the file has .debug_frame, or no debug file
	index indexing    // runs long work: it reads all entries of a file without an index
}

// fileTable is a table of a file.
type fileTable struct {
	debug *elffile.File      // the debug file that it is made from; nil if none
	table *unwindtable.Table // nil if not in use
	used  time.Time          // when the table was last used

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

// openTable returns the table that pages are built from, or nil if the file has no unwind information. An error for
// which filework.Later is true says that the index of the table is not made yet; the next call waits for the same work.
func (t *fileTable) openTable(f *fileRows) (*unwindtable.Table, error) {
	t.used = time.Now()
	if t.table != nil {
		return t.table, nil
	}
	if t.indexed == nil {
		table, err := unwindtable.NewWithDebugFile(f.elf, t.debug)
		if errors.Is(err, unwindtable.ErrNoUnwindInfo) {
			return nil, nil
		}
		if err != nil {
			return nil, err
		}
		if table.HasIndex() {
			t.table = table
			return table, nil
		}
		wait, err := f.index(table.MakeIndex)
		if err != nil {
			return nil, err
		}
		t.indexed = &indexedTable{table, wait}
	}
	if err := t.indexed.wait(); err != nil {
		return nil, err
	}
	t.table, t.indexed = t.indexed.Table, nil
	return t.table, nil
}

// trimUnused drops the table if it was not used since a time.
func (t *fileTable) trimUnused(since time.Time) {
	if t.used.Before(since) {
		t.table = nil
	}
}

// withDebugFile returns the table that also has the .debug_frame of the file's debug file, or nil if there is no debug
// file. The error is like that of open.
func (f *fileRows) withDebugFile() (*unwindtable.Table, error) {
	debug, err := f.debug.getFile()
	if debug == nil {
		return nil, err
	}
	if f.whole.debug != debug {
		f.whole = fileTable{debug: debug}
	}
	return f.whole.openTable(f)
}

// ReadU64 implements unwind.Words.
func (f *fileRows) ReadU64(vaddr uint64) (uint64, bool) {
	var b [8]byte
	err := f.elf.ReadVaddr(b[:], vaddr)
	return binary.LittleEndian.Uint64(b[:]), err == nil
}

// Page implements language.RowSource. Without unwind information a page has no rows.
func (f *fileRows) Page(n uint64, shift uint8) (*unwind.Page, error) {
	unsupported := unwind.Row{Off: uint16(n << shift), CFA: unwind.CFAUnsupported}
	unreadable := &unwind.Page{Number: n, Shift: shift, Rows: []unwind.Row{unsupported}}
	if f.elf.Changed() {
		return unreadable, elffile.ErrChanged
	}
	table, err := f.own.openTable(f)
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
	if p.Gaps > 0 {
		return f.fillPage(p)
	}
	return p, p.Beyond
}

// fillPage returns a page with the rows of the debug file in its gaps, if there are any.
func (f *fileRows) fillPage(p *unwind.Page) (*unwind.Page, error) {
	table, err := f.withDebugFile()
	if filework.Later(err) {
		return nil, err
	}
	if table == nil {
		return p, errors.Join(err, p.Beyond)
	}
	filled, err := table.Page(p.Number, p.Shift)
	if err != nil || f.debug.known() != f.whole.debug { // written to in the meantime
		return p, errors.Join(err, p.Beyond)
	}
	return filled, filled.Beyond
}

// CallFrame implements language.RowSource.
func (f *fileRows) CallFrame(vaddr uint64) (c unwind.CallFrame, ok bool, err error) {
	table, err := f.own.openTable(f)
	if err != nil || table == nil {
		return c, false, err
	}
	if c, ok, err = table.CallFrame(vaddr); ok || err != nil {
		return c, ok, err
	}
	if table, err = f.withDebugFile(); err != nil || table == nil {
		return c, false, err
	}
	return table.CallFrame(vaddr)
}

// Outermost reports whether vaddr is in the code at the entry point.
func (f *fileRows) Outermost(vaddr uint64) (bool, error) {
	table, err := f.own.openTable(f)
	if err != nil || table == nil {
		return false, err
	}
	return table.Outermost(vaddr)
}

// Changed implements language.RowSource: a file that was written to becomes another executable.
func (f *fileRows) Changed([]uint64) []uint64 { return nil }

// Trim implements language.RowSource.
func (f *fileRows) Trim(since time.Time) {
	f.own.trimUnused(since)
	f.whole.trimUnused(since)
}

// noRows stands for the rows of a file that cannot be read.
type noRows struct{}

// Page implements language.RowSource.
func (noRows) Page(n uint64, shift uint8) (*unwind.Page, error) {
	return &unwind.Page{Number: n, Shift: shift}, nil
}

// CallFrame implements language.RowSource.
func (noRows) CallFrame(uint64) (c unwind.CallFrame, ok bool, err error) { return c, false, nil }

// Changed implements language.RowSource.
func (noRows) Changed([]uint64) []uint64 { return nil }

// Trim implements language.RowSource.
func (noRows) Trim(time.Time) {}
