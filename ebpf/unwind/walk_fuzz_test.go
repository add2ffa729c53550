package unwind

import (
	"encoding/binary"
	"testing"
)

// chaos is an address space and a memory made of arbitrary bytes: every address has a rule, and
// almost every address is readable.
type chaos struct {
	rules []WideRule
	words []uint64
	seen  []WideRule // of the frames, in order
}

func (c *chaos) Rule(addr uint64) (WideRule, Outcome) {
	rule := c.rules[addr%uint64(len(c.rules))]
	c.seen = append(c.seen, rule)
	return rule, Unset
}

func (c *chaos) ReadU64(addr uint64) (uint64, bool) {
	if len(c.words) == 0 || addr%61 == 60 {
		return 0, false
	}
	return c.words[addr/8%uint64(len(c.words))], true
}

func (c *chaos) EndsAt(addr uint64) bool { return addr%3 == 0 }

func (c *chaos) Called(addr uint64) bool { return addr%5 != 0 }

// FuzzWalk walks any stack with any rules. A walk ends at the latest at its depth limit, and a call
// is unwound only towards the root of the stack.
func FuzzWalk(f *testing.F) {
	rule := func(w WideRule) []byte {
		b := []byte{byte(w.CFA), w.Reg, w.Rules, w.Reg2}
		for _, v := range []int32{w.CFAOff, w.FPOff, w.RAOff} {
			b = binary.LittleEndian.AppendUint32(b, uint32(v))
		}
		return b
	}
	f.Add(rule(WideRule{CFA: CFASP, CFAOff: 16}), []byte("12345678abcdefgh"), uint64(0x7000), uint64(0x7000), true)
	f.Add(rule(WideRule{CFA: CFASP, Rules: Rules(FPSame, RALR)}), []byte("12345678"), uint64(0x7000), uint64(0), false)
	f.Add(rule(WideRule{CFA: CFASignal, CFAOff: 160}), []byte("\x00\x70\x00\x00\x00\x00\x00\x00"), uint64(0x7000),
		uint64(0), true)
	f.Add(rule(WideRule{}), []byte("\x08\x70\x00\x00\x00\x00\x00\x00"), uint64(0x7000), uint64(0x7008), true)
	f.Fuzz(func(t *testing.T, code, memory []byte, sp, fp uint64, isX86 bool) {
		c := &chaos{rules: []WideRule{{}}}
		for ; len(code) >= 16; code = code[16:] {
			c.rules = append(c.rules, wideRule(code))
		}
		for ; len(memory) >= 8; memory = memory[8:] {
			c.words = append(c.words, binary.LittleEndian.Uint64(memory))
		}
		machine := arm
		if isX86 {
			machine = x86
		}
		const max = 1024
		regs := Regs{PC: fp ^ sp, SP: sp, FP: fp, LR: sp * 3, Exact: true, LRKnown: !isX86, Full: isX86}
		frames, last := 0, sp
		o := Walk(machine, c, &regs, c, max, func(r *Regs) {
			frames++
			if frames > 1 && r.SP < last && undoesCall(c.seen[frames-2]) {
				t.Fatalf("frame %d: from sp %#x down to %#x by %v", frames, last, r.SP, c.seen[frames-2])
			}
			last = r.SP
		})
		if o == Unset || o >= NumOutcomes || frames > max || frames == 0 {
			t.Errorf("%v after %d frames", o, frames)
		}
	})
}

func wideRule(b []byte) WideRule {
	v := func(at int) int32 { return int32(binary.LittleEndian.Uint32(b[at:])) }
	return WideRule{CFA: CFAKind(b[0]), Reg: b[1], Rules: b[2], Reg2: b[3], CFAOff: v(4), FPOff: v(8), RAOff: v(12)}
}

// undoesCall reports whether the caller's frame must be above the frame where w is used: not after
// a signal, or where frame records lead to another stack.
func undoesCall(w WideRule) bool {
	return w.CFA != CFANone && w.CFA != CFASignal && w.CFA <= CFASPIndexed
}
