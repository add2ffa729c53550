package feed

import (
	"github.com/headwater/headwater/ebpf/kernel"
	"github.com/headwater/headwater/ebpf/process"
	"github.com/headwater/headwater/ebpf/unwind"
)

// recheck drops what is no longer so of the code that a process has made, if a walk
// that failed went by it: it may be the reason. It reports whether there was any.
func recheck(t *process.Tracker, s *kernel.Sample) bool {
	var vaddrs []uint64
	code := uint32(0) // the executable that is such code
	for _, frame := range s.User {
		if frame.Exe != code {
			if e := t.Executable(frame.Exe); e == nil || !e.IsCode() {
				continue
			}
			code = frame.Exe
		}
		vaddrs = append(vaddrs, frame.Address)
	}
	return len(vaddrs) > 0 && t.Recheck(code, vaddrs)
}

// astray reports whether the walk of a sample failed in a process that makes code. The
// sample has what it takes to walk anew from the leaf.
func astray(s *kernel.Sample) bool {
	return s.FromLeaf && s.Outcome != unwind.UnsupportedRule && s.Stack.Len() > 0
}

// goBack drops old rows, and makes the sample as if its walk had missed something at
// the leaf.
func goBack(t *process.Tracker, s *kernel.Sample) {
	recheck(t, s)
	if last := s.User[len(s.User)-1]; last.Exe == 0 {
		t.Refresh(s.PID, last.Address)
	}
	s.User, s.FromLeaf = s.User[:1], false
}
