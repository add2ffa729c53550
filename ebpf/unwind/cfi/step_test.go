package cfi

import (
	"debug/elf"
	"errors"
	"testing"

	"github.com/headwater/headwater/ebpf/unwind/ehframe/ehtest"
)

// DWARF numbers of x86-64 (System V psABI, figure 3.36).
const (
	rax, rdx, rcx, rbx, rsi, rdi, rbp, rsp = 0, 1, 2, 3, 4, 5, 6, 7
	r10, r12                               = 10, 12
	ripColumn                              = 16
)

// at is the address of the programs under test.
const at = 0x1000

// initial is the start of every CIE of x86-64: CFA = rsp + 8, return address at CFA - 8.
func initial() ehtest.Asm {
	return ehtest.Asm{}.Op(ehtest.DefCFA).Uleb(rsp).Uleb(8).Op(ehtest.OffsetReg | ripColumn).Uleb(1)
}

// table assembles one function.
func table(augmentation string, program ehtest.Asm) *Table {
	f := &ehtest.Frames{Addr: 0x9000}
	cie := f.CIE(ehtest.CIE{Augmentation: augmentation, Program: initial()})
	f.FDE(cie, at, 0x100, program)
	t := &Table{}
	t.Add(f.Section())
	return t
}

// stepAt unwinds a call in the function with the given program, 4 bytes after its start.
func stepAt(t *testing.T, augmentation string, program ehtest.Asm, regs map[uint16]uint64,
	memory words) (Frame, End, error) {
	t.Helper()
	rules, err := table(augmentation, program).Find(at + 4)
	if err != nil {
		t.Fatal(err)
	}
	f := Frame{PC: 0x400000 + at + 4, Exact: true}
	for number, v := range regs {
		f.Regs.Set(number, v)
	}
	return x86(t).Step(&f, rules, 0x400000, memory)
}

