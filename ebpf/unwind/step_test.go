package unwind

import (
	"debug/elf"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// words is a memory made by hand. All other addresses are unreadable.
type words map[uint64]uint64

func (w words) ReadU64(addr uint64) (uint64, bool) {
	v, ok := w[addr]
	return v, ok
}

func (w words) Called(addr uint64) bool { return addr != notCalled }

// notCalled is an address that does not follow a call.
const notCalled = 0x4445

// EndsAt treats the words as the whole stack.
func (w words) EndsAt(addr uint64) bool {
	for at := range w {
		if at > addr+0x100 {
			return false
		}
	}
	return true
}

const (
	x86 = elf.EM_X86_64
	arm = elf.EM_AARCH64

	// Offset of the saved stack pointer from the stack pointer at a signal trampoline: see package
	// unwindtable.
	x86SignalSP     = 160
	aarch64SignalSP = 560
)

// TestStep executes every kind of rule once. The formulas of row.go are worked out by hand.
func TestStep(t *testing.T) {
	leaf := Regs{PC: 0x4010, SP: 0x7000, FP: 0x7100, Exact: true, Full: true,
		General: [16]uint64{5: 0x9999, 9: 0x8888, 10: 0x7200}}
	armLeaf := Regs{PC: 0x4010, SP: 0x7000, FP: 0x7100, LR: 0x00ab_0000_0000_5555, Exact: true, LRKnown: true}
	caller := leaf
	caller.Exact, caller.Full = false, false
	for name, c := range map[string]struct {
		machine elf.Machine
		rule    WideRule
		regs    Regs
		mem     words
		want    Regs
		outcome Outcome
	}{
		"rsp": {x86, WideRule{CFA: CFASP, CFAOff: 16}, leaf, words{0x7008: 0x5555},
			Regs{PC: 0x5555, SP: 0x7010, FP: 0x7100}, Unset},
		"rbp saved": {x86, WideRule{CFA: CFASP, CFAOff: 24, Rules: Rules(FPAtCFA, RADefault), FPOff: -16}, leaf,
			words{0x7010: 0x5555, 0x7008: 0x7300}, Regs{PC: 0x5555, SP: 0x7018, FP: 0x7300}, Unset},
		"rbp": {x86, WideRule{CFA: CFAFP, CFAOff: 16, Rules: Rules(FPAtCFA, RADefault), FPOff: -16}, leaf,
			words{0x7108: 0x5555, 0x7100: 0x7300}, Regs{PC: 0x5555, SP: 0x7110, FP: 0x7300}, Unset},
		"rbp undefined": {x86, WideRule{CFA: CFASP, CFAOff: 8, Rules: Rules(FPUndefined, RADefault)}, leaf,
			words{0x7000: 0x5555}, Regs{PC: 0x5555, SP: 0x7008}, Unset},
		// 0x7000 + 8*0x8888 + 8
		"saved rsp after an array": {x86, WideRule{CFA: CFASPIndexed, CFAOff: 8, Reg: 9, Reg2: 1}, leaf,
			words{0x4b448: 0x7200, 0x7200: 0x5555}, Regs{PC: 0x5555, SP: 0x7208, FP: 0x7100}, Unset},
		"array of unknown length": {x86, WideRule{CFA: CFASPIndexed, CFAOff: 8, Reg: 9, Reg2: 1}, caller,
			words{0x4b448: 0x7200, 0x7200: 0x5555}, caller, UnsupportedRule},
		"saved sp in a descriptor": {x86, WideRule{CFA: CFASPDerefTwice, CFAOff: 56, Reg: 1, Reg2: 2}, leaf,
			words{0x7038: 0x9000, 0x9010: 0x7200, 0x7200: 0x5555}, Regs{PC: 0x5555, SP: 0x7208, FP: 0x7100}, Unset},
		"descriptor not readable": {x86, WideRule{CFA: CFASPDerefTwice, CFAOff: 56}, leaf, words{0x7038: 0x9000}, leaf,
			UnreadableStack},
		"record on another stack": {x86, WideRule{CFA: CFAFrame, CFAOff: 16},
			with(Regs{SP: 0x9000, FP: 0x7100}, 0x4010),
			words{0x7108: 0x5555, 0x7100: 0x7300}, Regs{PC: 0x5555, SP: 0x7110, FP: 0x7300}, Unset},
		"record, arm64": {arm, WideRule{CFA: CFAFrame, CFAOff: 40}, with(Regs{SP: 0x9000, FP: 0x7100}, 0x4010),
			words{0x7108: 0x00ab_0000_0000_5555, 0x7100: 0x7300}, Regs{PC: 0x5555, SP: 0x7128, FP: 0x7300}, Unset},
		"end of the records": {x86, WideRule{CFA: CFAFrame, CFAOff: 16}, with(Regs{SP: 0x9000}, 0x4010), nil,
			with(Regs{SP: 0x9000}, 0x4010), CompleteFP},
		"record not readable": {x86, WideRule{CFA: CFAFrame, CFAOff: 16}, leaf, words{0x7100: 0x7300}, leaf,
			UnreadableStack},
		"DRAP": {x86, WideRule{CFA: CFAFPDeref, CFAOff: -8, Rules: Rules(FPAtFP, RADefault)}, leaf,
			words{0x70f8: 0x7208, 0x7200: 0x5555, 0x7100: 0x7300}, Regs{PC: 0x5555, SP: 0x7208, FP: 0x7300}, Unset},
		"DRAP, when the frame is gone": {x86, WideRule{CFA: CFASP, CFAOff: 8, Rules: Rules(FPAtFP, RADefault)}, leaf,
			words{0x7000: 0x5555, 0x7100: 0x7300}, Regs{PC: 0x5555, SP: 0x7008, FP: 0x7100}, Unset},
		"3 GiB": {x86, WideRule{CFA: CFASPFar, CFAOff: 3 << 27}, leaf,
			words{0xc0006ff8: 0x5555}, Regs{PC: 0x5555, SP: 0xc0007000, FP: 0x7100}, Unset},
		"frame pointer of no use above": {x86, WideRule{}, leaf, words{0x7100: 1, 0x7108: notCalled}, leaf, NoRow},
		"frame pointer to what looks like a record": {x86, WideRule{}, leaf, words{0x7100: 0x7300, 0x7108: notCalled},
			leaf, NoRow},
		"chain to what looks like a record": {x86, WideRule{}, chained(0x7100, 0),
			words{0x7100: 0x7300, 0x7108: notCalled}, chained(0x7100, 0), NoRow},
		"by analysis": {x86, WideRule{CFA: CFASP, CFAOff: 8, Rules: Rules(FPSame, RACalled)}, leaf,
			words{0x7000: 0x5555}, Regs{PC: 0x5555, SP: 0x7008, FP: 0x7100}, Unset},
		"by analysis, to where nothing was called": {x86,
			WideRule{CFA: CFASP, CFAOff: 8, Rules: Rules(FPSame, RACalled)}, leaf, words{0x7000: notCalled}, leaf,
			NoCall},
		"by analysis, to the end of the stack": {x86,
			WideRule{CFA: CFASP, CFAOff: 8, Rules: Rules(FPSame, RACalled)}, leaf, words{0x7000: 0}, leaf, CompleteFP},
		"frame pointer of no use above, but a call": {x86, WideRule{}, leaf,
			words{0x7100: 1, 0x7108: 0x5558, 0x5550: 0xe8 << 24},
			Regs{PC: 0x5558, SP: 0x7110, FP: 1, ViaFP: true}, Unset},
		"saved rsp, one word off": {x86, WideRule{CFA: CFASPDeref, CFAOff: 40, Reg: 1}, leaf,
			words{0x7028: 0x7200, 0x7200: 0x5555}, Regs{PC: 0x5555, SP: 0x7208, FP: 0x7100}, Unset},
		"PLT before the push": {x86, WideRule{CFA: CFAPLT, CFAOff: 11}, with(leaf, 0x401a), words{0x7000: 0x5555},
			Regs{PC: 0x5555, SP: 0x7008, FP: 0x7100}, Unset},
		"PLT after the push": {x86, WideRule{CFA: CFAPLT, CFAOff: 11}, with(leaf, 0x401b), words{0x7008: 0x5555},
			Regs{PC: 0x5555, SP: 0x7010, FP: 0x7100}, Unset},
		"r10": {x86, WideRule{CFA: CFAReg, Reg: 10}, leaf, words{0x71f8: 0x5555},
			Regs{PC: 0x5555, SP: 0x7200, FP: 0x7100}, Unset},
		"r10 of a caller": {x86, WideRule{CFA: CFAReg, Reg: 10}, caller, words{0x71f8: 0x5555}, caller,
			UnsupportedRule},
		"rbp in r9": {x86, WideRule{CFA: CFASP, CFAOff: 8, Rules: Rules(FPReg, RADefault), Reg2: 9}, leaf,
			words{0x7000: 0x5555},
			Regs{PC: 0x5555, SP: 0x7008, FP: 0x8888}, Unset},
		"vfork": {x86, WideRule{CFA: CFASP, CFAOff: 0, Rules: Rules(FPSame, RAReg), RAOff: 5}, leaf, nil,
			Regs{PC: 0x9999, SP: 0x7000, FP: 0x7100}, Unset},
		"ra elsewhere": {x86, WideRule{CFA: CFASP, CFAOff: 32, Rules: Rules(FPSame, RAAtCFA), RAOff: -32}, leaf,
			words{0x7000: 0x5555},
			Regs{PC: 0x5555, SP: 0x7020, FP: 0x7100}, Unset},
		"outermost": {x86, WideRule{CFA: CFASP, Rules: Rules(FPSame, RAUndefined)}, leaf, nil,
			leaf, Complete},
		"ra zero": {x86, WideRule{CFA: CFASP, CFAOff: 8}, leaf, words{0x7000: 0}, leaf,
			CompleteFP},
		"ra zero below the end of the stack": {x86, WideRule{CFA: CFASP, CFAOff: 8}, leaf, words{0x7000: 0, 0x8000: 1},
			leaf, NoRow},
		"ra and rbp zero, of a coroutine": {x86,
			WideRule{CFA: CFASP, CFAOff: 8, Rules: Rules(FPUndefined, RADefault)}, leaf, words{0x7000: 0, 0x8000: 1},
			leaf, CompleteFP},
		"no stack": {x86, WideRule{CFA: CFASP, CFAOff: 8}, leaf, nil, leaf, UnreadableStack},
		"frame of no size": {x86, WideRule{CFA: CFASP}, leaf, words{0x6ff8: 0x5555}, leaf,
			NoProgress},
		"CFA below sp": {x86, WideRule{CFA: CFASP, CFAOff: -0x200}, leaf, words{0x6df8: 0x5555},
			leaf, NoProgress},
		"another stack, by rbp": {x86, WideRule{CFA: CFAFP, CFAOff: 16}, leafAt(0x5000),
			words{0x5008: 0x5555}, Regs{PC: 0x5555, SP: 0x5010, FP: 0x5000, Switches: 1}, Unset},
		"another stack, by a word": {x86, WideRule{CFA: CFASPDeref, Reg: 1}, leaf, words{0x7000: 0x5000, 0x5000: 0x5555},
			Regs{PC: 0x5555, SP: 0x5008, FP: 0x7100, Switches: 1}, Unset},
		"another stack, where nothing was called": {x86, WideRule{CFA: CFAFP, CFAOff: 16}, leafAt(0x5000),
			words{0x5008: notCalled}, leafAt(0x5000), NoProgress},
		"another stack once more": {x86, WideRule{CFA: CFAFP, CFAOff: 16}, chained(0x5000, maxSwitches),
			words{0x5008: 0x5555}, chained(0x5000, maxSwitches), NoProgress},
		"unsupported": {x86, Unsupported(ReasonSPRule).widen(), leaf, nil, leaf,
			UnsupportedRule},

		"frame pointer": {x86, WideRule{}, leaf, words{0x7100: 0x7300, 0x7108: 0x5555},
			Regs{PC: 0x5555, SP: 0x7110, FP: 0x7300, ViaFP: true}, Unset},
		"frame pointer to nowhere": {x86, WideRule{}, leaf, nil, leaf, NoRow},
		// the register may have any value
		"end of frame pointers": {x86, WideRule{}, leaf, words{0x7100: 0, 0x7108: 0}, leaf, NoRow},
		"last frame pointer": {x86, WideRule{}, leaf, words{0x7100: 0, 0x7108: 0x5555},
			Regs{PC: 0x5555, SP: 0x7110, ViaFP: true}, Unset},
		"frame pointer goes down": {x86, WideRule{}, leaf, words{0x7100: 0x7100, 0x7108: notCalled}, leaf, NoRow},
		"frame pointer below sp": {x86, WideRule{}, Regs{SP: 0x7000, FP: 0x6ff8},
			words{0x6ff8: 0x7300, 0x7000: 0x5555}, Regs{SP: 0x7000, FP: 0x6ff8}, NoRow},
		"frame pointer unaligned": {x86, WideRule{}, Regs{SP: 0x7000, FP: 0x7004},
			words{0x7004: 0x7300, 0x700c: 0x5555}, Regs{SP: 0x7000, FP: 0x7004}, NoRow},

		"root of a chain": {x86, WideRule{}, chained(0, 0), nil, chained(0, 0), CompleteFP},
		"rbp is a counter": {x86, WideRule{}, chained(0, 0), words{0x8000: 1}, chained(0, 0),
			NoRow},
		"record of zeros at the end of the stack": {x86, WideRule{}, chained(0x7100, 0), words{0x7100: 0, 0x7108: 0},
			chained(0x7100, 0), CompleteFP},
		"record of zeros below it": {x86, WideRule{}, chained(0x7100, 0),
			words{0x7100: 0, 0x7108: 0, 0x8000: 1}, chained(0x7100, 0), NoRow},
		"chain to another stack": {x86, WideRule{}, chained(0x7100, 0), words{0x7100: 0x6000, 0x7108: 0x5555},
			Regs{PC: 0x5555, SP: 0x7110, FP: 0x6000, ViaFP: true}, Unset},
		"chain on another stack": {x86, WideRule{}, chained(0x6000, 0), words{0x6000: 0x6100, 0x6008: 0x5555},
			Regs{PC: 0x5555, SP: 0x6010, FP: 0x6100, ViaFP: true, Switches: 1}, Unset},
		"chain to and fro": {x86, WideRule{}, chained(0x6000, maxSwitches), words{0x6000: 0x6100, 0x6008: 0x5555},
			chained(0x6000, maxSwitches), NoRow},

		"arm64 pair": {arm, WideRule{CFA: CFASP, CFAOff: 32, Rules: Rules(FPAtCFA, RADefault), FPOff: -32}, armLeaf,
			words{0x7000: 0x7300, 0x7008: 0x0012_0000_0000_6666}, Regs{PC: 0x6666, SP: 0x7020, FP: 0x7300}, Unset},
		"arm64 x30 alone": {arm, WideRule{CFA: CFASP, CFAOff: 16, FPOff: -24}, armLeaf, words{0x7000: 0x6666},
			Regs{PC: 0x6666, SP: 0x7010, FP: 0x7100}, Unset},
		"arm64 leaf": {arm, WideRule{CFA: CFASP, Rules: Rules(FPSame, RALR)}, armLeaf, nil,
			Regs{PC: 0x5555, SP: 0x7000, FP: 0x7100}, Unset},
		"arm64 leaf rule of a caller": {arm, WideRule{CFA: CFASP, Rules: Rules(FPSame, RALR)},
			Regs{PC: 0x4010, SP: 0x7000}, nil,
			Regs{PC: 0x4010, SP: 0x7000}, UnsupportedRule},
	} {
		t.Run(name, func(t *testing.T) {
			regs := c.regs
			if o := Step(c.machine, c.rule, &regs, c.mem); o != c.outcome {
				t.Errorf("outcome %v, want %v", o, c.outcome)
			}
			if diff := cmp.Diff(c.want, regs); diff != "" {
				t.Errorf("registers (-want +got):\n%s", diff)
			}
		})
	}
}

// leafAt is a leaf with a frame pointer.
func leafAt(fp uint64) Regs { return Regs{PC: 0x4010, SP: 0x7000, FP: fp} }

// chained returns a frame that was found through a frame record.
func chained(fp uint64, switches uint8) Regs {
	return Regs{PC: 0x4010, SP: 0x7000, FP: fp, ViaFP: true, Switches: switches}
}

func with(r Regs, pc uint64) Regs {
	r.PC = pc
	return r
}

// TestStepSignal steps through signal frames in the kernel's layout. The offsets come from struct
// ucontext and struct rt_sigframe.
func TestStepSignal(t *testing.T) {
	const sp = 0x7000
	mem := words{}
	gregs := []int{8, 9, 10, 11, 12, 13, 14, 15, 5, 4, 6, 3, 1, 0, 2, 7, 16} // DWARF numbers; 16 is rip
	for i, number := range gregs {
		mem[sp+40+8*uint64(i)] = 0x100 + uint64(number)
	}
	regs := Regs{SP: sp}
	if o := Step(x86, WideRule{CFA: CFASignal, CFAOff: x86SignalSP}, &regs, mem); o != Unset {
		t.Fatal(o)
	}
	want := Regs{PC: 0x110, SP: 0x107, FP: 0x106, Exact: true, Full: true}
	for i := range want.General {
		want.General[i] = 0x100 + uint64(i)
	}
	if diff := cmp.Diff(want, regs); diff != "" {
		t.Errorf("x86-64 (-want +got):\n%s", diff)
	}

	const registers = sp + 128 + 176 + 8 // siginfo, ucontext up to the sigcontext, fault address
	mem = words{}
	for i := uint64(28); i <= 32; i++ {
		mem[registers+8*i] = i
	}
	regs = Regs{SP: sp}
	if o := Step(arm, WideRule{CFA: CFASignal, CFAOff: aarch64SignalSP}, &regs, mem); o != Unset {
		t.Fatal(o)
	}
	if diff := cmp.Diff(Regs{PC: 32, SP: 31, FP: 29, LR: 30, Exact: true, LRKnown: true, Thread: 28}, regs); diff != "" {
		t.Errorf("arm64 (-want +got):\n%s", diff)
	}

	regs = Regs{SP: sp}
	if o := Step(x86, WideRule{CFA: CFASignal, CFAOff: x86SignalSP}, &regs, words{}); o != UnreadableStack {
		t.Errorf("no ucontext: %v", o)
	}
}

// textSpace has one rule for each range of addresses.
type textSpace map[[2]uint64]WideRule

func (s textSpace) Rule(addr uint64) (WideRule, Outcome) {
	for r, rule := range s {
		if r[0] <= addr && addr < r[1] {
			return rule, Unset
		}
	}
	return WideRule{}, NoMapping
}

// TestWalk walks a leaf, a function that ends in a call, and the entry point. The return address
// after the call belongs to the next function, whose rule would be wrong.
func TestWalk(t *testing.T) {
	space := textSpace{
		{0x1000, 0x1010}: {CFA: CFASP, CFAOff: 8},
		{0x2000, 0x2010}: {CFA: CFASP, CFAOff: 24},
		{0x2010, 0x2020}: {CFA: CFASP, CFAOff: 512},
		{0x3000, 0x3010}: {CFA: CFASP, Rules: Rules(FPSame, RAUndefined)},
	}
	mem := words{0x7000: 0x2010, 0x7018: 0x3005}
	walk := func(max int) (pcs []uint64, o Outcome) {
		regs := Regs{PC: 0x1000, SP: 0x7000, Exact: true}
		o = Walk(x86, space, &regs, mem, max, func(r *Regs) { pcs = append(pcs, r.PC) })
		return pcs, o
	}
	pcs, o := walk(10)
	if diff := cmp.Diff([]uint64{0x1000, 0x2010, 0x3005}, pcs); o != Complete || diff != "" {
		t.Errorf("%v (-want +got):\n%s", o, diff)
	}
	if pcs, o := walk(2); o != DepthLimit || len(pcs) != 2 {
		t.Errorf("%d frames, %v", len(pcs), o)
	}
	delete(space, [2]uint64{0x3000, 0x3010})
	if pcs, o := walk(10); o != NoMapping || len(pcs) != 3 {
		t.Errorf("%d frames, %v", len(pcs), o)
	}
}

// TestFollowsCallAtPageStart: a call may be the first instruction of the first page of code.
func TestFollowsCallAtPageStart(t *testing.T) {
	code := words{0x5000: 0xc359_0000_0000_00e8, 0x6000: 0x90_d1ff}
	for addr, want := range map[uint64]bool{0x5005: true, 0x5004: false, 0x6002: true, 0x6003: false, 0x5000: false} {
		if got := FollowsCall(x86, addr, code); got != want {
			t.Errorf("%#x: %v, want %v", addr, got, want)
		}
	}
}
