package reference

import (
	"encoding/binary"
	"maps"
	"slices"
	"testing"

	"github.com/headwater/headwater/ebpf/unwind/ehframe/ehtest"
)

// DWARF numbers of x86-64 (System V psABI, figure 3.36).
const (
	rax, rdx, rcx, rbx, rsi, rdi, rbp, rsp = 0, 1, 2, 3, 4, 5, 6, 7
	r10, r12                               = 10, 12
	ripColumn                              = 16
)

// at is the ELF virtual address of the programs under test, and loaded the bias of their addresses in the process.
const (
	at     = 0x1000
	loaded = 0x400000
)

// words is a copy of a stack. Memory between two words is zero.
type words map[uint64]uint64

func (w words) copy() *stackCopy {
	if len(w) == 0 {
		return &stackCopy{}
	}
	addresses := slices.Sorted(maps.Keys(w))
	s := &stackCopy{sp: addresses[0]}
	s.bytes = make([]byte, addresses[len(addresses)-1]+8-s.sp)
	for addr, v := range w {
		binary.LittleEndian.PutUint64(s.bytes[addr-s.sp:], v)
	}
	return s
}

func testFrame(pc uint64, registers map[uint64]uint64, memory words) *frame {
	x86, _ := abiOf("amd64")
	return &frame{abi: x86, memory: memory.copy(), pc: pc, exact: true, registers: registers}
}

// initial returns the first instructions of every CIE of x86-64: CFA = rsp + 8, return address at CFA - 8.
func initial() ehtest.Asm {
	return ehtest.Asm{}.Op(ehtest.DefCFA).Uleb(rsp).Uleb(8).Op(ehtest.OffsetReg | ripColumn).Uleb(1)
}

// fileOf returns a file with the given sections.
func fileOf(sections ...*ehtest.Frames) *File {
	f := &File{Path: "/test", loaded: true, found: map[uint64]*found{}}
	for _, s := range sections {
		f.frames = append(f.frames, newFrames(&section{data: s.Bytes, addr: s.Addr, debug: s.Debug}))
	}
	return f
}

// callerOf returns the caller of a function with the given program, for an address 4 bytes after its start.
func callerOf(augmentation string, program ehtest.Asm, registers map[uint64]uint64, memory words) (*frame, End, error) {
	s := &ehtest.Frames{Addr: 0x9000}
	s.FDE(s.CIE(ehtest.CIE{Augmentation: augmentation, Program: initial()}), at, 0x100, program)
	return stepFrame(testFrame(loaded+at+4, registers, memory), fileOf(s), at+4)
}

