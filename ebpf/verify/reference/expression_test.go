package reference

import (
	"testing"

	"github.com/headwater/headwater/ebpf/unwind/ehframe/ehtest"
)

const minus1 = 1<<64 - 1

// TestOperations tests each operation according to DWARF 5, 2.5.1, including the examples of its appendix D.1.2.
func TestOperations(t *testing.T) {
	a := func() ehtest.Asm { return nil }
	tests := []struct {
		name  string
		code  ehtest.Asm
		stack []uint64
		want  uint64
	}{
		{"addr", a().Op(dwAddr).U64(0x1000), nil, 0x401000}, // plus the bias
		{"const1u", a().Op(dwConst1u).Op(0xff), nil, 0xff},
		{"const1s", a().Op(dwConst1s).Op(0xff), nil, minus1},
		{"const2u", a().Op(dwConst2u).U16(0xfffe), nil, 0xfffe},
		{"const2s", a().Op(dwConst2s).U16(0xfffe), nil, minus1 - 1},
		{"const4u", a().Op(dwConst4u).U32(0x80000000), nil, 0x80000000},
		{"const4s", a().Op(dwConst4s).U32(0x80000000), nil, 0xffffffff80000000},
		{"const8u", a().Op(dwConst8u).U64(1 << 63), nil, 1 << 63},
		{"const8s", a().Op(dwConst8s).U64(1 << 63), nil, 1 << 63},
		{"constu", a().Op(dwConstu).Uleb(624485), nil, 624485},
		{"consts", a().Op(dwConsts).Sleb(-123456), nil, minus1 - 123455},
		{"consts of ten bytes", a().Op(dwConsts).Sleb(-1 << 63), nil, 1 << 63},
		{"lit0", a().Op(dwLit0), nil, 0},
		{"lit31", a().Op(dwLit31), nil, 31},
		{"breg3", a().Op(dwBreg0 + 3).Sleb(-8), nil, 0x3000 - 8},
		{"breg16 is the pc", a().Op(dwBreg0 + 16).Sleb(0), nil, 0x401234},
		{"bregx", a().Op(dwBregx).Uleb(12).Sleb(300), nil, 0xc000 + 300},
		{"deref", a().Op(dwDeref), []uint64{0x7000}, 0x1122334455667788},
		{"deref_size 2", a().Op(dwDerefSize).Op(2), []uint64{0x7000}, 0x7788},
		{"deref_size 1", a().Op(dwDerefSize).Op(1), []uint64{0x7007}, 0x11},
		{"dup", a().Op(dwDup).Op(dwMinus), []uint64{17}, 0},
		{"drop", a().Op(dwDrop), []uint64{17, 29}, 17},
		{"over", a().Op(dwOver), []uint64{1000, 29, 17}, 29},
		{"pick 2", a().Op(dwPick).Op(2), []uint64{1000, 29, 17}, 1000},
		{"swap", a().Op(dwSwap), []uint64{1000, 29, 17}, 29},
		{"rot: top", a().Op(dwRot), []uint64{1000, 29, 17}, 29},
		{"rot: second", a().Op(dwRot).Op(dwDrop), []uint64{1000, 29, 17}, 1000},
		{"rot: third", a().Op(dwRot).Op(dwDrop).Op(dwDrop), []uint64{1000, 29, 17}, 17},
		{"abs", a().Op(dwAbs), []uint64{minus1}, 1},
		{"and", a().Op(dwAnd), []uint64{12, 10}, 8},
		{"div is signed", a().Op(dwDiv), []uint64{minus1 - 6, 2}, minus1 - 2}, // -7 / 2 = -3
		{"minus", a().Op(dwMinus), []uint64{10, 3}, 7},
		{"mod", a().Op(dwMod), []uint64{10, 3}, 1},
		{"mul", a().Op(dwMul), []uint64{minus1, 5}, minus1 - 4},
		{"neg", a().Op(dwNeg), []uint64{5}, minus1 - 4},
		{"not", a().Op(dwNot), []uint64{5}, minus1 - 5},
		{"or", a().Op(dwOr), []uint64{12, 10}, 14},
		{"plus wraps", a().Op(dwPlus), []uint64{minus1, 2}, 1},
		{"plus_uconst", a().Op(dwPlusUconst).Uleb(200), []uint64{1}, 201},
		{"shl", a().Op(dwShl), []uint64{3, 4}, 48},
		{"shl by more than the width", a().Op(dwShl), []uint64{3, 64}, 0},
		{"shr", a().Op(dwShr), []uint64{minus1, 60}, 15},
		{"shra", a().Op(dwShra), []uint64{minus1 - 15, 2}, minus1 - 3}, // -16 >> 2 = -4
		{"xor", a().Op(dwXor), []uint64{12, 10}, 6},
		{"eq", a().Op(dwEq), []uint64{5, 5}, 1},
		{"ne", a().Op(dwNe), []uint64{5, 5}, 0},
		{"ge", a().Op(dwGe), []uint64{5, 5}, 1},
		{"gt is signed", a().Op(dwGt), []uint64{minus1, 5}, 0},
		{"le", a().Op(dwLe), []uint64{5, 5}, 1},
		{"lt is signed", a().Op(dwLt), []uint64{minus1, 5}, 1},
		{"skip", a().Op(dwSkip).U16(1).Op(dwDrop).Op(dwNop), []uint64{7}, 7},
		{"bra taken", a().Op(dwBra).U16(1).Op(dwLit0 + 1), []uint64{9, 1}, 9},
		{"bra not taken", a().Op(dwBra).U16(1).Op(dwLit0 + 1), []uint64{9, 0}, 1},
		// 5 + 4 + 3 + 2 + 1: sum, n; loop: swap over plus swap lit1 minus dup bra loop; drop
		{"loop", a().Op(dwSwap).Op(dwOver).Op(dwPlus).Op(dwSwap).Op(dwLit0 + 1).Op(dwMinus).Op(dwDup).Op(dwBra).U16(0xfff6).
			Op(dwDrop), []uint64{0, 5}, 15},
		// the PLT of x86-64 as GNU ld writes it, at its push (pc & 15 = 4)
		{"plt", a().Op(dwBreg0 + 7).Sleb(8).Op(dwBreg0 + 16).Sleb(0).Op(dwLit0 + 15).Op(dwAnd).Op(dwLit0 + 11).Op(dwGe).
			Op(dwLit0 + 3).Op(dwShl).Op(dwPlus), nil, 0x8008},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			got, err := testFrame(0x401234, map[uint64]uint64{3: 0x3000, 7: 0x8000, 12: 0xc000},
				words{0x7000: 0x1122334455667788}).evaluate(test.code, 0x400000, test.stack...)
			if err != nil || got != test.want {
				t.Errorf("got %#x, %v, want %#x", got, err, test.want)
			}
		})
	}
}

