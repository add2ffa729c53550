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

// finish walks the rest of a stack whose walk in the kernel missed a table, over
// the copy of the stack that came with the sample. It replaces the frame where
// the walk stopped, for that may be known better now, and the outcome. It
// returns the address space in which it walked.
func finish(t *process.Tracker, s *kernel.Sample) *process.Space {
	space := t.Space(s.PID, s.Time)
	if _, outcome := space.Rule(s.Regs.Lookup()); outcome != unwind.Unset {
		t.Refresh(s.PID, s.Regs.Lookup())
		space = t.Space(s.PID, s.Time)
	}
	s.Regs.ViaFP = s.User[len(s.User)-1].Flags&kernel.FramePointer != 0
	s.User = s.User[:len(s.User)-1]
	outcome := unwind.Walk(machine(), space, &s.Regs, s.Stack, maxFrames-len(s.User), func(r *unwind.Regs) {
		s.User = append(s.User, frameAt(space, r))
	})
	switch last := len(s.User) - 1; {
	case outcome == unwind.UnreadableStack:
		return space // the copy ends: what was missing is still what stopped us
	case outcome == unwind.NoMapping && s.User[last].Flags&kernel.FramePointer != 0:
		// What looked like a frame record was none.
		s.User, outcome = s.User[:last], unwind.NoRow
	}
	s.Outcome = outcome
	return space
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