// TestRules tests a function for every kind of rule.
func TestRules(t *testing.T) {
	a := func() ehtest.Asm { return nil }
	const lostValue = 0xdead // value of a register that must not be known
	tests := []struct {
		name         string
		augmentation string
		program      ehtest.Asm
		regs         map[uint64]uint64
		memory       words
		pc           uint64
		want         map[uint64]uint64
	}{
		{
			name: "leaf: callee-saved registers keep their values, scratch registers are lost",
			regs: map[uint64]uint64{rsp: 0x8000, rbp: 5, rbx: 6, rax: 7, r10: 8}, memory: words{0x8000: 0x1234}, pc: 0x1234,
			want: map[uint64]uint64{rsp: 0x8008, rbp: 5, rbx: 6, rax: lostValue, r10: lostValue},
		}, {
			name:    "offset",
			program: a().Op(ehtest.DefCFAOffset).Uleb(32).Op(ehtest.OffsetReg | rbp).Uleb(2).Op(ehtest.OffsetReg | rbx).Uleb(3),
			regs:    map[uint64]uint64{rsp: 0x8000}, memory: words{0x8018: 0x1234, 0x8010: 0xb, 0x8008: 0xc}, pc: 0x1234,
			want: map[uint64]uint64{rsp: 0x8020, rbp: 0xb, rbx: 0xc},
		}, {
			name:    "CFA by a callee-saved register other than rbp",
			program: a().Op(ehtest.DefCFA).Uleb(rbx).Uleb(16),
			regs:    map[uint64]uint64{rsp: 0x7000, rbx: 0x8000}, memory: words{0x8008: 0x1234}, pc: 0x1234,
			want: map[uint64]uint64{rsp: 0x8010, rbx: 0x8000},
		}, {
			name:    "val_offset",
			program: a().Op(ehtest.ValOffset).Uleb(r12).Uleb(2),
			regs:    map[uint64]uint64{rsp: 0x8000}, memory: words{0x8000: 0x1234}, pc: 0x1234,
			want: map[uint64]uint64{rsp: 0x8008, r12: 0x7ff8},
		}, {
			name:    "register: vfork of glibc keeps its return address in rdi",
			program: a().Op(ehtest.DefCFAOffset).Uleb(0).Op(ehtest.Register).Uleb(ripColumn).Uleb(rdi),
			regs:    map[uint64]uint64{rsp: 0x8000, rdi: 0x1234}, pc: 0x1234,
			want: map[uint64]uint64{rsp: 0x8000},
		}, {
			name:    "undefined, same_value",
			program: a().Op(ehtest.Undefined).Uleb(rbp).Op(ehtest.SameValue).Uleb(r10),
			regs:    map[uint64]uint64{rsp: 0x8000, rbp: 1, r10: 2}, memory: words{0x8000: 0x1234}, pc: 0x1234,
			want: map[uint64]uint64{rbp: lostValue, r10: 2},
		}, {
			name:    "expression: the CFA is on the stack, the result is an address",
			program: a().Op(ehtest.Expression).Uleb(rbp).Block(a().Op(dwLit0 + 8).Op(dwPlus)),
			regs:    map[uint64]uint64{rsp: 0x8000}, memory: words{0x8000: 0x1234, 0x8010: 0x77}, pc: 0x1234,
			want: map[uint64]uint64{rbp: 0x77},
		}, {
			name:    "val_expression: the result is the value",
			program: a().Op(ehtest.ValExpression).Uleb(rbp).Block(a().Op(dwLit0 + 8).Op(dwPlus)),
			regs:    map[uint64]uint64{rsp: 0x8000}, memory: words{0x8000: 0x1234}, pc: 0x1234,
			want: map[uint64]uint64{rbp: 0x8010},
		}, {
			name: "CFA by an expression: a function that has realigned its stack (DRAP)",
			program: a().Op(ehtest.DefCFAExpression).Block(a().Op(dwBreg0 + rbp).Sleb(-8).Op(dwDeref)).Op(ehtest.Expression).
				Uleb(rbp).Block(a().Op(dwBreg0 + rbp).Sleb(0)),
			regs:   map[uint64]uint64{rsp: 0x7000, rbp: 0x7f00},
			memory: words{0x7ef8: 0x8000, 0x7f00: 0x99, 0x7ff8: 0x1234}, pc: 0x1234,
			want: map[uint64]uint64{rsp: 0x8000, rbp: 0x99},
		}, {
			name:    "an unreadable slot of another register does not end the walk",
			program: a().Op(ehtest.OffsetReg | rbp).Uleb(2),
			regs:    map[uint64]uint64{rsp: 0x8000, rbp: 1}, memory: words{0x8000: 0x1234}, pc: 0x1234,
			want: map[uint64]uint64{rbp: lostValue},
		}, {
			name: "signal trampoline: every register is known, the stack pointer has its own rule", augmentation: "zRS",
			program: a().Op(ehtest.DefCFAExpression).Block(a().Op(dwBreg0 + rsp).Sleb(160).Op(dwDeref)).
				Op(ehtest.Expression).Uleb(rsp).Block(a().Op(dwBreg0 + rsp).Sleb(160)).
				Op(ehtest.Expression).Uleb(rax).Block(a().Op(dwBreg0 + rsp).Sleb(144)).
				Op(ehtest.Expression).Uleb(ripColumn).Block(a().Op(dwBreg0 + rsp).Sleb(168)),
			regs:   map[uint64]uint64{rsp: 0x8000, r10: 4},
			memory: words{0x80a0: 0x6000, 0x8090: 0xaa, 0x80a8: 0x1234}, pc: 0x1234,
			want: map[uint64]uint64{rsp: 0x6000, rax: 0xaa, r10: 4},
		},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			augmentation := "zR"
			if test.augmentation != "" {
				augmentation = test.augmentation
			}
			caller, end, err := callerOf(augmentation, test.program, test.regs, test.memory)
			if end != "" || err != nil {
				t.Fatalf("%s, %v", end, err)
			}
			if caller.pc != test.pc || caller.exact != (augmentation == "zRS") {
				t.Errorf("caller at %#x, exact %t, want %#x", caller.pc, caller.exact, test.pc)
			}
			for number, want := range test.want {
				if got, ok := caller.registers[number]; ok != (want != lostValue) || ok && got != want {
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
		regs    map[uint64]uint64
		memory  words
		want    End
	}{
		{"return address undefined", a().Op(ehtest.Undefined).Uleb(ripColumn), nil, nil, Outermost},
		{"return address zero", a(), map[uint64]uint64{rsp: 0x8000}, words{0x8000: 0}, ZeroRoot},
		{"return address not in the copy", a(), map[uint64]uint64{rsp: 0x8000}, words{0x9000: 1}, OtherStack},
		{"CFA by a register that is lost", a().Op(ehtest.DefCFA).Uleb(r10).Uleb(0), map[uint64]uint64{rsp: 0x8000}, nil,
			RegisterLost},
		{"bad expression", a().Op(ehtest.DefCFAExpression).Block(a().Op(0x9c)), map[uint64]uint64{rsp: 0x8000}, nil, BadCFI},
		{"no rule for the return address", a().Op(ehtest.SameValue).Uleb(ripColumn), map[uint64]uint64{rsp: 0x8000}, nil,
			BadCFI},
		{"its own caller", a().Op(ehtest.DefCFA).Uleb(rsp).Uleb(0), map[uint64]uint64{rsp: 0x8000},
			words{0x7ff8: 0x400000 + at + 4}, BadCFI},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			if _, end, err := callerOf("zR", test.program, test.regs, test.memory); end != test.want {
				t.Errorf("%s, %v, want %s", end, err, test.want)
			}
		})
	}
}

