// Package stackheight computes the distance from the stack pointer to the caller's frame in code
// without call frame information. It reads the machine code: from almost every instruction, some
// path leads to a return, where the return address is on top of the stack. The effects of the
// instructions on the path give the distance. Hand-written assembly usually has no call frame
// information, and neither has the start code that C compilers link into every program.
//
// The frame may also be found through another register or through memory, where the code keeps the
// old stack pointer while the stack pointer is aligned.
//
// Code without a path to a return, such as code that calls exit, is followed from the start of its
// function. Function starts are the targets of calls and addresses that the code computes.
//
// It supports x86-64. It follows only simple cases and gives no rule for the rest.
package stackheight

import (
	"slices"

	"github.com/headwater/headwater/ebpf/unwind/x86"
)

// Kind is the formula of the canonical frame address, which is the stack pointer of the caller
// after the return.
type Kind uint8

// The kinds.
const (
	Unknown  Kind = iota
	Register      // Reg + Off
	Memory        // *(Reg + Off) + Add
)

// Rule describes the location of the caller's frame. The return address is 8 bytes below the
// canonical frame address.
type Rule struct {
	Kind Kind
	Reg  byte // register, as numbered in package x86
	Off  int32
	Add  int32 // of Memory
	FP   int32 // the caller's frame pointer is saved at the canonical frame address + FP; if 0, it is in its register
	Lost bool  // the caller's frame pointer is not known, whatever FP is
}

// bySP reports whether the rule uses the stack pointer.
func (r Rule) bySP() bool { return r.Kind != Unknown && r.Reg == x86.RSP }

// Gap is code without call frame information.
type Gap struct {
	Start, End uint64   // the whole gap, ELF virtual addresses
	Addr       uint64   // address of Text: the start of an instruction, or an address shortly before the code of interest
	Text       []byte   // the part of the gap that is analyzed
	Reach      uint64   // end of the longest Text that there may be instead, ELF virtual address; 0 if there is none
	Called     []uint64 // functions that code outside of Text calls, ELF virtual addresses
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
	short         bool // it depends on code after the text
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
	passed []uint8 // the passes, counted from 1, that changed the states last
	number []int32 // by offset, index plus one of the instruction that starts there; 0 if none
	ahead  ahead
}

// Rules calls yield for every instruction of the gap's text that has a rule, in order, until yield
// returns false. Its time is proportional to the text, which must be smaller than 2 GiB.
func (a *Analysis) Rules(g Gap, yield func(addr uint64, size int, r Rule) bool) {
	a.gap = g
	a.decode()
	a.ahead.begin(a)
	a.walkBack()
	if a.ahead.findLast() { // calls that do not return change the states before them
		clear(a.states)
		a.walkBack()
	}
	a.ahead.fillHeights()
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
		if in.Kind != x86.Add && in.Kind != x86.Push || after.contradiction || after.rule.Kind != Register ||
			!after.rule.bySP() || after.rule.Off+int32(in.N) >= wordBytes {
			continue
		}
		for i++; i < len(a.code); i++ {
			a.states[i].contradiction = true
			if !a.code[i].goesOn() {
				break
			}
		}
	}
}

// goesOn reports whether the next instruction may be executed after this one.
func (in instruction) goesOn() bool {
	switch in.Kind {
	case x86.Return, x86.JumpBySlot, x86.Stop, x86.Jump, x86.JumpAnywhere:
		return false
	}
	return true
}

// wordBytes is the size of a return address.
const wordBytes = 8

// Begins reports whether an instruction starts at addr in the last analyzed text.
func (a *Analysis) Begins(addr uint64) bool {
	at := addr - a.gap.Addr
	return at < uint64(len(a.number)) && a.number[at] != 0
}

// Short reports whether an instruction in [start, end) of the last analyzed text could have another
// rule, or a rule at all, if the text were longer.
func (a *Analysis) Short(start, end uint64) bool {
	for i, in := range a.code {
		if addr := a.gap.Addr + uint64(in.at); addr >= start && addr < end && a.states[i].short {
			return true
		}
	}
	return false
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
			in = instruction{size: 1, Effect: x86.Effect{Kind: x86.Stop}}
		}
		a.code = append(a.code, placed{in, int32(at)})
		a.number[at] = int32(len(a.code))
		at += in.size
	}
	a.states = slices.Grow(a.states[:0], len(a.code))[:len(a.code)]
	clear(a.states)
}

// walkBack propagates states backward until they no longer change.
func (a *Analysis) walkBack() {
	a.passed = resize(a.passed, len(a.code))
	for pass := uint8(1); pass <= maxPasses && a.runPass(pass); pass++ {
	}
}

