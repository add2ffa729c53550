package jvm

import (
	"bytes"
	"strings"
)

// When a virtual thread waits, its frames are frozen in the heap. When it resumes, only its innermost frames are put
// back on the stack, and the outermost frame there returns to a stub that restores more frames (JDK 21 and later,
// OpenJDK, StubGenerator::generate_cont_returnBarrier). On the stack, the frames of the carrier thread follow.

// continuationStubs is part of the name, in upper or lower case, of the piece of code that contains this stub.
const continuationStubs = "continuation"

// The stub starts with mov JavaThread::_cont_entry(%r15),%rsp, with an offset of 4 bytes, and push %rax. The stub for
// exceptions starts in the same way. It comes later in the code, as do the stubs that leave no frames of a virtual
// thread on the stack.
var (
	loadEntry = []byte{0x49, 0x8b, 0xa7}
	pushRAX   = []byte{0x50}
)

// barrierIn returns the address of the stub in code that starts at start, or the end of the code if there is no stub.
func barrierIn(code []byte, start uint64) uint64 {
	for at := range code {
		if rest, ok := bytes.CutPrefix(code[at:], loadEntry); ok && len(rest) > 4 && bytes.HasPrefix(rest[4:], pushRAX) {
			return start + uint64(at)
		}
	}
	return start + uint64(len(code))
}

// Frozen implements runtime.Freezing.
func (c *codeCache) Frozen(vaddr, at uint64) (frozen, returned bool) {
	addr := vaddr + c.base
	piece := c.find(vaddr, at)
	if piece == nil || piece.block.method != 0 || !strings.Contains(strings.ToLower(piece.Name), continuationStubs) {
		return false, false
	}
	if c.barrierOf != piece || c.barrier == piece.End {
		m := memory{r: c.vm.memory}
		code := make([]byte, min(piece.End-piece.Start, MaxCode))
		if m.read(piece.Start, code); m.err != nil {
			return true, false // unknown
		}
		c.barrierOf, c.barrier = piece, barrierIn(code, piece.Start)
	}
	return addr >= c.barrier, addr == c.barrier
}
