// Package stackheight computes the distance from the stack pointer to the caller's frame in code
// without call frame information. It reads the machine code: from almost every instruction, some
// path leads to a return, where the return address is on top of the stack. The effects of the
// instructions on the path give the distance. Hand-written assembly usually has no call frame
// information, and neither has the start code that C compilers link into every program.
//
// Code without a path to a return, such as code that calls exit, is followed from the start of its
// function. Function starts are the targets of calls and addresses that the code computes.
//
// It supports x86-64. It follows only simple cases and gives no rule for the rest.
package stackheight

import (
	"slices"

	"github.com/headwater/headwater/ebpf/x86"
)

// Kind is the formula of the canonical frame address, which is the stack pointer of the caller
// after the return.
type Kind uint8

// The kinds.
const (
	Unknown Kind = iota
	SP           // sp + Off
	FP           // fp + Off
	SPDeref      // *(sp + Off) + Add
	FPDeref      // *(fp + Off) + Add
)

// Rule describes the location of the caller's frame. The return address is 8 bytes below the
// canonical frame address.
type Rule struct {
	Kind Kind
	Off  int32
	Add  int32 // of SPDeref and FPDeref
	FP   int32 // the caller's frame pointer is saved at the canonical frame address + FP; if 0, it is in its register
}

// Gap is code without call frame information.
type Gap struct {
	Start, End uint64 // the whole gap, ELF virtual addresses
	Addr       uint64 // address of Text: the start of an instruction, or an address shortly before the code of interest
	Text       []byte // the part of the gap that may be read
}

// maxPasses bounds the work. Each level of nested loops needs one more pass.
const maxPasses = 12

// maxOffset keeps sums of offsets from foreign code within 32 bits.
const maxOffset = 1 << 28

// state is the state before an instruction. If paths disagree, it is a contradiction, which gives
// no rule.
type state struct {
	rule          Rule // Unknown if there is no known path to a return
	contradiction bool
	ahead         bool // derived forward from the function's start, not backward from a return
}

type placed struct {
	instruction
	at int32 // offset in the text
}

// Analysis analyzes gaps one after another. Its zero value is ready to use. It must not be used
// concurrently.
type Analysis struct {
	gap    Gap
	code   []placed
	states []state // states before the instructions of code
	number []int32 // by offset, index plus one of the instruction that starts there; 0 if none
	ahead  ahead
}

// Rules calls yield for every instruction of the gap's text that has a rule, in order, until yield
// returns false. Its time is proportional to the text, which must be smaller than 2 GiB.
func (a *Analysis) Rules(g Gap, yield func(addr uint64, size int, r Rule) bool) {
	a.gap = g
	a.decode()
	a.ahead.begin(a)
	a.back()
	if a.ahead.findLast() { // calls that do not return change the states before them
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

// contradict removes impossible rules. If an instruction pushes more bytes than the path to the
// return pops, that path is wrong, and so are the rules up to the end of the path. Jumps through
// memory to code in the same function cause such rules, because they look like jumps to another
// function.
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

// Begins reports whether an instruction starts at addr in the last analyzed text.
func (a *Analysis) Begins(addr uint64) bool {
	at := addr - a.gap.Addr
	return at < uint64(len(a.number)) && a.number[at] != 0
}

// decode decodes the instructions one after another.
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

// back propagates states backward until they no longer change.
func (a *Analysis) back() {
	for range maxPasses {
		if !a.pass() {
			break
		}
	}
}

// pass propagates states backward once, and reports whether any state changed.
func (a *Analysis) pass() bool {
	news := false
	for i := len(a.code) - 1; i >= 0; i-- {
		if s := a.before(i); s != a.states[i] {
			a.states[i], news = s, true
		}
	}
	return news
}

// before returns the state before instruction i, derived from the state after it.
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

// entered is the state at the first instruction of a function: the same as before a return.
func entered() state { return state{rule: Rule{Kind: SP, Off: 8}} }

// next returns the state after instruction i.
func (a *Analysis) next(i int) state {
	if i+1 < len(a.states) {
		return a.states[i+1]
	}
	return state{}
}

// target returns the state at the target of a jump. A target outside the gap is in another
// function, because a function has call frame information for all of its code or for none.
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
		return entered() // far away, and aligned like a function
	}
	return state{}
}

// functionAlign is the alignment of function starts.
const functionAlign = 16

// endsFunction reports whether call i is the last instruction of a function, because the called
// function does not return. Another function may start after the call or after padding.
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

// join combines the states of two paths.
func join(a, b state) state {
	switch {
	case a.contradiction || b.rule.Kind == Unknown && !b.contradiction:
		return a
	case b.contradiction || a.rule.Kind == Unknown || a.rule == b.rule:
		return b
	}
	return state{contradiction: true}
}

// before returns the rule before an instruction if r is the rule after it.
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
			return Rule{} // the value is still in a register
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

// beforeMove returns the rule before the stack pointer or frame pointer is replaced.
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
		return Rule{} // the caller's frame pointer is lost
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

// checked returns r, or no rule if r is impossible.
func (r Rule) checked() Rule {
	switch {
	case r.Off > maxOffset || r.Off < -maxOffset || r.Kind == SP && r.Off < 8:
		return Rule{}
	case r.Kind == SP && r.Off+r.FP < 0:
		r.FP = 0 // the frame pointer is not pushed yet
	}
	return r
}

// restored returns the rule before an instruction that loads the frame pointer from n bytes above
// the stack pointer. Only the last such load on the path to the return restores the caller's frame
// pointer.
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

// toBase returns the rule relative to the other register, whose value is n bytes below the current
// base.
func (r Rule) toBase(k Kind, n int32) Rule {
	if r.Kind != Unknown {
		r.Kind, r.Off = k, r.Off+n
	}
	return r
}
