package sampler

import (
	"slices"

	"github.com/headwater/headwater/ebpf/kernel"
	"github.com/headwater/headwater/ebpf/process"
	"github.com/headwater/headwater/ebpf/unwind"
)

// recheck drops the rows of language runtime code that has changed since they were built, if a failed walk used them:
// they may be the reason. It reports whether it dropped any.
func recheck(view *process.View, s *kernel.Sample) (changed bool) {
	for _, code := range view.Code() {
		var vaddrs []uint64
		for _, frame := range s.User {
			if frame.Exe == code.Exe() {
				vaddrs = append(vaddrs, frame.Vaddr)
			}
		}
		changed = code.Recheck(vaddrs) || changed
	}
	return changed
}

// identify sets the piece of code of each frame in code of a language runtime.
func identify(view *process.View, s *kernel.Sample) {
	for _, code := range view.Code() {
		for i := range s.User {
			if f := &s.User[i]; f.Exe == code.Exe() {
				f.Code = code.Identify(f.Lookup(), s.Time)
			}
		}
	}
}

// endFrozen ends a stack whose callers are in the heap of a runtime, and were not read there, or not all: the next
// frames on the stack are frames of the thread that carries it.
func endFrozen(view *process.View, s *kernel.Sample) {
	for _, code := range view.Code() {
		endInHeap(view, code, s)
		for i := range s.User {
			f := &s.User[i]
			if f.Exe != code.Exe() {
				continue
			}
			frozen, returned := code.Frozen(f.Vaddr, s.Time)
			if !frozen {
				continue
			}
			if returned && i > 0 && f.Flags&kernel.ReturnAddress != 0 {
				i--
			}
			s.EndElsewhere(i + 1)
			return
		}
	}
}

// endInHeap ends a stack before its frames in the heap if they may be a copy of those on the stack, and after them if
// callers are missing. Then it has the pages of the code built that the frames there return to.
func endInHeap(view *process.View, code *process.JITCode, s *kernel.Sample) {
	inHeap := func(f kernel.Frame) bool { return f.Flags&kernel.InHeap != 0 && f.Exe == code.Exe() }
	first := slices.IndexFunc(s.User, inHeap)
	if first < 0 {
		return
	}
	if leaf := s.User[0]; leaf.Exe == code.Exe() && leaf.Flags&kernel.ReturnAddress == 0 &&
		code.Freezes(leaf.Vaddr, s.User[first].Vaddr, s.Time) {
		s.EndElsewhere(first)
		return
	}
	if last := s.User[len(s.User)-1]; inHeap(last) && s.Outcome != unwind.DepthLimit {
		view.Rule(code.Address(last.Lookup()))
		view.BuildAround(code, s.Regs.SP)
		s.EndElsewhere(len(s.User))
	}
}

// mayHaveUsedStaleRows reports whether the walk of a sample failed in a process whose language runtimes generate code,
// and the sample has the data for another walk from the leaf.
func mayHaveUsedStaleRows(s *kernel.Sample) bool {
	return s.FromLeaf && s.Outcome != unwind.UnsupportedRule && s.Stack.Exists()
}

// restartAtLeaf drops old rows, and resets the sample as if its walk had missed a table at the leaf.
func restartAtLeaf(t *process.Tracker, view *process.View, s *kernel.Sample) {
	recheck(view, s)
	if last := s.User[len(s.User)-1]; last.Exe == 0 {
		t.Refresh(s.PID, last.Vaddr)
		*view = t.AtExec(s.PID, s.Time, s.Exec)
	}
	s.User, s.FromLeaf = s.User[:1], false
}
