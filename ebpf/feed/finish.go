package feed

import (
	"debug/elf"
	"runtime"

	"github.com/headwater/headwater/ebpf/kernel"
	"github.com/headwater/headwater/ebpf/process"
	"github.com/headwater/headwater/ebpf/unwind"
)

// maxFrames is the most user frames of a finished stack.
const maxFrames = 1024

// missed reports whether a walk stopped for want of something that user space
// can still provide.
func missed(o unwind.Outcome) bool {
	return o == unwind.NoMapping || o == unwind.ProcessUnknown || o == unwind.PageMissing
}

// unfinished reports whether a walk may come further in user space: it missed
// something, it is in code of no file, or it went by old rows.
func unfinished(s *kernel.Sample) bool {
	return len(s.User) > 0 && (missed(s.Outcome) || s.Outcome == unwind.NoRow && s.Stack.Len() > 0 || astray(s))
}

// finish walks the rest of a stack whose walk in the kernel is unfinished, over
// the copy of the stack that came with the sample. It replaces the frame where
// the walk stopped, for that may be known better now, and the outcome. It
// returns the address space in which it walked.
func finish(t *process.Tracker, s *kernel.Sample) *process.Space {
	if astray(s) {
		goBack(t, s)
	}
	space := t.Space(s.PID, s.Time)
	if _, outcome := space.Rule(s.Regs.Lookup()); outcome != unwind.Unset {
		t.Refresh(s.PID, s.Regs.Lookup())
		space = t.Space(s.PID, s.Time)
	}
	leaf, fromLeaf := s.Regs, len(s.User) == 1
	walked := len(s.User)
	s.Regs.ViaFP = s.User[len(s.User)-1].Flags&kernel.FramePointer != 0
	s.User = s.User[:len(s.User)-1]
	start := s.Regs
	outcome, by := walkOn(space, s)
	if !outcome.Complete() && recheck(t, s) {
		s.Regs, s.User = start, s.User[:walked-1]
		outcome, by = walkOn(space, s)
	}
	switch last := len(s.User) - 1; {
	case outcome == unwind.UnreadableStack:
		return space // the copy ends: what was missing is still what stopped us
	case outcome == unwind.NoMapping && s.User[last].Flags&kernel.FramePointer != 0:
		// What looked like a frame record was none.
		s.User, outcome = s.User[:last], unwind.NoRow
	}
	if s.Outcome != outcome || len(s.User) > walked {
		s.Outcome, s.Finish = outcome, by
	}
	if outcome == unwind.UnsupportedRule && fromLeaf {
		s.Regs = leaf
		walkAnew(space, s)
	}
	return space
}

// walkOn walks from s.Regs, by rows and frame pointers and, where those end, by code.
func walkOn(space *process.Space, s *kernel.Sample) (unwind.Outcome, kernel.Finish) {
	by := kernel.ByRows
	for {
		outcome := unwind.Walk(machine(), space, &s.Regs, s.Stack, maxFrames-len(s.User), func(r *unwind.Regs) {
			s.User = append(s.User, frameAt(space, r))
		})
		if outcome != unwind.NoRow || len(s.User) >= maxFrames || !stepByCode(space, s) {
			return outcome, by
		}
		by = kernel.ByCode
	}
}

// stepByCode goes to the caller of s.Regs by what the code there does.
func stepByCode(space *process.Space, s *kernel.Sample) bool {
	rule, ok := space.RuleByCode(machine(), s.Regs.PC)
	if !ok {
		return false
	}
	caller := s.Regs
	caller.ViaFP = false
	if unwind.Step(machine(), rule, &caller, s.Stack) != unwind.Unset || !space.Called(machine(), caller.PC) {
		return false
	}
	s.Regs = caller
	return true
}

// walkAnew walks a stack from its leaf, of which the sample has the registers and
// the copy, because a rule needs more of them than a walk by rows keeps. It leaves
// the sample as it was unless it comes further.
func walkAnew(space *process.Space, s *kernel.Sample) {
	if s.Stack.Len() == 0 {
		return
	}
	var found []kernel.Frame
	outcome := newWalker(space, s.Stack).walk(s.Regs, maxFrames, func(r *unwind.Regs) { found = append(found, frameAt(space, r)) })
	if outcome.Complete() || len(found) > len(s.User) {
		s.User, s.Outcome, s.Finish = append(s.User[:0], found...), outcome, kernel.ByCFI
	}
}

func frameAt(space *process.Space, r *unwind.Regs) kernel.Frame {
	exe, vaddr := space.Locate(r.Lookup())
	f := kernel.Frame{Address: vaddr + (r.PC - r.Lookup()), Exe: exe}
	if !r.Exact {
		f.Flags |= kernel.ReturnAddress
	}
	if r.ViaFP {
		f.Flags |= kernel.FramePointer
	}
	return f
}

// machine is the instruction set of this host.
func machine() elf.Machine {
	if runtime.GOARCH == "arm64" {
		return elf.EM_AARCH64
	}
	return elf.EM_X86_64
}
