package unwindtable

import (
	"debug/elf"
	"errors"

	"github.com/headwater/headwater/ebpf/unwind"
	"github.com/headwater/headwater/ebpf/unwind/ehframe"
	"github.com/headwater/headwater/ebpf/unwind/gopclntab"
)

// DWARF numbers of i386 (System V psABI for Intel386, figure 2.14).
const (
	i386SP     = 4
	i386FP     = 5
	i386Return = 8
)

// newGo386 returns Go's table of a 32-bit program, nil if there is none.
func newGo386(t *Table) *goTable {
	if t.sections.Functions == nil || t.sections.Machine != elf.EM_386 {
		return nil
	}
	return &goTable{table: t, reader: t.sections.Functions.NewReader()}
}

// callFrame386 returns the call frame of 32-bit Go code, relative to the stack pointer only: Go has
// no frame pointers there (internal/buildcfg, FramePointerEnabled), and calls overwrite ebp like
// any other register. It returns false for code that Go's tools did not compile.
//
// A function that switches to another stack has a call frame without a CFA. The address it came
// from is only in the runtime's own memory, not in a register or on the stack.
func (g *goTable) callFrame386(vaddr uint64) (unwind.CallFrame, bool, error) {
	none := unwind.CallFrame{}
	f, _, ok, err := g.reader.Find(vaddr)
	if err != nil || !ok || !f.HasSPDeltas() {
		return none, false, ignoreInvalid(err)
	}
	kind, err := g.kindOf(&f)
	if err != nil {
		return none, false, ignoreInvalid(err)
	}
	found, c := false, unwind.CallFrame{ReturnRegister: i386Return}
	err = g.reader.SPDeltas(&f, func(start, end uint64, delta int64) bool {
		if found = vaddr >= start && vaddr < end; found {
			c.Row = row386(kind, delta)
			c.Row.Start, c.Row.End = start, end
		}
		return !found
	})
	if !found {
		return none, false, ignoreInvalid(err)
	}
	return c, true, nil
}

// row386 returns the row for a stack pointer delta bytes below its value at the function's first
// instruction.
func row386(kind goKind, delta int64) ehframe.Row {
	lost := ehframe.Rule{Kind: ehframe.Undefined}
	switch {
	case kind == goOutermost:
		return ehframe.Row{Registers: []ehframe.RegisterRule{{Number: i386Return, Rule: lost}}}
	case kind != goPlain && kind != goScheduler || delta < 0:
		return ehframe.Row{}
	}
	const word = 4
	return ehframe.Row{
		CFA: ehframe.CFA{Kind: ehframe.CFARegister, Reg: i386SP, Offset: delta + word},
		Registers: []ehframe.RegisterRule{
			{Number: i386FP, Rule: lost},
			{Number: i386Return, Rule: ehframe.Rule{Kind: ehframe.Offset, Offset: -word}},
		},
	}
}

// ignoreInvalid drops errors in the table itself: code that an invalid table does not cover has no
// call frame.
func ignoreInvalid(err error) error {
	if errors.Is(err, gopclntab.ErrInvalid) {
		return nil
	}
	return err
}