// TestRules has a function for every kind of rule.
func TestRules(t *testing.T) {
	a := func() ehtest.Asm { return nil }
	const lostValue = 0xdead // of a register that must not be known
	tests := []struct {
		name         string
		augmentation string
		program      ehtest.Asm
		regs         map[uint16]uint64
		memory       words
		pc           uint64
		want         map[uint16]uint64
	}{
		{
			name: "leaf: callee-saved registers keep their values, scratch registers are lost",
			regs: map[uint16]uint64{rsp: 0x8000, rbp: 5, rbx: 6, rax: 7, r10: 8}, memory: words{0x8000: 0x1234},
			pc:   0x1234,
			want: map[uint16]uint64{rsp: 0x8008, rbp: 5, rbx: 6, rax: lostValue, r10: lostValue},
		}, {
			name:    "offset",
			program: a().Op(ehtest.DefCFAOffset).Uleb(32).Op(ehtest.OffsetReg | rbp).Uleb(2).Op(ehtest.OffsetReg | rbx).Uleb(3),
			regs:    map[uint16]uint64{rsp: 0x8000}, memory: words{0x8018: 0x1234, 0x8010: 0xb, 0x8008: 0xc},
			pc:   0x1234,
			want: map[uint16]uint64{rsp: 0x8020, rbp: 0xb, rbx: 0xc},
		}, {
			name:    "CFA by a callee-saved register other than rbp",
			program: a().Op(ehtest.DefCFA).Uleb(rbx).Uleb(16),
			regs:    map[uint16]uint64{rsp: 0x7000, rbx: 0x8000}, memory: words{0x8008: 0x1234}, pc: 0x1234,
			want: map[uint16]uint64{rsp: 0x8010, rbx: 0x8000},
		}, {
			name:    "val_offset",
			program: a().Op(ehtest.ValOffset).Uleb(r12).Uleb(2),
			regs:    map[uint16]uint64{rsp: 0x8000}, memory: words{0x8000: 0x1234}, pc: 0x1234,
			want: map[uint16]uint64{rsp: 0x8008, r12: 0x7ff8},
		}, {
			name:    "register: vfork of glibc keeps its return address in rdi",
			program: a().Op(ehtest.DefCFAOffset).Uleb(0).Op(ehtest.Register).Uleb(ripColumn).Uleb(rdi),
			regs:    map[uint16]uint64{rsp: 0x8000, rdi: 0x1234}, pc: 0x1234,
			want: map[uint16]uint64{rsp: 0x8000},
		}, {
			name:    "undefined, same_value",
			program: a().Op(ehtest.Undefined).Uleb(rbp).Op(ehtest.SameValue).Uleb(r10),
			regs:    map[uint16]uint64{rsp: 0x8000, rbp: 1, r10: 2}, memory: words{0x8000: 0x1234}, pc: 0x1234,
			want: map[uint16]uint64{rbp: lostValue, r10: 2},
		}, {
			name:    "expression: the CFA is on the stack, the result is an address",
			program: a().Op(ehtest.Expression).Uleb(rbp).Block(a().Op(opLit0 + 8).Op(opPlus)),
			regs:    map[uint16]uint64{rsp: 0x8000}, memory: words{0x8000: 0x1234, 0x8010: 0x77}, pc: 0x1234,
			want: map[uint16]uint64{rbp: 0x77},
		}, {
			name:    "val_expression: the result is the value",
			program: a().Op(ehtest.ValExpression).Uleb(rbp).Block(a().Op(opLit0 + 8).Op(opPlus)),
			regs:    map[uint16]uint64{rsp: 0x8000}, memory: words{0x8000: 0x1234}, pc: 0x1234,
			want: map[uint16]uint64{rbp: 0x8010},
		}, {
			name: "CFA by an expression: a function that has realigned its stack (DRAP)",
			program: a().Op(ehtest.DefCFAExpression).Block(a().Op(opBreg0 + rbp).Sleb(-8).Op(opDeref)).Op(ehtest.Expression).
				Uleb(rbp).Block(a().Op(opBreg0 + rbp).Sleb(0)),
			regs:   map[uint16]uint64{rsp: 0x7000, rbp: 0x7f00},
			memory: words{0x7ef8: 0x8000, 0x7f00: 0x99, 0x7ff8: 0x1234}, pc: 0x1234,
			want: map[uint16]uint64{rsp: 0x8000, rbp: 0x99},
		}, {
			name:    "an unreadable slot of another register does not end the walk",
			program: a().Op(ehtest.OffsetReg | rbp).Uleb(2),
			regs:    map[uint16]uint64{rsp: 0x8000, rbp: 1}, memory: words{0x8000: 0x1234}, pc: 0x1234,
			want: map[uint16]uint64{rbp: lostValue},
		}, {
			name: "signal trampoline: every register is known, the stack pointer has its own rule", augmentation: "zRS",
			program: a().Op(ehtest.DefCFAExpression).Block(a().Op(opBreg0 + rsp).Sleb(160).Op(opDeref)).
				Op(ehtest.Expression).Uleb(rsp).Block(a().Op(opBreg0 + rsp).Sleb(160)).
				Op(ehtest.Expression).Uleb(rax).Block(a().Op(opBreg0 + rsp).Sleb(144)).
				Op(ehtest.Expression).Uleb(ripColumn).Block(a().Op(opBreg0 + rsp).Sleb(168)),
			regs: map[uint16]uint64{rsp: 0x8000, r10: 4}, memory: words{0x80a0: 0x6000, 0x8090: 0xaa, 0x80a8: 0x1234},
			pc:   0x1234,
			want: map[uint16]uint64{rsp: 0x6000, rax: 0xaa, r10: 4},
		},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			augmentation := "zR"
			if test.augmentation != "" {
				augmentation = test.augmentation
			}
			caller, end, err := stepAt(t, augmentation, test.program, test.regs, test.memory)
			if end != Unset || err != nil {
				t.Fatalf("%s, %v", end, err)
			}
			if caller.PC != test.pc || caller.Exact != (augmentation == "zRS") {
				t.Errorf("caller at %#x, exact %t, want %#x", caller.PC, caller.Exact, test.pc)
			}
			for number, want := range test.want {
				if got, ok := caller.Regs.Get(number); ok != (want != lostValue) || ok && got != want {
					t.Errorf("register %d: %#x, known %t, want %#x", number, got, ok, want)
				}
			}
		})
	}
}

