package cfi

import (
	"debug/elf"
	"encoding/binary"
	"errors"
	"testing"

	"github.com/headwater/headwater/ebpf/unwind/ehframe/ehtest"
)

// words is a memory of 8-byte words.
type words map[uint64]uint64

// Read reads within one word.
func (w words) Read(addr uint64, b []byte) bool {
	v, ok := w[addr&^7]
	if !ok || addr&7+uint64(len(b)) > 8 {
		return false
	}
	var word [8]byte
	binary.LittleEndian.PutUint64(word[:], v)
	copy(b, word[addr&7:])
	return true
}

func x86(t testing.TB) Machine {
	t.Helper()
	m, ok := MachineOf(elf.EM_X86_64)
	if !ok {
		t.Fatal("x86-64 is not known")
	}
	return m
}

const minus1 = 1<<64 - 1

// TestOperations checks each operation against DWARF 5, 2.5.1, including the examples of its
// appendix D.1.2.
func TestOperations(t *testing.T) {
	a := func() ehtest.Asm { return nil }
	tests := []struct {
		name  string
		code  ehtest.Asm
		stack []uint64
		want  uint64
	}{
		{"addr", a().Op(opAddr).U64(0x1000), nil, 0x401000}, // plus the bias
		{"const1u", a().Op(opConst1u).Op(0xff), nil, 0xff},
		{"const1s", a().Op(opConst1s).Op(0xff), nil, minus1},
		{"const2u", a().Op(opConst2u).U16(0xfffe), nil, 0xfffe},
		{"const2s", a().Op(opConst2s).U16(0xfffe), nil, minus1 - 1},
		{"const4u", a().Op(opConst4u).U32(0x80000000), nil, 0x80000000},
		{"const4s", a().Op(opConst4s).U32(0x80000000), nil, 0xffffffff80000000},
		{"const8u", a().Op(opConst8u).U64(1 << 63), nil, 1 << 63},
		{"const8s", a().Op(opConst8s).U64(1 << 63), nil, 1 << 63},
		{"constu", a().Op(opConstu).Uleb(624485), nil, 624485},
		{"consts", a().Op(opConsts).Sleb(-123456), nil, minus1 - 123455},
		{"consts of ten bytes", a().Op(opConsts).Sleb(-1 << 63), nil, 1 << 63},
		{"lit0", a().Op(opLit0), nil, 0},
		{"lit31", a().Op(opLit31), nil, 31},
		{"breg3", a().Op(opBreg0 + 3).Sleb(-8), nil, 0x3000 - 8},
		{"breg16 is the pc", a().Op(opBreg0 + 16).Sleb(0), nil, 0x401234},
		{"bregx", a().Op(opBregx).Uleb(12).Sleb(300), nil, 0xc000 + 300},
		{"deref", a().Op(opDeref), []uint64{0x7000}, 0x1122334455667788},
		{"deref_size 2", a().Op(opDerefSize).Op(2), []uint64{0x7000}, 0x7788},
		{"deref_size 1", a().Op(opDerefSize).Op(1), []uint64{0x7007}, 0x11},
		{"dup", a().Op(opDup).Op(opMinus), []uint64{17}, 0},
		{"drop", a().Op(opDrop), []uint64{17, 29}, 17},
		{"over", a().Op(opOver), []uint64{1000, 29, 17}, 29},
		{"pick 2", a().Op(opPick).Op(2), []uint64{1000, 29, 17}, 1000},
		{"swap", a().Op(opSwap), []uint64{1000, 29, 17}, 29},
		{"rot: top", a().Op(opRot), []uint64{1000, 29, 17}, 29},
		{"rot: second", a().Op(opRot).Op(opDrop), []uint64{1000, 29, 17}, 1000},
		{"rot: third", a().Op(opRot).Op(opDrop).Op(opDrop), []uint64{1000, 29, 17}, 17},
		{"abs", a().Op(opAbs), []uint64{minus1}, 1},
		{"and", a().Op(opAnd), []uint64{12, 10}, 8},
		{"div is signed", a().Op(opDiv), []uint64{minus1 - 6, 2}, minus1 - 2}, // -7 / 2 = -3
		{"minus", a().Op(opMinus), []uint64{10, 3}, 7},
		{"mod", a().Op(opMod), []uint64{10, 3}, 1},
		{"mul", a().Op(opMul), []uint64{minus1, 5}, minus1 - 4},
		{"neg", a().Op(opNeg), []uint64{5}, minus1 - 4},
		{"not", a().Op(opNot), []uint64{5}, minus1 - 5},
		{"or", a().Op(opOr), []uint64{12, 10}, 14},
		{"plus wraps", a().Op(opPlus), []uint64{minus1, 2}, 1},
		{"plus_uconst", a().Op(opPlusUconst).Uleb(200), []uint64{1}, 201},
		{"shl", a().Op(opShl), []uint64{3, 4}, 48},
		{"shl by more than the width", a().Op(opShl), []uint64{3, 64}, 0},
		{"shr", a().Op(opShr), []uint64{minus1, 60}, 15},
		{"shra", a().Op(opShra), []uint64{minus1 - 15, 2}, minus1 - 3}, // -16 >> 2 = -4
		{"xor", a().Op(opXor), []uint64{12, 10}, 6},
		{"eq", a().Op(opEq), []uint64{5, 5}, 1},
		{"ne", a().Op(opNe), []uint64{5, 5}, 0},
		{"ge", a().Op(opGe), []uint64{5, 5}, 1},
		{"gt is signed", a().Op(opGt), []uint64{minus1, 5}, 0},
		{"le", a().Op(opLe), []uint64{5, 5}, 1},
		{"lt is signed", a().Op(opLt), []uint64{minus1, 5}, 1},
		{"skip", a().Op(opSkip).U16(1).Op(opDrop).Op(opNop), []uint64{7}, 7},
		{"bra taken", a().Op(opBra).U16(1).Op(opLit0 + 1), []uint64{9, 1}, 9},
		{"bra not taken", a().Op(opBra).U16(1).Op(opLit0 + 1), []uint64{9, 0}, 1},
		// 5 + 4 + 3 + 2 + 1: sum, n; loop: swap over plus swap lit1 minus dup bra loop; drop
		{"loop", a().Op(opSwap).Op(opOver).Op(opPlus).Op(opSwap).Op(opLit0 + 1).Op(opMinus).Op(opDup).Op(opBra).U16(0xfff6).
			Op(opDrop), []uint64{0, 5}, 15},
		// the PLT of x86-64 in GNU ld's form, at its push (pc & 15 = 4)
		{"plt", a().Op(opBreg0 + 7).Sleb(8).Op(opBreg0 + 16).Sleb(0).Op(opLit0 + 15).Op(opAnd).Op(opLit0 + 11).Op(opGe).
			Op(opLit0 + 3).Op(opShl).Op(opPlus), nil, 0x8008},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			got, err := testContext(t).evaluate(test.code, test.stack...)
			if err != nil || got != test.want {
				t.Errorf("got %#x, %v, want %#x", got, err, test.want)
			}
		})
	}
}

