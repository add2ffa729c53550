// Package unwindtable makes unwind rows from an executable's call frame information, from Go's
// function table, and from machine code without either.
//
// A Table returns pages of rows of one executable. x86.go and aarch64.go translate DWARF rows into
// rules of package unwind, or into a named Reason if there is no translation.
package unwindtable

import (
	"debug/elf"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"sync"

	"github.com/headwater/headwater/ebpf/object/elffile"
	"github.com/headwater/headwater/ebpf/unwind"
	"github.com/headwater/headwater/ebpf/unwind/ehframe"
	"github.com/headwater/headwater/ebpf/unwind/gopclntab"
)

// ErrNoUnwindInfo says that a file has neither .eh_frame nor .debug_frame, nor code to analyze
// instead.
var ErrNoUnwindInfo = errors.New("no unwind information")

// Section gives access to the bytes of one ELF section or segment.
type Section struct {
	Addr uint64 // ELF virtual address of the first byte
	Size uint64 // bytes
	Data io.ReaderAt
}

// Sections is the input of a Table. Missing sections are nil.
type Sections struct {
	Machine    elf.Machine
	EHFrame    *Section
	EHFrameHdr *Section
	DebugFrame *Section
	Text       []*Section       // executable segments, for code analysis; may be empty
	Code       [][2]uint64      // ranges of vaddrs in Text that hold code, not constants, see stackheight
	Entry      uint64           // where the kernel starts the program; 0 if unknown, or if no program starts there
	Loader     bool             // the dynamic loader, see followRBX
	CLibrary   bool             // the C library, see coroutineStarts
	Go         bool             // made by the Go tool chain, see goFrame
	Functions  *gopclntab.Table // of a Go program; nil if missing or unreadable
}

// Table returns the rows of one executable, page by page. i386 executables have no rows: stacks of
// 32-bit tasks are walked only with CallFrame. Pages are built on every call and not cached. Table
// is safe for concurrent use.
type Table struct {
	translate  translator
	machine    *abi
	golang     goCode
	sections   Sections
	searchable bool                    // .eh_frame_hdr has a usable table
	scanEH     func() *ehframe.Scanned // runs once, if .eh_frame_hdr is not searchable
	scanDebug  func() *ehframe.Scanned // runs once
	builders   sync.Pool               // of *builder

	entryMu   sync.Mutex
	entryCode [][2]uint64 // see builder.entryCode; nil if not followed yet, or if there is none
}

// New returns the Table of f. f must stay open as long as the table is used, because sections are
// read piece by piece as pages are built. The error is ErrNoUnwindInfo, ErrMachine, or a read
// error.
func New(f *elffile.File) (*Table, error) { return NewWithDebugFile(f, nil) }

// NewWithDebugFile is New with .debug_frame of f's separate debug file, if f itself has none. debug
// must stay open as long as f; nil means that there is no debug file.
func NewWithDebugFile(f, debug *elffile.File) (*Table, error) {
	if (f.Class() == elf.ELFCLASS32) != (f.Machine() == elf.EM_386) {
		return nil, fmt.Errorf("unwind table: %w: %v of %v", ErrMachine, f.Machine(), f.Class())
	}
	if debug == nil || f.HasDebugFrame() {
		debug = f
	}
	s := Sections{Machine: f.Machine(), Code: f.CodeRanges(), Loader: f.IsLoader(), CLibrary: f.IsCLibrary(),
		Go: f.IsGo()}
	if f.IsStarted() {
		s.Entry = f.Entry()
	}
	for _, want := range []struct {
		dst  **Section
		open func() (*elffile.SectionReader, error)
	}{
		{&s.EHFrame, f.OpenEHFrame}, {&s.EHFrameHdr, f.OpenEHFrameHdr}, {&s.DebugFrame, debug.OpenDebugFrame},
	} {
		section, err := want.open()
		switch {
		case err == nil:
			*want.dst = sectionOf(section)
		case !errors.Is(err, elffile.ErrNoSection):
			return nil, fmt.Errorf("unwind table: %w", err)
		}
	}
	if s.Go {
		s.Functions, _ = gopclntab.Open(f) // without it, .debug_frame and frame pointers are used
	}
	for _, text := range f.OpenText() {
		s.Text = append(s.Text, sectionOf(text))
	}
	return FromSections(s)
}

func sectionOf(s *elffile.SectionReader) *Section { return &Section{s.Addr, s.Size, s.Data} }

// ErrMachine says that the file's machine is unsupported.
var ErrMachine = errors.New("unsupported machine")

// FromSections returns the Table of the sections s, whose Data must stay readable as long as the
// table is used.
func FromSections(s Sections) (*Table, error) {
	t := &Table{sections: s, golang: goCodeFor(s.Machine)}
	if t.translate, t.machine = translatorFor(s.Machine); t.translate == nil && s.Machine != elf.EM_386 {
		return nil, fmt.Errorf("unwind table: %w: %v", ErrMachine, s.Machine)
	}
	if s.EHFrame == nil && s.DebugFrame == nil && len(s.Text) == 0 {
		return nil, fmt.Errorf("unwind table: %w", ErrNoUnwindInfo)
	}
	t.searchable = t.header() != nil
	t.scanEH = sync.OnceValue(func() *ehframe.Scanned { return t.scanSection(s.EHFrame, false) })
	t.scanDebug = sync.OnceValue(func() *ehframe.Scanned { return t.scanSection(s.DebugFrame, true) })
	t.builders.New = func() any { return newBuilder(t) }
	return t, nil
}