func TestEnds(t *testing.T) {
	a := func() ehtest.Asm { return nil }
	tests := []struct {
		name    string
		program ehtest.Asm
		regs    map[uint16]uint64
		memory  words
		want    End
	}{
		{"return address undefined", a().Op(ehtest.Undefined).Uleb(ripColumn), nil, nil, Outermost},
		{"return address zero", a(), map[uint16]uint64{rsp: 0x8000}, words{0x8000: 0}, ZeroReturn},
		{"return address not in the copy", a(), map[uint16]uint64{rsp: 0x8000}, nil, Unreadable},
		{"CFA by a register that is lost", a().Op(ehtest.DefCFA).Uleb(r10).Uleb(0), map[uint16]uint64{rsp: 0x8000}, nil,
			RegisterLost},
		{"bad expression", a().Op(ehtest.DefCFAExpression).Block(a().Op(0x9c)), map[uint16]uint64{rsp: 0x8000}, nil,
			BadCFI},
		{"no rule for the return address", a().Op(ehtest.SameValue).Uleb(ripColumn), map[uint16]uint64{rsp: 0x8000},
			nil, BadCFI},
		{"its own caller", a().Op(ehtest.DefCFA).Uleb(rsp).Uleb(0), map[uint16]uint64{rsp: 0x8000},
			words{0x7ff8: 0x400000 + at + 4}, NoProgress},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			if _, end, err := stepAt(t, "zR", test.program, test.regs, test.memory); end != test.want {
				t.Errorf("%s, %v, want %s", end, err, test.want)
			}
		})
	}
}

// TestAArch64: the return address is in x30 until it is saved, signed or not.
func TestAArch64(t *testing.T) {
	const x29, x30, sp = 29, 30, 31
	m, _ := MachineOf(elf.EM_AARCH64)
	f := &ehtest.Frames{Addr: 0x9000}
	cie := f.CIE(ehtest.CIE{Augmentation: "zR", Return: x30, CodeAlign: 4,
		Program: ehtest.Asm{}.Op(ehtest.DefCFA).Uleb(sp).Uleb(0)})
	// paciasp; stp x29, x30, [sp, -32]!
	f.FDE(cie, at, 0x100, ehtest.Asm{}.Op(ehtest.AdvanceLoc|1).Op(ehtest.AArch64NegateRAState).Op(ehtest.AdvanceLoc|1).
		Op(ehtest.DefCFAOffset).Uleb(32).Op(ehtest.OffsetReg|x29).Uleb(4).Op(ehtest.OffsetReg|x30).Uleb(3))
	table := &Table{}
	table.Add(f.Section())

	var leaf Frame
	leaf.Regs.Set(sp, 0x8000)
	leaf.Regs.Set(x29, 0x8100)
	leaf.Regs.Set(x30, 0x00ab_0000_0000_1234)
	memory := words{0x8000: 0x8200, 0x8008: 0x00cd_0000_0000_5678}
	for _, test := range []struct{ vaddr, pc, sp, fp uint64 }{
		{at, 0x1234, 0x8000, 0x8100},
		{at + 8, 0x5678, 0x8020, 0x8200},
	} {
		rules, err := table.Find(test.vaddr)
		if err != nil {
			t.Fatal(err)
		}
		leaf.PC = test.vaddr
		caller, end, err := m.Step(&leaf, rules, 0, memory)
		if end != Unset || err != nil {
			t.Fatalf("at %#x: %s, %v", test.vaddr, end, err)
		}
		gotSP, _ := caller.Regs.Get(sp)
		gotFP, _ := caller.Regs.Get(x29)
		if _, known := caller.Regs.Get(x30); caller.PC != test.pc || gotSP != test.sp || gotFP != test.fp || known {
			t.Errorf("at %#x: pc %#x sp %#x x29 %#x, x30 known %t; want %#x %#x %#x", test.vaddr, caller.PC, gotSP,
				gotFP, known, test.pc, test.sp, test.fp)
		}
	}
}

