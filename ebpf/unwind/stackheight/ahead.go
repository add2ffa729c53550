package stackheight

import (
	"slices"

	"github.com/headwater/headwater/ebpf/unwind/x86"
)

// ahead follows functions forward from their first instruction, where the return address is on top
// of the stack.
type ahead struct {
	a       *Analysis
	begins  []int32 // instructions (by index) that start a function that the text refers to
	last    []bool  // by instruction: a call after which another function starts
	heights []height
	met     []int32 // instructions reached in the current function
	ends    []int32 // calls in it after which the backward analysis finds no frame: another function starts there
	todo    []int32
}

// height is the state before an instruction, derived from the path from the function's start.
type height struct {
	met  bool
	sp   int32 // bytes from the stack pointer to the canonical frame address; 0 if unknown
	fp   int32 // bytes from the frame pointer to the canonical frame address; 0 if unknown
	save int32 // the caller's frame pointer is saved at the canonical frame address + save; if 0, it is in its register
}

// begin initializes w for the decoded text of a. A call just before the start of a function does not return.
func (w *ahead) begin(a *Analysis) {
	w.a = a
	w.begins = w.begins[:0]
	w.last = resize(w.last, len(a.code))
	w.heights = resize(w.heights, len(a.code))
	for _, in := range a.code {
		if in.refers == 0 {
			continue
		}
		if to, ok := a.indexAt(in, in.refers); ok {
			w.begins = append(w.begins, to)
		}
	}
	for _, addr := range a.gap.Called {
		if a.Begins(addr) {
			w.begins = append(w.begins, a.number[addr-a.gap.Addr]-1)
		}
	}
	slices.Sort(w.begins)
	w.begins = slices.Compact(w.begins)
	for _, i := range w.begins {
		if i > 0 && a.code[i-1].Kind == x86.Call {
			w.last[i-1] = true
		}
	}
}

// resize returns a slice of n zeros, which reuses the memory of s if possible.
func resize[T any](s []T, n int) []T {
	if cap(s) < n {
		return make([]T, n)
	}
	s = s[:n]
	clear(s)
	return s
}

// indexAt returns the index of the instruction that starts n bytes after the end of in.
func (a *Analysis) indexAt(in placed, n int64) (int32, bool) {
	at := int64(in.at) + int64(in.size) + n
	if at < 0 || at >= int64(len(a.number)) || a.number[at] == 0 {
		return 0, false
	}
	return a.number[at] - 1, true
}

// findLast finds more calls after which another function starts, and reports whether there are any: calls after which
// the backward analysis finds no frame, although the forward analysis finds one.
func (w *ahead) findLast() (found bool) {
	for _, i := range w.begins {
		if !w.a.states[i].isEntered() && w.walkFrom(i, false) {
			for _, call := range w.ends {
				w.last[call], found = true, true
			}
		}
		w.forget()
	}
	return found
}

// fillHeights adds the rules of instructions that do not lead to a return, from the forward analysis.
func (w *ahead) fillHeights() {
	for _, i := range w.begins {
		if w.walkFrom(i, true) {
			for _, at := range w.met {
				w.takeInstruction(at)
			}
		}
		w.forget()
	}
}

// takeInstruction adds the rule of instruction i from the forward analysis.
func (w *ahead) takeInstruction(i int32) {
	s, h := &w.a.states[i], w.heights[i]
	r := Rule{Kind: Register, Reg: x86.RSP, Off: h.sp, FP: h.save}
	if h.sp == 0 {
		r.Reg, r.Off = x86.RBP, h.fp
	}
	switch r = r.checked(); {
	case r.Off == 0:
	case s.ahead && s.rule != r:
		*s = state{contradiction: true, ahead: true}
	case s.rule.Kind == Unknown && !s.contradiction:
		*s = state{rule: r, ahead: true}
	}
}

// forget resets the state for the next function.
func (w *ahead) forget() {
	for _, i := range w.met {
		w.heights[i] = height{}
	}
	w.met, w.ends = w.met[:0], w.ends[:0]
}

// walkFrom follows the function that starts at an instruction, and reports whether all paths agree. If
// strict, the backward analysis must agree too.
func (w *ahead) walkFrom(begin int32, strict bool) bool {
	w.todo = w.todo[:0]
	w.reach(begin, height{met: true, sp: 8})
	for len(w.todo) > 0 {
		i := w.todo[len(w.todo)-1]
		w.todo = w.todo[:len(w.todo)-1]
		if strict && !w.agrees(i) || !w.stepInstruction(i) {
			return false
		}
	}
	return true
}

// agrees reports whether the backward analysis agrees with the forward analysis at instruction i.
func (w *ahead) agrees(i int32) bool {
	s, sp := &w.a.states[i], w.heights[i].sp
	return s.rule.Kind != Register || !s.rule.bySP() || s.ahead || sp == 0 || s.rule.Off == sp
}

