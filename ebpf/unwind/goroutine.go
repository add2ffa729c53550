package unwind

// goroutine continues at the saved registers of the thread's current goroutine, for which functions
// of the runtime run on the thread's own stack. The runtime keeps only the registers of the last
// switch, so a walk continues there at most once, and only if the goroutine and the thread refer to
// each other. If the walk passed the scheduler, or the thread runs no goroutine, there are no
// goroutine frames.
func (s *stepper) goroutine() Outcome {
	pcIsKept := s.rule.RA() == RAReg
	none := UnsupportedRule
	if pcIsKept {
		none = Complete
	}
	if s.regs.Switches == noMoreSwitches {
		return none
	}
	current, o := s.currentGoroutine()
	switch {
	case o != Unset:
		return o
	case current == 0:
		return none
	}
	var saved, kept [2]uint64 // sp, pc; lr, fp
	if !s.readAll(current+8*uint64(s.rule.Reg2), saved[:]) ||
		!s.readAll(current+uint64(int64(s.rule.RAOff))-8, kept[:]) {
		return UnreadableStack
	}
	next := s.caller(saved[1], saved[0], kept[1])
	if next.SP == 0 || next.SP%8 != 0 {
		return UnsupportedRule
	}
	if !pcIsKept {
		if o := s.enterCaller(&next); o != Unset {
			return o
		}
	}
	if next.PC == 0 {
		return UnsupportedRule
	}
	next.PC = s.strip(next.PC)
	if s.arm && pcIsKept {
		next.LR, next.LRKnown = kept[0], true
	}
	next.Switches = noMoreSwitches
	*s.regs = next
	return Unset
}

// currentGoroutine returns the address of the descriptor of the thread's current goroutine, 0 if
// there is none.
func (s *stepper) currentGoroutine() (current uint64, o Outcome) {
	g, toM := s.regs.Thread, 8*uint64(s.rule.Reg)
	if g == 0 { // also in a walk over a copy of a stack, which does not contain the goroutine
		return 0, UnreadableStack
	}
	if !s.arm {
		if g, o = s.readWord(g+uint64(int64(s.rule.CFAOff)), 0); o != Unset {
			return 0, o
		}
	}
	m, o := s.readWord(g+toM, 0)
	if o == Unset {
		current, o = s.readWord(m+uint64(int64(s.rule.FPOff)), 0)
	}
	if g = current; o == Unset && g == 0 {
		g, o = s.readWord(m, 0) // the first word of m is the goroutine of the thread's own stack, g0
	}
	if o != Unset {
		return 0, o
	}
	owner, o := s.readWord(g+toM, 0)
	if o == Unset && owner != m {
		o = UnsupportedRule
	}
	return current, o
}

// enterCaller replaces the registers of a function without locals by its caller's registers.
func (s *stepper) enterCaller(r *Regs) (o Outcome) {
	if s.arm {
		if r.FP, o = s.readWord(r.SP-8, 0); o != Unset {
			return o
		}
	}
	if r.PC, o = s.readWord(r.SP, 0); s.arm {
		r.SP += 16
	} else {
		r.SP += 8
	}
	return o
}