func TestBadExpressions(t *testing.T) {
	a := func() ehtest.Asm { return nil }
	tests := []struct {
		name  string
		code  ehtest.Asm
		stack []uint64
		want  End
	}{
		{"nothing", a(), nil, BadCFI},
		{"empty stack", a().Op(dwPlus), []uint64{1}, BadCFI},
		{"pick too deep", a().Op(dwPick).Op(1), []uint64{1}, BadCFI},
		{"operand missing", a().Op(dwConst4u).U16(1), nil, BadCFI},
		{"number without end", a().Op(dwConstu).Op(0x80), nil, BadCFI},
		{"division by zero", a().Op(dwDiv), []uint64{1, 0}, BadCFI},
		{"modulo zero", a().Op(dwMod), []uint64{1, 0}, BadCFI},
		{"jump before the beginning", a().Op(dwSkip).U16(0xfff0), []uint64{1}, BadCFI},
		{"jump behind the end", a().Op(dwSkip).U16(1), []uint64{1}, BadCFI},
		{"endless loop", a().Op(dwSkip).U16(0xfffd), []uint64{1}, BadCFI},
		{"stack without end", a().Op(dwDup).Op(dwSkip).U16(0xfffc), []uint64{1}, BadCFI},
		{"register location", a().Op(0x50), nil, BadCFI},
		{"call_frame_cfa", a().Op(0x9c), nil, BadCFI},
		{"deref_size 9", a().Op(dwDerefSize).Op(9), []uint64{0x7000}, BadCFI},
		{"no such register", a().Op(dwBregx).Uleb(1000).Sleb(0), nil, RegisterLost},
		{"register not known", a().Op(dwBreg0).Sleb(0), nil, RegisterLost},
		{"memory not there", a().Op(dwDeref), []uint64{0x9000}, NotCopied},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			got, err := testFrame(0x401234, nil, words{0x7000: 1}).evaluate(test.code, 0, test.stack...)
			if err == nil || endOf(err) != test.want {
				t.Errorf("got %#x, %v, want %v", got, err, test.want)
			}
		})
	}
}

// FuzzEvaluate checks that no expression makes the evaluator panic or run for long.
func FuzzEvaluate(f *testing.F) {
	f.Add([]byte(ehtest.Asm{}.Op(dwSwap).Op(dwOver).Op(dwPlus).Op(dwBra).U16(0xfff6)), uint64(5))
	for op := range 256 {
		f.Add([]byte{byte(op), byte(op), 1, 2, 3, 4, 5, 6, 7, 8}, uint64(op))
	}
	f.Fuzz(func(t *testing.T, code []byte, first uint64) {
		_, _ = testFrame(0, nil, words{0x7000: 1}).evaluate(code, 0, first, first+1, 0x7000) // must return
	})
}