// stepInstruction follows instruction i.
func (w *ahead) stepInstruction(i int32) bool {
	in, h := w.a.code[i], w.heights[i]
	after := h.after(in.instruction)
	switch in.Kind {
	case x86.Return, x86.JumpBySlot:
		return h.sp == 8
	case x86.Stop, x86.JumpAnywhere:
		return true
	case x86.Jump:
		return w.followJump(in, after)
	case x86.Branch:
		return w.followJump(in, after) && w.setNext(i, after)
	case x86.Call:
		if w.a.endsFunction(int(i)) {
			return true
		}
		if h.sp > 8 && w.noFrameAfter(i) {
			w.ends = append(w.ends, i)
			return true
		}
	}
	return w.setNext(i, after)
}

// noFrameAfter reports whether the backward analysis finds no frame after call i, as at the start
// of a function. Of several calls in a row, only the last one does not return.
func (w *ahead) noFrameAfter(i int32) bool {
	for next := int(i) + 1; next < len(w.a.states) && w.a.states[next].isEntered(); next++ {
		switch in := w.a.code[next]; {
		case in.Kind == x86.Call:
			return false
		case in.Kind == x86.Branch || !in.goesOn():
			return true
		}
	}
	return int(i)+1 < len(w.a.states) && w.a.states[i+1].isEntered()
}

// setNext follows the instruction after i.
func (w *ahead) setNext(i int32, h height) bool {
	return int(i)+1 >= len(w.a.code) || w.reach(i+1, h)
}

// followJump follows a jump to its target. A target outside the gap is in another function.
func (w *ahead) followJump(in placed, h height) bool {
	if to, ok := w.a.indexAt(in, in.N); ok {
		return w.reach(to, h)
	}
	to := w.a.gap.Addr + uint64(in.at) + uint64(in.size) + uint64(in.N)
	inGap := to >= w.a.gap.Start && to < w.a.gap.End
	return inGap || h.sp == 8
}

// reach records the state before an instruction, and reports whether it agrees with other paths to
// that instruction.
func (w *ahead) reach(i int32, h height) bool {
	if known := w.heights[i]; known.met {
		return known == h
	}
	w.heights[i] = h
	w.met, w.todo = append(w.met, i), append(w.todo, i)
	return true
}

// after returns the state after an instruction.
func (h height) after(in instruction) height {
	n := int32(in.N)
	if in.isFar() || h.sp > maxOffset || h.fp > maxOffset {
		return height{met: true}
	}
	switch in.Kind {
	case x86.Add:
		h.sp = above(h.sp, -n)
	case x86.Push:
		h.sp = above(h.sp, -n)
		if in.Reg == x86.RBP && h.save == 0 && h.fp == 0 {
			h.save = -h.sp
		}
	case x86.Pop:
		if in.Reg == x86.RBP {
			h.restore(h.sp)
		}
		h.sp = above(h.sp, -n)
	case x86.Store:
		saves := in.Reg == x86.RBP && in.Wide && in.Base == x86.RSP
		if saves && h.save == 0 && h.fp == 0 && h.sp != 0 {
			h.save = n - h.sp
		}
	case x86.Leave:
		h.sp = h.fp
		h.restore(h.sp)
		h.sp = above(h.sp, -wordBytes)
	case x86.Load, x86.Address:
		h = h.setRegister(in.Effect, n)
	case x86.Align, x86.Lose:
		h.sp = 0
	default:
		if in.writes>>x86.RBP&1 != 0 {
			h.fp = 0
		}
	}
	return h
}

// setRegister returns the state after a register is loaded or set.
func (h height) setRegister(e x86.Effect, n int32) height {
	loads := e.Kind == x86.Load
	switch {
	case e.Reg == x86.RSP && e.Base == x86.RBP && !loads:
		h.sp = above(h.fp, -n)
	case e.Reg == x86.RSP:
		h.sp = 0
	case e.Reg == x86.RBP && e.Base == x86.RSP && loads:
		h.restore(above(h.sp, -n))
	case e.Reg == x86.RBP && e.Base == x86.RSP:
		h.fp = above(h.sp, -n)
	case e.Reg == x86.RBP:
		h.fp = 0
	}
	return h
}

// above returns a known distance plus n, or 0 if the result is invalid.
func above(distance, n int32) int32 {
	if distance == 0 || distance+n < 0 {
		return 0
	}
	return distance + n
}

// restore applies a load of the frame pointer from the address below bytes below the canonical
// frame address.
func (h *height) restore(below int32) {
	h.fp = 0
	if below != 0 && h.save == -below {
		h.save = 0
	}
}
