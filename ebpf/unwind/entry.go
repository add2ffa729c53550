package unwind

import (
	"fmt"
	"slices"

	"github.com/headwater/headwater/ebpf/ehframe"
)

// Entry says where the call frame information about an address stands.
type Entry struct {
	Section      string // .eh_frame or .debug_frame
	Offset       uint64 // of the FDE in the section
	CIE          uint64 // of its CIE
	Augmentation string // of the CIE
	Start, End   uint64 // text that the FDE is about, ELF virtual addresses
}

// Entry returns the FDE about the ELF virtual address vaddr, and false if there
// is none. The error is about reading it.
func (t *Table) Entry(vaddr uint64) (Entry, bool, error) {
	b := t.builders.Get().(*builder)
	defer t.builders.Put(b)
	for _, f := range []frames{b.eh, b.debug} {
		if f.reader == nil {
			continue
		}
		fde, err := f.find(vaddr)
		if err != nil {
			return Entry{}, false, fmt.Errorf("unwind table: %w", err)
		}
		if fde.Contains(vaddr) {
			return Entry{f.name, fde.Offset, fde.CIE.Offset, fde.CIE.Augmentation, fde.Start, fde.End}, true, nil
		}
	}
	return Entry{}, false, nil
}

// find returns the FDE that may be about vaddr; the zero FDE is about nothing.
func (f frames) find(vaddr uint64) (ehframe.FDE, error) {
	i, err := f.first(vaddr)
	if err != nil || i >= f.index.Len() {
		return ehframe.FDE{}, err
	}
	_, off, err := f.index.Entry(i)
	if err != nil {
		return ehframe.FDE{}, err
	}
	return f.reader.FDE(off)
}

// CallFrame is what call frame information states about one address, whether a
// row can express it or not.
type CallFrame struct {
	Row            ehframe.Row
	ReturnRegister uint16 // the column of the return address
	Signal         bool   // of a signal trampoline
}

// CallFrame returns what is stated about the ELF virtual address vaddr, and false
// where nothing is, or in a Go program, whose statements are not to be trusted. The
// error is about reading it.
func (t *Table) CallFrame(vaddr uint64) (CallFrame, bool, error) {
	b := t.builders.Get().(*builder)
	defer t.builders.Put(b)
	for _, f := range []frames{b.eh, b.debug} {
		if f.reader == nil || t.sections.Go {
			continue
		}
		fde, err := f.find(vaddr)
		if err != nil {
			return CallFrame{}, false, fmt.Errorf("unwind table: %w", err)
		}
		if !fde.Contains(vaddr) {
			continue
		}
		c := CallFrame{ReturnRegister: uint16(fde.CIE.ReturnRegister), Signal: fde.CIE.SignalFrame}
		found := false
		err = b.program.Rows(&fde, func(row *ehframe.Row) bool {
			if found = vaddr >= row.Start && vaddr < row.End; found {
				c.Row = *row
				c.Row.Registers = slices.Clone(row.Registers)
			}
			return !found
		})
		if err != nil && !found {
			return CallFrame{}, false, fmt.Errorf("unwind table: %w", err)
		}
		return c, found, nil
	}
	return CallFrame{}, false, nil
}
