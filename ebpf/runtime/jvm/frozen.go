package jvm

import (
	"bytes"
	"strings"
)

// Callers of a virtual thread that has waited are frozen in the heap: when it goes on, only its last frames are put on
// the stack again, the outermost of which returns to a stub that puts the next ones there (JDK 21 and later, OpenJDK,
// StubGenerator::generate_cont_returnBarrier). On the stack, the carrier's frames follow.

// continuationStubs is in the name of the piece of code that has this stub, in any case.
const continuationStubs = "continuation"

// The stub begins with mov JavaThread::_cont_entry(%r15),%rsp, of which 4 bytes are the offset, and push %rax. The stub
// for exceptions begins so, too; it is behind, as are the stubs that leave nothing of a virtual thread on the stack.
var (
	loadEntry = []byte{0x49, 0x8b, 0xa7}
	pushRAX   = []byte{0x50}
)

// barrierIn returns the address of the stub in code that begins at start, the end of the code if it has none.
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
			return true, false // nobody knows
		}
		c.barrierOf, c.barrier = piece, barrierIn(code, piece.Start)
	}
	return addr >= c.barrier, addr == c.barrier
}
