package kernel

import (
	"encoding/binary"

	"github.com/headwater/headwater/ebpf/unwind"
)

// endOfStack is how far below the end of a stack its outermost frame can be, in bytes.
const endOfStack = 4096

// hitStack is the copy of a stack that came with a hit. It implements unwind.Stack.
type hitStack struct {
	base  uint64
	bytes []byte
	full  bool
}

// Memory returns the copy of the stack. It is valid as long as the hit.
func (h *ProbeHit) Memory() unwind.Stack { return hitStack{h.SP(), h.Stack, h.Full} }

// ReadU64 implements unwind.Stack.
func (s hitStack) ReadU64(addr uint64) (uint64, bool) {
	at := addr - s.base
	if addr < s.base || at > uint64(len(s.bytes)) || uint64(len(s.bytes))-at < 8 {
		return 0, false
	}
	return binary.LittleEndian.Uint64(s.bytes[at:]), true
}

// EndsAt implements unwind.Stack. A copy that is not full reaches the end of the stack.
func (s hitStack) EndsAt(addr uint64) bool {
	end := s.base + uint64(len(s.bytes))
	return !s.full && addr <= end && end-addr < endOfStack
}

// UnwindRegs returns the registers to start a walk with. If a function has returned, PC is a return address.
func (h *ProbeHit) UnwindRegs() unwind.Regs {
	r := unwind.Regs{PC: h.PC, SP: h.SP(), Exact: !h.Return}
	h.setMachine(&r)
	return r
}
