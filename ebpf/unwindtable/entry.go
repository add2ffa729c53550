package unwindtable

import (
	"fmt"
	"slices"

	"github.com/headwater/headwater/ebpf/ehframe"
	"github.com/headwater/headwater/ebpf/unwind"
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
	for _, f := range b.frames {
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

// LastStart returns where the last FDE begins that begins at the ELF virtual address vaddr or before it, and false if
// none does. The error is about reading it.
func (t *Table) LastStart(vaddr uint64) (start uint64, ok bool, err error) {
	b := t.builders.Get().(*builder)
	defer t.builders.Put(b)
	for _, f := range b.frames {
		i, err := ehframe.Find(f.index, vaddr)
		if err != nil {
			return 0, false, fmt.Errorf("unwind table: %w", err)
		}
		if i < 0 {
			continue
		}
		at, _, err := f.index.Entry(i)
		if err != nil {
			return 0, false, fmt.Errorf("unwind table: %w", err)
		}
		start, ok = max(start, at), true
	}
	return start, ok, nil
}

// IndexBytes returns the memory of the indexes that were made because the file has none that can be searched. It
// makes them if Page, Entry and CallFrame have not yet.
func (t *Table) IndexBytes() int {
	bytes := t.scanDebug().Bytes()
	if !t.searchable {
		bytes += t.scanEH().Bytes()
	}
	return bytes
}

// CallFrame returns what is stated about the ELF virtual address vaddr, and false
// where nothing is, or in a Go program, whose statements are not to be trusted; of
// a 32-bit one it returns what Go's own table says. The error is about reading it.
func (t *Table) CallFrame(vaddr uint64) (unwind.CallFrame, bool, error) {
	b := t.builders.Get().(*builder)
	defer t.builders.Put(b)
	if b.go386 != nil {
		c, ok, err := b.go386.callFrame386(vaddr)
		if err != nil {
			return unwind.CallFrame{}, false, fmt.Errorf("unwind table: %w", err)
		}
		return c, ok, nil
	}
	if t.sections.Go {
		return unwind.CallFrame{}, false, nil
	}
	for _, f := range b.frames {
		fde, err := f.find(vaddr)
		if err != nil {
			return unwind.CallFrame{}, false, fmt.Errorf("unwind table: %w", err)
		}
		if !fde.Contains(vaddr) {
			continue
		}
		c := unwind.CallFrame{ReturnRegister: uint16(fde.CIE.ReturnRegister), Signal: fde.CIE.SignalFrame}
		found := false
		err = f.program.Rows(&fde, func(row *ehframe.Row) bool {
			if found = vaddr >= row.Start && vaddr < row.End; found {
				c.Row = *row
				c.Row.Registers = slices.Clone(row.Registers)
			}
			return !found
		})
		if err != nil && !found {
			return unwind.CallFrame{}, false, fmt.Errorf("unwind table: %w", err)
		}
		return c, found, nil
	}
	return unwind.CallFrame{}, false, nil
}

// Outermost reports whether the ELF virtual address vaddr is in the code at which the kernel starts the program, and no
// call frame information is around it. The error is about reading.
func (t *Table) Outermost(vaddr uint64) (bool, error) {
	entry := t.sections.Entry
	if entry == 0 || vaddr < entry-min(entryReach, entry) || vaddr-(entry-min(entryReach, entry)) >= 2*entryReach {
		return false, nil
	}
	b := t.builders.Get().(*builder)
	defer t.builders.Put(b)
	code, err := b.entryCode()
	if err != nil {
		return false, fmt.Errorf("unwind table: %w", err)
	}
	return slices.ContainsFunc(code, func(r [2]uint64) bool { return vaddr >= r[0] && vaddr < r[1] }), nil
}
