package cfi

import (
	"debug/elf"
	"encoding/binary"
	"errors"
	"fmt"
	"slices"

	"github.com/headwater/headwater/ebpf/object/elffile"
	"github.com/headwater/headwater/ebpf/unwind/ehframe"
)

// Table finds the rules of addresses in one ELF file. It must not be used concurrently.
type Table struct {
	sections []*section // .eh_frame before .debug_frame
	program  ehframe.Program
}

// section is one section of call frame information with its own index. It does not use
// .eh_frame_hdr, which may be wrong.
type section struct {
	index  *ehframe.Scanned
	reader *ehframe.Reader
}

// NewTable reads the call frame information of f, which may be closed afterwards. A file without
// call frame information gives an empty table.
func NewTable(f *elffile.File) (*Table, error) {
	t := &Table{}
	for _, read := range []func() (*elffile.Section, error){f.EHFrame, f.DebugFrame} {
		s, err := read()
		switch {
		case errors.Is(err, elffile.ErrNoSection):
			continue
		case err != nil:
			return nil, fmt.Errorf("read call frame information: %w", err)
		}
		t.Add(Section(s.Data, s.Addr, f.Class(), s.Name == ".debug_frame"))
	}
	return t, nil
}

// Section returns the Section for the bytes of a section in a little-endian file.
func Section(data []byte, addr uint64, class elf.Class, debug bool) *ehframe.Section {
	size := 8
	if class == elf.ELFCLASS32 {
		size = 4
	}
	if debug {
		addr = 0
	}
	return &ehframe.Section{
		Source: ehframe.Bytes(data), Size: uint64(len(data)), Addr: addr,
		Order: binary.LittleEndian, AddrSize: size, Debug: debug,
	}
}

// Add adds a section. If several sections cover an address, the first one is used.
func (t *Table) Add(s *ehframe.Section) {
	index, _ := ehframe.Scan(s)
	t.sections = append(t.sections, &section{index: index, reader: ehframe.NewReader(s)})
}

// Find returns the rules at an ELF virtual address. The error is ErrNoCFI if there are none.
func (t *Table) Find(vaddr uint64) (*Rules, error) {
	for _, s := range t.sections {
		f, err := s.findFDE(vaddr)
		if err == nil {
			return t.rules(&f, vaddr)
		}
		if !errors.Is(err, ErrNoCFI) {
			return nil, err
		}
	}
	return nil, ErrNoCFI
}

func (s *section) findFDE(vaddr uint64) (ehframe.FDE, error) {
	i, err := ehframe.Find(s.index, vaddr)
	if err != nil {
		return ehframe.FDE{}, err
	}
	if i < 0 {
		return ehframe.FDE{}, ErrNoCFI
	}
	_, off, err := s.index.Entry(i)
	if err != nil {
		return ehframe.FDE{}, err
	}
	f, err := s.reader.FDE(off)
	if err == nil && !f.Contains(vaddr) {
		err = ErrNoCFI
	}
	return f, err
}

// rules executes the instructions of an FDE up to an address.
func (t *Table) rules(f *ehframe.FDE, vaddr uint64) (*Rules, error) {
	var found *Rules
	err := t.program.Rows(f, func(r *ehframe.Row) bool {
		if vaddr >= r.End {
			return true
		}
		found = &Rules{Row: *r, ReturnRegister: uint16(f.CIE.ReturnRegister), Signal: f.CIE.SignalFrame}
		found.Row.Registers = slices.Clone(r.Registers)
		return false
	})
	if found != nil {
		return found, nil
	}
	if err == nil {
		err = ErrNoCFI
	}
	return nil, err
}