// TestFind: .eh_frame has precedence over .debug_frame, which fills its gaps. The rows are the ones
// for the address.
func TestFind(t *testing.T) {
	eh, debug := &ehtest.Frames{Addr: 0x9000}, &ehtest.Frames{Debug: true}
	cie := eh.CIE(ehtest.CIE{Augmentation: "zR", Program: initial()})
	eh.FDE(cie, 0x1000, 0x10, ehtest.Asm{}.Op(ehtest.AdvanceLoc|4).Op(ehtest.DefCFAOffset).Uleb(16))
	cie = debug.CIE(ehtest.CIE{Program: initial()})
	debug.FDE(cie, 0x1000, 0x20, ehtest.Asm{}.Op(ehtest.DefCFAOffset).Uleb(99))
	table := &Table{}
	table.Add(eh.Section())
	table.Add(debug.Section())
	for vaddr, want := range map[uint64]int64{0x1000: 8, 0x1003: 8, 0x1004: 16, 0x100f: 16, 0x1010: 99, 0x101f: 99} {
		rules, err := table.Find(vaddr)
		if err != nil || rules.Row.CFA.Offset != want {
			t.Errorf("at %#x: %+v, %v, want CFA = rsp + %d", vaddr, rules, err, want)
		}
	}
	for _, vaddr := range []uint64{0, 0xfff, 0x1020} {
		if _, err := table.Find(vaddr); !errors.Is(err, ErrNoCFI) {
			t.Errorf("at %#x: %v, want %v", vaddr, err, ErrNoCFI)
		}
	}
}

// oneFile finds rules in a table loaded at 0x400000.
type oneFile struct{ *Table }

func (o oneFile) Find(addr uint64) (*Rules, uint64, End, error) {
	if addr < 0x400000 || addr >= 0x500000 {
		return nil, 0, NoMapping, nil
	}
	rules, err := o.Table.Find(addr - 0x400000)
	return rules, 0x400000, Unset, err
}

// TestWalk: a return address after the last byte of a function whose call does not return has the
// rules of the call.
func TestWalk(t *testing.T) {
	f := &ehtest.Frames{Addr: 0x9000}
	cie := f.CIE(ehtest.CIE{Augmentation: "zR", Program: initial()})
	f.FDE(cie, 0x1000, 0x10, ehtest.Asm{}.Op(ehtest.DefCFAOffset).Uleb(16)) // ends in its call
	f.FDE(cie, 0x1010, 0x10, ehtest.Asm{}.Op(ehtest.DefCFAOffset).Uleb(64))
	f.FDE(cie, 0x1020, 0x10, nil)
	f.FDE(cie, 0x1030, 0x10, ehtest.Asm{}.Op(ehtest.Undefined).Uleb(ripColumn))
	table := &Table{}
	table.Add(f.Section())
	memory := words{0x8000: 0x401010, 0x8010: 0x401034, 0x9000: 0x601234, 0xa000: 0x40103f}
	tests := []struct {
		name   string
		pc, sp uint64
		want   []uint64
		end    End
	}{
		{"to the root", 0x401024, 0x8000, []uint64{0x401024, 0x401010, 0x401034}, Outermost},
		{"an exact pc is looked up as it is", 0x401020, 0xa000, []uint64{0x401020, 0x40103f}, Outermost},
		{"out of every file", 0x401020, 0x9000, []uint64{0x401020, 0x601234}, NoMapping},
		{"no CFI", 0x401048, 0x8000, []uint64{0x401048}, NoCFI},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			leaf := Frame{PC: test.pc, Exact: true}
			leaf.Regs.Set(rsp, test.sp)
			var got []uint64
			end, err := x86(t).Walk(leaf, oneFile{table}, memory, 10, func(f *Frame) { got = append(got, f.PC) })
			if end != test.end || len(got) != len(test.want) {
				t.Fatalf("%#x, %s, %v, want %#x, %s", got, end, err, test.want, test.end)
			}
			for i := range got {
				if got[i] != test.want[i] {
					t.Errorf("%#x, want %#x", got, test.want)
				}
			}
		})
	}
}

// FuzzStep: no call frame information makes a step panic.
func FuzzStep(f *testing.F) {
	f.Add([]byte(ehtest.Asm{}.Op(ehtest.DefCFAExpression).Block(ehtest.Asm{}.Op(opBreg0+rsp).Sleb(0))), uint64(0x8000))
	f.Add([]byte(ehtest.Asm{}.Op(ehtest.Register).Uleb(ripColumn).Uleb(1<<15)), uint64(0))
	f.Fuzz(func(t *testing.T, program []byte, sp uint64) {
		rules, err := table("zRS", program).Find(at + 4)
		if err != nil {
			return
		}
		frame := Frame{PC: at + 4, Exact: true}
		frame.Regs.Set(rsp, sp)
		if _, end, err := x86(t).Step(&frame, rules, 0, words{0x8000: 1}); err != nil && end == Unset {
			t.Errorf("%v: no end", err)
		}
	})
}