// HasIndex reports whether entries can be found without first reading all entries.
func (t *Table) HasIndex() bool {
	byFunctions := t.golang != nil && t.sections.Functions != nil // Functions replace .debug_frame
	return (t.searchable || t.sections.EHFrame == nil) && (t.sections.DebugFrame == nil || byFunctions)
}

// MakeIndex reads all entries of a file without an index, which takes up to a second per 100 MB.
// Otherwise Page, CallFrame and FDEs do so.
func (t *Table) MakeIndex() {
	if !t.searchable {
		t.scanEH()
	}
	t.scanDebug()
}

// interrupted reports whether the caller of a signal frame with this row was interrupted. OCaml 5 also marks the frames
// of functions that switch stacks as signal frames: their callers called them.
func (t *Table) interrupted(row *ehframe.Row) bool {
	switch t.sections.Machine {
	case elf.EM_X86_64:
		return !x86Called(row)
	case elf.EM_AARCH64:
		return aarch64Interrupted(row)
	}
	return true
}

// ruleOf translates a row.
func (t *Table) ruleOf(row *ehframe.Row, signal bool) (unwind.WideRule, unwind.Reason) {
	w, reason := t.translate(row, signal && t.interrupted(row))
	if reason == unwind.ReasonNone && t.sections.Loader && t.sections.Machine == elf.EM_X86_64 {
		followRBX(&w, row)
	}
	return w, reason
}

// scanSection makes an index of s. s may be nil.
func (t *Table) scanSection(s *Section, debug bool) *ehframe.Scanned {
	if s == nil {
		return new(ehframe.Scanned)
	}
	section := t.section(s, debug)
	section.CIEs = section.Source
	section.Source = &window{r: s.Data, size: s.Size, chunk: scanChunk}
	index, _ := ehframe.Scan(section)
	return index
}

// section converts s for package ehframe, with its own window.
func (t *Table) section(s *Section, debug bool) *ehframe.Section {
	chunk, back := uint64(frameChunk), uint64(frameChunk/8)
	if s == t.sections.EHFrameHdr {
		chunk, back = headerChunk, headerChunk/2
	}
	addr := s.Addr
	if debug {
		addr = 0
	}
	return &ehframe.Section{
		Source: &window{r: s.Data, size: s.Size, chunk: chunk, back: back}, Size: s.Size, Addr: addr,
		Order: binary.LittleEndian, AddrSize: t.addrSize(), Debug: debug,
	}
}

// addrSize returns the bytes of an address.
func (t *Table) addrSize() int {
	if t.sections.Machine == elf.EM_386 {
		return 4
	}
	return 8
}

// header returns the binary search table, or nil if there is none, if it is empty or if it belongs
// to another .eh_frame.
func (t *Table) header() *ehframe.Header {
	if t.sections.EHFrameHdr == nil || t.sections.EHFrame == nil {
		return nil
	}
	h, err := ehframe.ParseHeader(t.section(t.sections.EHFrameHdr, false))
	if err != nil || h.Len() == 0 || h.EHFrame != t.sections.EHFrame.Addr {
		return nil
	}
	return h
}

// Page returns the rows of page n, where pages cover 1<<shift bytes each. The error is a read
// error; invalid contents become unsupported rows.
func (t *Table) Page(n uint64, shift uint8) (*unwind.Page, error) { return t.buildPage(n, shift, nil) }

// buildPage is Page. It sets counts, if not nil.
func (t *Table) buildPage(n uint64, shift uint8, counts *sourceBytes) (*unwind.Page, error) {
	if shift < unwind.MinPageShift || shift > unwind.MaxPageShift || n > (1<<64-1)>>shift {
		return nil, fmt.Errorf("unwind table: no page %#x of %d bits", n, shift)
	}
	if t.translate == nil {
		return nil, fmt.Errorf("unwind table: no rows: %w: %v", ErrMachine, t.sections.Machine)
	}
	b := t.builders.Get().(*builder)
	defer t.builders.Put(b)
	b.counts = counts
	page, err := b.build(n<<shift, 1<<shift)
	if err != nil {
		return nil, fmt.Errorf("unwind table: page %#x: %w", n, err)
	}
	page.Number, page.Shift = n, shift
	return page, nil
}

// FDEs returns the number of functions in Go's table, or else of FDEs in the index of .eh_frame or
// .debug_frame: the size of the executable for unwinding. 0 means that the file has no unwind
// information.
func (t *Table) FDEs() int {
	switch {
	case t.sections.Functions != nil:
		return t.sections.Functions.Len()
	case t.searchable:
		return t.header().Len()
	case t.sections.EHFrame != nil:
		return t.scanEH().Len()
	}
	return t.scanDebug().Len()
}
