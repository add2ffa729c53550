// Package stackheight finds out, where there is no call frame information, how far
// the stack pointer is from the caller's frame, by reading the machine code: from
// every instruction on, some way leads to a return, and there the return address is
// on top of the stack. What the instructions on the way do to the stack pointer says
// how far that is. Hand-written assembly has no call frame information more often
// than not, nor has the code that C compilers bring along for every program's start.
//
// Code from which no way leads to a return, as that which calls exit, is followed from where its function begins: where
// a call leads, or an address that code computes.
//
// It knows x86-64. It follows what is plain to see and says nothing of the rest.
package stackheight

import (
	"slices"

	"github.com/headwater/headwater/ebpf/x86"
)

// Kind is how the canonical frame address is found, which is the stack pointer of
// the caller after the return.
type Kind uint8

// The kinds.
const (
	Unknown Kind = iota
	SP           // sp + Off
	FP           // fp + Off
	SPDeref      // *(sp + Off) + Add
	FPDeref      // *(fp + Off) + Add
)

// Rule says where the caller's frame is. The return address is 8 bytes below the
// canonical frame address.
type Rule struct {
	Kind Kind
	Off  int32
	Add  int32 // of SPDeref and FPDeref
	FP   int32 // the caller's frame pointer is saved at the canonical frame address + FP; 0: it is in its register
}

// Gap is code without call frame information.
type Gap struct {
	Start, End uint64 // all of it, ELF virtual addresses
	Addr       uint64 // of Text: where an instruction begins, or not far before what is asked about
	Text       []byte // as much of it as may be looked at
}

// maxPasses bounds the work: loops within loops need one more each.
const maxPasses = 12

// maxOffset keeps sums of offsets from foreign code within 32 bits.
const maxOffset = 1 << 28

// state is what is known before an instruction. Ways that say different things
// make a contradiction, which gives no rule.
type state struct {
	rule          Rule // Kind Unknown: no way to a return is known
	contradiction bool
	ahead         bool // it is known from the function's beginning, not by the way to a return
}

type placed struct {
	instruction
	at int32 // offset in the text
}

// Analysis reads gaps one after another. Its zero value is ready; one goroutine may
// use it.
type Analysis struct {
	gap    Gap
	code   []placed
	states []state // before each of code
	number []int32 // of the instruction that begins at an offset, plus one; 0: none does
	ahead  ahead
}

// Rules calls yield for every instruction of the gap's text for which there is a
// rule, in order, until it returns false. It takes time in proportion to the text, of
// which there must be less than 2 GiB.
func (a *Analysis) Rules(g Gap, yield func(addr uint64, size int, r Rule) bool) {
	a.gap = g
	a.decode()
	a.ahead.begin(a)
	a.back()
	if a.ahead.findLast() { // calls that do not return: what is before them is known better now
		clear(a.states)
		a.back()
	}
	a.ahead.fill()
	a.contradict()
	for i, in := range a.code {
		if s := a.states[i]; s.rule.Kind != Unknown && !s.contradiction &&
			!yield(g.Addr+uint64(in.at), in.size, s.rule) {
			return
		}
	}
}

// contradict takes the rules from code that an instruction leads to before which they cannot be: with more on the
// stack than the way to the return takes off again, that is not the way. A jump by memory to code of the same function
// makes such rules, as it looks like a jump to another function.
func (a *Analysis) contradict() {
	for i := 0; i+1 < len(a.code); i++ {
		in, after := a.code[i], &a.states[i+1]
		if in.effect != moves && in.effect != pushes || after.contradiction || after.rule.Kind != SP ||
			after.rule.Off+int32(in.n) >= wordBytes {
			continue
		}
		for i++; i < len(a.code); i++ {
			a.states[i].contradiction = true
			if e := a.code[i].effect; e == returns || e == leavesBy || e == stops || e == jumps || e == jumpsAnyway {
				break
			}
		}
	}
}

// wordBytes is the size of a return address.
const wordBytes = 8

// Begins reports whether, in the text last read, an instruction begins at addr.
func (a *Analysis) Begins(addr uint64) bool {
	at := addr - a.gap.Addr
	return at < uint64(len(a.number)) && a.number[at] != 0
}

// decode reads the instructions one after the other.
func (a *Analysis) decode() {
	a.code = a.code[:0]
	a.number = slices.Grow(a.number[:0], len(a.gap.Text))[:len(a.gap.Text)]
	clear(a.number)
	var calls x86.SystemCalls
	for at := 0; at < len(a.gap.Text); {
		in := decode(a.gap.Text[at:], &calls)
		if in.size == 0 {
			in = instruction{size: 1, effect: stops}
		}
		a.code = append(a.code, placed{in, int32(at)})
		a.number[at] = int32(len(a.code))
		at += in.size
	}
	a.states = slices.Grow(a.states[:0], len(a.code))[:len(a.code)]
	clear(a.states)
}

// back carries what is known back until nothing is new.
func (a *Analysis) back() {
	for range maxPasses {
		if !a.pass() {
			break
		}
	}
}

// pass carries what is known one way back, and reports whether anything is new.
func (a *Analysis) pass() bool {
	news := false
	for i := len(a.code) - 1; i >= 0; i-- {
		if s := a.before(i); s != a.states[i] {
			a.states[i], news = s, true
		}
	}
	return news
}

