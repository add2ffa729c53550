package sampler

import (
	"slices"

	"github.com/headwater/headwater/ebpf/kernel"
	"github.com/headwater/headwater/ebpf/process"
	"github.com/headwater/headwater/ebpf/unwind"
)

// maxFrames is the most user frames of a finished stack.
const maxFrames = 1024

// missed reports whether a walk stopped because it lacked data that user space can still provide.
func missed(o unwind.Outcome) bool {
	return o == unwind.NoMapping || o == unwind.ProcessUnknown || o == unwind.PageMissing
}

// unfinished reports whether a walk may get further in user space: it missed a table, it is in code of no file, or it
// used old rows.
func unfinished(s *kernel.Sample) bool {
	inCode := s.Outcome == unwind.NoRow && s.Stack.Exists()
	return len(s.User) > 0 && (missed(s.Outcome) || inCode || mayHaveUsedStaleRows(s))
}

// completeStack continues a walk where the kernel's walk stopped, or walks again from the leaf if the kernel's walk
// used old rows or too few registers. view is of the sample's process and time; it is looked up again when the process
// is known better.
func completeStack(t *process.Tracker, view *process.View, s *kernel.Sample) {
	if s.Outcome == unwind.Task32Bit {
		walkCompat(t, view, s)
		return
	}
	leaveOldMappings(view, s)
	walked := s.User
	s.FPs = s.FPs[:0]
	if s.Chain.Interpreter != 0 {
		walked = slices.Clone(s.User) // the walk below overwrites it
	}
	switch {
	case unfinished(s):
		resume(t, view, s)
	case s.FromLeaf && len(s.User) > 0:
		rewalk(view, s)
	}
	s.Walked = sameFrames(walked, s.User)
}

// leaveOldMappings drops the frames of a walk that used mappings which the process no longer had at that time, unless
// the walk only failed to look up an address. It has a copy of the stack from the leaf on walked again.
func leaveOldMappings(view *process.View, s *kernel.Sample) {
	switch {
	case !view.Stale(s.Generation):
		if s.Precaution && s.Outcome.Complete() {
			s.FromLeaf = false
		}
	case s.FromLeaf && s.Stack.Exists() && len(s.User) > 0:
		s.User, s.Outcome, s.FromLeaf = s.User[:1], unwind.PageMissing, false
	case missed(s.Outcome) && len(s.User) == 1, !s.Outcome.HasUserPart():
	default:
		s.User, s.Outcome = s.User[:0], unwind.Replaced
	}
}

// sameFrames returns the number of frames, from the leaf on, that two stacks have in common.
func sameFrames(a, b []kernel.Frame) (n int) {
	for n < min(len(a), len(b)) && a[n].Vaddr == b[n].Vaddr && a[n].Exe == b[n].Exe {
		n++
	}
	return n
}

// resume walks the rest of a stack that the kernel did not finish, over the copy of the stack in the sample. It
// replaces the frame where the walk stopped, because its code may be known now, and the outcome.
func resume(t *process.Tracker, view *process.View, s *kernel.Sample) {
	if mayHaveUsedStaleRows(s) {
		restartAtLeaf(t, view, s)
	}
	if _, outcome := view.Rule(s.Regs.Lookup()); outcome != unwind.Unset {
		t.Refresh(s.PID, s.Regs.Lookup())
		*view = t.AtExec(s.PID, s.Time, s.Exec)
	}
	leaf, fromLeaf := s.Regs, len(s.User) == 1
	walked := len(s.User)
	s.Regs.ViaFP = s.User[len(s.User)-1].Flags&kernel.FramePointer != 0
	s.User = s.User[:len(s.User)-1]
	start := s.Regs
	outcome, by := walkOn(view, s)
	if !outcome.Complete() && recheck(view, s) {
		s.Regs, s.User = start, s.User[:walked-1]
		outcome, by = walkOn(view, s)
	}
	switch last := len(s.User) - 1; {
	case outcome == unwind.UnreadableStack: // the copy ends, if there is one
		if s.Outcome == unwind.NoMapping || s.Outcome == unwind.ProcessUnknown {
			s.Outcome = unwind.PageMissing // the kernel did not know the mapping yet, but the View does
		}
		return
	case outcome == unwind.NoMapping && s.User[last].Flags&kernel.FramePointer != 0:
		// It is no frame record.
		s.User, outcome = s.User[:last], unwind.NoRow
	}
	if s.Outcome != outcome || len(s.User) > walked {
		s.Outcome, s.Finish = outcome, by
	}
	if outcome == unwind.UnsupportedRule && fromLeaf {
		s.Regs = leaf
		rewalk(view, s)
	}
}