// TestCopyEnds checks the reasons why memory is not in a copy.
func TestCopyEnds(t *testing.T) {
	for _, test := range []struct {
		full bool
		addr uint64
		want End
	}{{true, 0x8008, CopyEnds}, {false, 0x8008, NotCopied}, {true, 0x7ff8, OtherStack}, {true, 1 << 40, OtherStack}} {
		s := words{0x8000: 1}.copy()
		s.full = test.full
		if _, err := s.readWord(test.addr); err == nil || endOf(err) != test.want {
			t.Errorf("full %t, %#x: %v, want %s", test.full, test.addr, err, test.want)
		}
	}
}

// TestAArch64 checks that the return address is in x30 until it is saved, signed or not.
func TestAArch64(t *testing.T) {
	const x29, x30, sp = 29, 30, 31
	arm, _ := abiOf("arm64")
	s := &ehtest.Frames{Addr: 0x9000}
	cie := s.CIE(ehtest.CIE{Augmentation: "zR", Return: x30, CodeAlign: 4,
		Program: ehtest.Asm{}.Op(ehtest.DefCFA).Uleb(sp).Uleb(0)})
	// paciasp; stp x29, x30, [sp, -32]!
	s.FDE(cie, at, 0x100, ehtest.Asm{}.Op(ehtest.AdvanceLoc|1).Op(ehtest.AArch64NegateRAState).Op(ehtest.AdvanceLoc|1).
		Op(ehtest.DefCFAOffset).Uleb(32).Op(ehtest.OffsetReg|x29).Uleb(4).Op(ehtest.OffsetReg|x30).Uleb(3))
	file := fileOf(s)
	for _, test := range []struct{ vaddr, pc, sp, fp uint64 }{
		{at, 0x1234, 0x8000, 0x8100},
		{at + 8, 0x5678, 0x8020, 0x8200},
	} {
		leaf := &frame{
			abi: arm, pc: test.vaddr, exact: true, memory: words{0x8000: 0x8200, 0x8008: 0x00cd_0000_0000_5678}.copy(),
			registers: map[uint64]uint64{sp: 0x8000, x29: 0x8100, x30: 0x00ab_0000_0000_1234},
		}
		caller, end, err := stepFrame(leaf, file, test.vaddr)
		if end != "" || err != nil {
			t.Fatalf("at %#x: %s, %v", test.vaddr, end, err)
		}
		if _, known := caller.registers[x30]; caller.pc != test.pc || caller.registers[sp] != test.sp ||
			caller.registers[x29] != test.fp || known {
			t.Errorf("at %#x: pc %#x, registers %#x; want %#x %#x %#x", test.vaddr, caller.pc, caller.registers, test.pc,
				test.sp, test.fp)
		}
	}
}

// TestRulesAt checks that .eh_frame has precedence over .debug_frame, which fills its gaps, and that addresses get the
// right rows.
func TestRulesAt(t *testing.T) {
	eh, debug := &ehtest.Frames{Addr: 0x9000}, &ehtest.Frames{Debug: true}
	cie := eh.CIE(ehtest.CIE{Augmentation: "zR", Program: initial()})
	eh.FDE(cie, 0x1000, 0x10, ehtest.Asm{}.Op(ehtest.AdvanceLoc|4).Op(ehtest.DefCFAOffset).Uleb(16))
	cie = debug.CIE(ehtest.CIE{Program: initial()})
	debug.FDE(cie, 0x1000, 0x9020, ehtest.Asm{}.Op(ehtest.DefCFAOffset).Uleb(99))
	file := fileOf(eh, debug)
	for vaddr, want := range map[uint64]int64{0x1000: 8, 0x1003: 8, 0x1004: 16, 0x100f: 16, 0x1010: 99, 0x101f: 99,
		0xa01f: 99} {
		if answer := file.rules(vaddr); answer.end != "" || answer.row.cfa.offset != want {
			t.Errorf("at %#x: %+v, want CFA = rsp + %d", vaddr, answer, want)
		}
	}
	for _, vaddr := range []uint64{0, 0xfff, 0xa020} {
		if answer := file.rules(vaddr); answer.end != NoCFI {
			t.Errorf("at %#x: %+v, want %s", vaddr, answer, NoCFI)
		}
	}
}