func testContext(t testing.TB) context {
	f := &Frame{PC: 0x401234}
	f.Regs.Set(3, 0x3000)
	f.Regs.Set(7, 0x8000)
	f.Regs.Set(12, 0xc000)
	return context{machine: x86(t), frame: f, memory: words{0x7000: 0x1122334455667788}, bias: 0x400000}
}

func TestBadExpressions(t *testing.T) {
	a := func() ehtest.Asm { return nil }
	tests := []struct {
		name  string
		code  ehtest.Asm
		stack []uint64
		want  error
	}{
		{"nothing", a(), nil, ErrExpression},
		{"empty stack", a().Op(opPlus), []uint64{1}, ErrExpression},
		{"pick too deep", a().Op(opPick).Op(1), []uint64{1}, ErrExpression},
		{"operand missing", a().Op(opConst4u).U16(1), nil, ErrExpression},
		{"number without end", a().Op(opConstu).Op(0x80), nil, ErrExpression},
		{"number too long", a().Op(opConstu).U64(minus1).U64(minus1), nil, ErrExpression},
		{"division by zero", a().Op(opDiv), []uint64{1, 0}, ErrExpression},
		{"modulo zero", a().Op(opMod), []uint64{1, 0}, ErrExpression},
		{"jump before the beginning", a().Op(opSkip).U16(0xfff0), []uint64{1}, ErrExpression},
		{"jump behind the end", a().Op(opSkip).U16(1), []uint64{1}, ErrExpression},
		{"endless loop", a().Op(opSkip).U16(0xfffd), []uint64{1}, ErrExpression},
		{"stack without end", a().Op(opDup).Op(opSkip).U16(0xfffc), []uint64{1}, ErrExpression},
		{"register location", a().Op(0x50), nil, ErrExpression},
		{"call_frame_cfa", a().Op(0x9c), nil, ErrExpression},
		{"deref_size 9", a().Op(opDerefSize).Op(9), []uint64{0x7000}, ErrExpression},
		{"no such register", a().Op(opBregx).Uleb(1000).Sleb(0), nil, ErrExpression},
		{"register not known", a().Op(opBreg0).Sleb(0), nil, errLost},
		{"memory not there", a().Op(opDeref), []uint64{0x9000}, errUnreadable},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			got, err := testContext(t).evaluate(test.code, test.stack...)
			if !errors.Is(err, test.want) {
				t.Errorf("got %#x, %v, want %v", got, err, test.want)
			}
		})
	}
}

// FuzzEvaluate: no expression makes the evaluator panic or run for a long time.
func FuzzEvaluate(f *testing.F) {
	f.Add([]byte(ehtest.Asm{}.Op(opSwap).Op(opOver).Op(opPlus).Op(opBra).U16(0xfff6)), uint64(5))
	f.Add([]byte(ehtest.Asm{}.Op(opBreg0+7).Sleb(160).Op(opDeref).Op(opDerefSize).Op(8)), uint64(0x7000))
	for op := range 256 {
		f.Add([]byte{byte(op), byte(op), 1, 2, 3, 4, 5, 6, 7, 8}, uint64(op))
	}
	f.Fuzz(func(t *testing.T, code []byte, first uint64) {
		if _, err := testContext(t).evaluate(code, first, first+1, 0x7000); err != nil && endOf(err) == Unset {
			t.Errorf("%v: no end of a walk", err)
		}
	})
}