// walkOn walks from s.Regs, by rows, by analysis of code without rows in no file, and by frame pointers.
func walkOn(view *process.View, s *kernel.Sample) (unwind.Outcome, kernel.Finish) {
	space := analyzed{view: view, regs: &s.Regs, memory: codeAndStack{view, s.Stack}, by: kernel.ByRows}
	outcome := unwind.Walk(view.Machine(), &space, &s.Regs, space.memory, maxFrames-len(s.User), func(r *unwind.Regs) {
		addFrame(view, s, r)
	})
	return outcome, space.by
}

// analyzed is the address space of a process, with rules by analysis for code that has no rules. It is an unwind.Space
// of one walk.
type analyzed struct {
	view   *process.View
	regs   *unwind.Regs // of the frame whose rule is looked up
	memory codeAndStack
	by     kernel.Finish
}

// Rule implements unwind.Space. It drops a rule by analysis that leads to no caller.
func (a *analyzed) Rule(addr uint64) (unwind.WideRule, unwind.Outcome) {
	rule, o := a.view.Rule(addr)
	if o != unwind.Unset || rule.CFA != unwind.CFANone {
		return rule, o
	}
	found, ok := a.view.RuleByAnalysis(a.view.Machine(), a.regs.PC)
	if caller := *a.regs; !ok || unwind.Step(a.view.Machine(), found, &caller, a.memory) != unwind.Unset {
		return rule, o
	}
	a.by = kernel.ByAnalysis
	return found, o
}

// codeAndStack is the memory of a process, whose stack may be a copy. It is an unwind.Memory.
type codeAndStack struct {
	view *process.View
	kernel.Stack
}

func (m codeAndStack) Called(addr uint64) bool { return m.view.Called(addr) }

// rewalk walks a stack from its leaf, with the registers and the copy in the sample, because a rule needs more
// registers than a walk by rows keeps. It changes the sample only if it gets further.
func rewalk(view *process.View, s *kernel.Sample) {
	if !s.Stack.Exists() {
		return
	}
	var found kernel.Sample
	outcome := newWalker(view, s.Stack).walkFrames(s.Regs, maxFrames, func(r *unwind.Regs) {
		addFrame(view, &found, r)
	})
	if outcome.Complete() || len(found.User) > len(s.User) {
		s.User, s.FPs = append(s.User[:0], found.User...), append(s.FPs[:0], found.FPs...)
		s.Outcome, s.Finish = outcome, kernel.ByCFI
	}
}

// addFrame adds the frame with the registers r.
func addFrame(view *process.View, s *kernel.Sample, r *unwind.Regs) {
	at := len(s.User)
	for len(s.FPs) < at {
		s.FPs = append(s.FPs, 0)
	}
	s.User, s.FPs = append(s.User, frameAt(view, r)), append(s.FPs[:at], r.FP)
}

func frameAt(view *process.View, r *unwind.Regs) kernel.Frame {
	exe, vaddr := view.Locate(r.Lookup())
	f := kernel.Frame{Vaddr: vaddr + (r.PC - r.Lookup()), Exe: exe}
	if !r.Exact {
		f.Flags |= kernel.ReturnAddress
	}
	if r.ViaFP {
		f.Flags |= kernel.FramePointer
	}
	return f
}
