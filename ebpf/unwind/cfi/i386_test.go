package cfi

import (
	"debug/elf"
	"testing"

	"github.com/headwater/headwater/ebpf/unwind/ehframe"
	"github.com/headwater/headwater/ebpf/unwind/ehframe/ehtest"
)

// TestI386 unwinds a call with 4-byte words: at the top of the address space, and with the linkers'
// expression for lazy-binding stubs, esp + 4 + ((eip & 15) >= 11) << 2.
func TestI386(t *testing.T) {
	const esp, eip = 4, 8
	m, ok := MachineOf(elf.EM_386)
	if !ok {
		t.Fatal("i386 is not known")
	}
	a := func() ehtest.Asm { return nil }
	stub := a().Op(opBreg0 + esp).Sleb(4).Op(opBreg0 + eip).Sleb(0).Op(opLit0 + 15).Op(opAnd).Op(opLit0 + 11).
		Op(opGe).Op(opLit0 + 2).Op(opShl).Op(opPlus)
	byRegister := func(offset int64) ehframe.CFA {
		return ehframe.CFA{Kind: ehframe.CFARegister, Reg: esp, Offset: offset}
	}
	tests := map[string]struct {
		cfa    ehframe.CFA
		pc, sp uint64
		wantPC uint64
		wantSP uint64
	}{
		"offset":            {byRegister(8), 0x1000, 0x100, 0x22222222, 0x108},
		"wraps":             {byRegister(0x20), 0x1000, 0xfffffff0, 0x44444444, 0x10},
		"stub before push":  {ehframe.CFA{Kind: ehframe.CFAExpression, Expr: stub}, 0x1006, 0x100, 0x11111111, 0x104},
		"stub after push":   {ehframe.CFA{Kind: ehframe.CFAExpression, Expr: stub}, 0x100b, 0x100, 0x22222222, 0x108},
		"negative distance": {byRegister(-8), 0x1000, 0x110, 0x22222222, 0x108},
	}
	memory := words{0x100: 0x22222222_11111111, 0x8: 0x44444444_33333333}
	for name, test := range tests {
		rules := &Rules{ReturnRegister: eip, Row: ehframe.Row{CFA: test.cfa, Registers: []ehframe.RegisterRule{
			{Number: eip, Rule: ehframe.Rule{Kind: ehframe.Offset, Offset: -4}},
		}}}
		f := Frame{PC: test.pc, Exact: true}
		f.Regs.Set(esp, test.sp)
		caller, end, err := m.Step(&f, rules, 0, memory)
		sp, _ := caller.Regs.Get(esp)
		if end != Unset || caller.PC != test.wantPC || sp != test.wantSP {
			t.Errorf("%s: pc %#x, esp %#x, %v, %v; want pc %#x, esp %#x", name, caller.PC, sp, end, err,
				test.wantPC, test.wantSP)
		}
	}
}

// TestI386Signed: comparisons, divisions and shifts treat 32-bit values as signed.
func TestI386Signed(t *testing.T) {
	m, _ := MachineOf(elf.EM_386)
	a := func() ehtest.Asm { return nil }
	tests := map[string]struct {
		code ehtest.Asm
		want uint64
	}{
		"lt":     {a().Op(opConst1s).Op(0xff).Op(opLit0 + 1).Op(opLt), 1},
		"div":    {a().Op(opConst1s).Op(0xfc).Op(opLit0 + 2).Op(opDiv), 0xfffffffe},
		"shra":   {a().Op(opConst1s).Op(0xf0).Op(opLit0 + 2).Op(opShra), 0xfffffffc},
		"shr":    {a().Op(opConst1s).Op(0xf0).Op(opLit0 + 28).Op(opShr), 0xf},
		"abs":    {a().Op(opConst1s).Op(0xfe).Op(opAbs), 2},
		"addr":   {a().Op(opAddr).U32(0x1000), 0x401000},
		"deref":  {a().Op(opLit0 + 4).Op(opDeref), 0xaabbccdd},
		"plus":   {a().Op(opConst1s).Op(0xff).Op(opLit0 + 2).Op(opPlus), 1},
		"uconst": {a().Op(opConst1s).Op(0xff).Op(opPlusUconst).Uleb(5), 4},
	}
	for name, test := range tests {
		c := context{machine: m, frame: &Frame{}, memory: words{0: 0xaabbccdd_11223344}, bias: 0x400000}
		if v, err := c.evaluate(test.code); err != nil || v != test.want {
			t.Errorf("%s: %#x, %v; want %#x", name, v, err, test.want)
		}
	}
}