// runPass propagates states backward once, and reports whether any state changed. Passes after the first one only look
// at the instructions that are due.
func (a *Analysis) runPass(pass uint8) bool {
	news := false
	for i := len(a.code) - 1; i >= 0; i-- {
		if pass > 1 && !a.isDue(i, pass) {
			continue
		}
		s := &a.states[i]
		if i+1 < len(a.states) && a.code[i].keeps(&a.states[i+1].rule) {
			if after := &a.states[i+1]; *s != *after {
				*s, a.passed[i], news = *after, pass, true
			}
		} else if before := a.before(i); *s != before {
			*s, a.passed[i], news = before, pass, true
		}
	}
	return news
}

// isDue reports whether the state before instruction i may change in a pass: the next instruction's state has changed
// in this pass, or the state at the target of a jump has changed in this pass or in the previous one.
func (a *Analysis) isDue(i int, pass uint8) bool {
	if i+1 < len(a.passed) && a.passed[i+1] == pass {
		return true
	}
	in := &a.code[i]
	if in.Kind != x86.Jump && in.Kind != x86.Branch {
		return false
	}
	to, ok := a.indexAt(*in, in.N)
	return ok && a.passed[to] >= pass-1
}

// keeps reports whether the rule before an instruction is r, the rule after it, as with most
// instructions. It may be false although the rule is the same. Rule.before takes much longer.
func (in *instruction) keeps(r *Rule) bool {
	switch in.Kind {
	case x86.None:
		return in.writes&(1<<r.Reg|1<<x86.RBP) == 0
	case x86.Load, x86.Address:
		return in.Reg != r.Reg && in.Reg != x86.RBP && !in.isFar()
	case x86.Store:
		return in.Base != r.Reg && in.Base != x86.RSP && !in.isFar()
	}
	return false
}

// isFar reports whether the distance of an instruction is too large to be one on the stack.
func (in *instruction) isFar() bool { return in.N > maxOffset || in.N < -maxOffset }

// before returns the state before instruction i, derived from the state after it.
func (a *Analysis) before(i int) state {
	in := &a.code[i]
	switch in.Kind {
	case x86.Return, x86.JumpBySlot:
		return entered()
	case x86.Stop, x86.JumpAnywhere:
		return state{}
	case x86.Jump:
		return a.target(in)
	case x86.Branch:
		return joinStates(a.target(in), a.stateAfter(i))
	case x86.Call:
		if a.endsFunction(i) {
			return state{}
		}
	}
	s := a.stateAfter(i)
	s.rule = s.rule.before(&in.instruction)
	return s
}

// entered is the state at the first instruction of a function: the same as before a return.
func entered() state { return state{rule: Rule{Kind: Register, Reg: x86.RSP, Off: 8}} }

// isEntered reports whether a state has the rule of the first instruction of a function.
func (s state) isEntered() bool { return s.rule == entered().rule && !s.contradiction }

// stateAfter returns the state after instruction i.
func (a *Analysis) stateAfter(i int) state {
	if i+1 < len(a.states) {
		return a.states[i+1]
	}
	return state{short: a.gap.Addr+uint64(len(a.gap.Text)) < a.gap.Reach}
}

// target returns the state at the target of a jump. A target outside the gap is in another
// function, because a function has call frame information for all of its code or for none.
func (a *Analysis) target(in *placed) state {
	to := a.gap.Addr + uint64(in.at) + uint64(in.size) + uint64(in.N)
	if to < a.gap.Start || to >= a.gap.End {
		return entered()
	}
	if at := to - a.gap.Addr; at < uint64(len(a.number)) {
		if a.number[at] == 0 {
			return state{}
		}
		return a.states[a.number[at]-1]
	}
	var s state
	if in.Kind == x86.Jump && to%functionAlign == 0 {
		s = entered() // far away, and aligned like a function
	}
	s.short = to > a.gap.Addr && to < a.gap.Reach
	return s
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
	for next < len(a.code) && a.code[next].Kind == x86.Pad {
		next++
	}
	if next == len(a.code) {
		return true
	}
	after := a.code[next]
	makesRoom := (after.Kind == x86.Add || after.Kind == x86.Push) && after.N < 0
	padded := next > i+1 || after.Kind == x86.Begin || makesRoom
	return padded && (a.gap.Addr+uint64(after.at))%functionAlign == 0
}

// joinStates combines the states of two paths.
func joinStates(a, b state) state {
	short := a.short || b.short
	switch {
	case a.contradiction || b.contradiction:
		return state{contradiction: true, short: short}
	case a.rule == b.rule:
		if a.rule.Kind != Unknown {
			short = a.short && b.short
		}
		a.short = short
		return a
	case b.rule.Kind == Unknown:
		return a
	case a.rule.Kind == Unknown:
		return b
	}
	return state{contradiction: true, short: short}
}