// before returns what is known before instruction i, by what is known after it.
func (a *Analysis) before(i int) state {
	in := a.code[i]
	switch in.effect {
	case returns, leavesBy:
		return entered()
	case stops, jumpsAnyway:
		return state{}
	case jumps:
		return a.target(in)
	case branches:
		return join(a.target(in), a.next(i))
	case calls:
		if a.endsFunction(i) {
			return state{}
		}
	}
	s := a.next(i)
	s.rule = s.rule.before(in.instruction)
	return s
}

// entered is the state at the first instruction of a function: it is as if it
// returned at once.
func entered() state { return state{rule: Rule{Kind: SP, Off: 8}} }

// next returns the state after instruction i.
func (a *Analysis) next(i int) state {
	if i+1 < len(a.states) {
		return a.states[i+1]
	}
	return state{}
}

// target returns the state where a jump goes to. Outside the gap that is another
// function, for a function has call frame information or has none.
func (a *Analysis) target(in placed) state {
	to := a.gap.Addr + uint64(in.at) + uint64(in.size) + uint64(in.n)
	if to < a.gap.Start || to >= a.gap.End {
		return entered()
	}
	if at := to - a.gap.Addr; at < uint64(len(a.number)) {
		if a.number[at] == 0 {
			return state{}
		}
		return a.states[a.number[at]-1]
	}
	if in.effect == jumps && to%functionAlign == 0 {
		return entered() // so far away, and aligned as functions are
	}
	return state{}
}

// functionAlign is what the beginnings of functions are aligned to.
const functionAlign = 16

// endsFunction reports whether the call i is the last instruction of a function,
// because what is called does not return: after it, or after padding, another one may
// begin.
func (a *Analysis) endsFunction(i int) bool {
	if a.ahead.last[i] {
		return true
	}
	next := i + 1
	for next < len(a.code) && a.code[next].effect == pads {
		next++
	}
	if next == len(a.code) {
		return true
	}
	after := a.code[next]
	padded := next > i+1 || after.effect == begins || (after.effect == moves || after.effect == pushes) && after.n < 0
	return padded && (a.gap.Addr+uint64(after.at))%functionAlign == 0
}

// join returns what two ways from an instruction say together.
func join(a, b state) state {
	switch {
	case a.contradiction || b.rule.Kind == Unknown && !b.contradiction:
		return a
	case b.contradiction || a.rule.Kind == Unknown || a.rule == b.rule:
		return b
	}
	return state{contradiction: true}
}

// before returns the rule before an instruction, if r is the one after it.
func (r Rule) before(in instruction) Rule {
	n := int32(in.n)
	if in.n > maxOffset || in.n < -maxOffset || r.Kind == Unknown {
		return Rule{}
	}
	bySP := r.Kind == SP || r.Kind == SPDeref
	switch in.effect {
	case moves, pushes:
		if bySP {
			r.Off += n
		}
	case pops:
		if !bySP {
			return Rule{}
		}
		r.Off += n
		r = r.restored(0)
	case restores:
		if !bySP {
			return Rule{}
		}
		r = r.restored(n)
	case saves, stores:
		switch {
		case r.Kind == SPDeref && r.Off == n:
			return Rule{} // it is in a register yet
		case r.Kind == SP && r.Off+r.FP == n && in.effect == saves:
			r.FP = 0
		}
	case fromFP, leaves, toFP, loadsBySP, loadsByFP:
		r = r.beforeMove(in.effect, n)
	case loses:
		if bySP {
			return Rule{}
		}
	}
	return r.checked()
}

// beforeMove returns the rule before stack pointer or frame pointer get another value.
func (r Rule) beforeMove(e effect, n int32) Rule {
	bySP := r.Kind == SP || r.Kind == SPDeref
	switch {
	case e == fromFP && !bySP:
	case e == fromFP:
		r = r.toBase(r.Kind+(FP-SP), n)
	case e == leaves && !bySP:
		return Rule{}
	case e == leaves:
		r.Off += 8
		r = r.restored(0)
		r = r.toBase(r.Kind+(FP-SP), n)
	case e == toFP && !bySP:
		r = r.toBase(r.Kind-(FP-SP), n)
	case e == toFP && r.FP == 0:
		return Rule{} // the caller's is lost
	case e == toFP:
	case r.Kind == SP && e == loadsBySP:
		r = Rule{Kind: SPDeref, Off: n, Add: r.Off, FP: r.FP}
	case r.Kind == SP:
		r = Rule{Kind: FPDeref, Off: n, Add: r.Off, FP: r.FP}
	case r.Kind == SPDeref:
		return Rule{}
	}
	return r
}

// checked returns r, or no rule if it cannot be.
func (r Rule) checked() Rule {
	switch {
	case r.Off > maxOffset || r.Off < -maxOffset || r.Kind == SP && r.Off < 8:
		return Rule{}
	case r.Kind == SP && r.Off+r.FP < 0:
		r.FP = 0 // it is not pushed yet
	}
	return r
}

// restored returns the rule before an instruction that takes the frame pointer from
// n bytes above the stack pointer. Only the last such one on the way to the return
// takes the caller's.
func (r Rule) restored(n int32) Rule {
	switch {
	case r.Kind == Unknown || r.FP != 0:
	case r.Kind == SP:
		r.FP = n - r.Off
	default:
		return Rule{}
	}
	return r
}

// toBase returns the rule by the other register, which is n bytes below what it is
// by now.
func (r Rule) toBase(k Kind, n int32) Rule {
	if r.Kind != Unknown {
		r.Kind, r.Off = k, r.Off+n
	}
	return r
}
