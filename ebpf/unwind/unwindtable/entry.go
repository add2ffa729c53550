package unwindtable

import (
	"fmt"
	"slices"

	"github.com/headwater/headwater/ebpf/unwind"
	"github.com/headwater/headwater/ebpf/unwind/ehframe"
)

// Entry describes the call frame entry of an address.
type Entry struct {
	Section      string // .eh_frame or .debug_frame
	Offset       uint64 // offset of the FDE in the section
	CIE          uint64 // offset of its CIE
	Augmentation string // of the CIE
	Start, End   uint64 // text of the FDE, ELF virtual addresses
}

// Entry returns the FDE of the ELF virtual address vaddr, and false if there is none. The error is
// a read error.
func (t *Table) Entry(vaddr uint64) (Entry, bool, error) {
	b := t.builders.Get().(*builder)
	defer t.builders.Put(b)
	for _, f := range b.frames {
		fde, err := f.findFDE(vaddr)
		if err != nil {
			return Entry{}, false, fmt.Errorf("unwind table: %w", err)
		}
		if fde.Contains(vaddr) {
			return Entry{f.name, fde.Offset, fde.CIE.Offset, fde.CIE.Augmentation, fde.Start, fde.End}, true, nil
		}
	}
	return Entry{}, false, nil
}

// LastStart returns the start of the last FDE that starts at or before the ELF virtual address
// vaddr, and false if there is none. The error is a read error.
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

// IndexBytes returns the size of the indexes made for a file without a searchable index. It makes
// the indexes if Page, Entry and CallFrame have not made them.
func (t *Table) IndexBytes() int {
	bytes := t.scanDebug().Bytes()
	if !t.searchable {
		bytes += t.scanEH().Bytes()
	}
	return bytes
}

// CallFrame returns the call frame information of the ELF virtual address vaddr, and false if there
// is none. It returns false for Go programs, whose call frame information is unreliable, but for
// 32-bit Go programs it uses Go's own table. The error is a read error.
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
		fde, err := f.findFDE(vaddr)
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
				c.Signal = c.Signal && t.interrupted(row)
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

// Outermost reports whether the ELF virtual address vaddr is in the code where the kernel starts
// the program, outside of call frame information. The error is a read error.
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