// before returns the rule before an instruction if r is the rule after it.
func (r Rule) before(in *instruction) Rule {
	n := int32(in.N)
	if in.isFar() || r.Kind == Unknown {
		return Rule{}
	}
	switch in.Kind {
	case x86.Push, x86.Add:
		r = r.pushed(in, n)
	case x86.Pop:
		if r.bySP() {
			r.Off += n
		}
		r = r.loaded(in.Reg, x86.RSP, 0)
	case x86.Load:
		r = r.loaded(in.Reg, in.Base, n)
	case x86.Address:
		r = r.assigned(in.Reg, in.Base, n)
	case x86.Store:
		r = r.stored(in.Effect, n)
	case x86.Leave:
		if r.bySP() {
			r.Off += wordBytes
			r = r.loaded(x86.RBP, x86.RSP, 0).assigned(x86.RSP, x86.RBP, 0)
		} else {
			r = r.loaded(x86.RBP, x86.RBP, 0)
		}
	case x86.Align, x86.Lose:
		if r.bySP() {
			return Rule{}
		}
	case x86.Call:
		if x86.Volatile>>r.Reg&1 != 0 {
			return Rule{}
		}
	default:
		if in.writes>>r.Reg&1 != 0 {
			return Rule{}
		}
		if in.writes>>x86.RBP&1 != 0 {
			r = r.withoutRegisters()
		}
	}
	return r.checked()
}

// pushed returns the rule before a register is pushed, or before n is added to the stack pointer.
func (r Rule) pushed(in *instruction, n int32) Rule {
	switch {
	case r.bySP() && r.Kind == Memory && r.Off == 0 && in.Kind == x86.Push:
		return r.withRegister(in.Reg) // the word is not on the stack yet
	case r.bySP():
		r.Off += n
	case in.Kind == x86.Push:
		r = r.savedElsewhere(in.Reg)
	}
	return r
}

// loaded returns the rule before a register is loaded from n bytes above another register. Only the
// last load of the frame pointer on the path to the return restores the caller's frame pointer.
func (r Rule) loaded(reg, base byte, n int32) Rule {
	switch {
	case r.Kind == Unknown:
	case reg == r.Reg && r.Kind == Register && base != x86.NoBase && reg != x86.RBP:
		r.Kind, r.Reg, r.Off, r.Add = Memory, base, n, r.Off
	case reg == r.Reg:
		return Rule{}
	case reg != x86.RBP || r.FP != 0:
	case r.Kind == Register && r.Reg == base:
		r.FP = n - r.Off
	case base == x86.RSP:
		return Rule{}
	default:
		r = r.withoutRegisters()
	}
	return r
}

// assigned returns the rule before a register is set to another register plus n.
func (r Rule) assigned(reg, base byte, n int32) Rule {
	switch {
	case r.Kind == Unknown:
	case reg == r.Reg && base == x86.NoBase:
		return Rule{}
	case reg == r.Reg:
		r.Reg, r.Off = base, r.Off+n
	case reg != x86.RBP:
	case base == x86.RSP && r.FP == 0:
		return Rule{} // the caller's frame pointer is never restored
	default:
		r = r.withoutRegisters()
	}
	return r
}

// stored returns the rule before a register is stored n bytes above another register.
func (r Rule) stored(e x86.Effect, n int32) Rule {
	switch {
	case e.Base == x86.RSP && !r.bySP() && e.Wide:
		r = r.savedElsewhere(e.Reg)
	case e.Base != r.Reg:
	case r.Kind == Memory && r.Off == n && e.Wide:
		return r.withRegister(e.Reg)
	case r.Kind == Memory && r.Off == n:
		return Rule{}
	case r.Kind == Register && r.Off+r.FP == n && e.Reg == x86.RBP && e.Wide:
		r.FP = 0
	}
	return r
}

// withoutRegisters returns the rule before the frame pointer gets another value. If the code does not restore
// it later, the caller's value is lost.
func (r Rule) withoutRegisters() Rule {
	if r.FP == 0 && r.Reg != x86.RBP {
		r.Lost = true
	}
	return r
}

// savedElsewhere returns the rule before a register is put on the stack, at an unknown distance to
// the frame. That may be the place of the caller's frame pointer, which then is not there yet.
func (r Rule) savedElsewhere(reg byte) Rule {
	if reg == x86.RBP && r.FP != 0 && r.Reg != x86.RBP {
		r.Lost = true
	}
	return r
}

// withRegister returns the rule of Memory before the word is stored from a register.
func (r Rule) withRegister(reg byte) Rule {
	if reg == x86.NoBase {
		return Rule{}
	}
	r.Kind, r.Reg, r.Off, r.Add = Register, reg, r.Add, 0
	return r
}

// checked returns r, or no rule if r is impossible.
func (r Rule) checked() Rule {
	sp := r.Kind == Register && r.bySP()
	switch {
	case r.Off > maxOffset || r.Off < -maxOffset || sp && r.Off < wordBytes:
		return Rule{}
	case sp && r.Off+r.FP < 0:
		r.FP, r.Lost = 0, false // the frame pointer is not pushed yet
	}
	return r
}
