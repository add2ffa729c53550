package jvm

import (
	"bytes"
	"slices"
	"strings"

	"github.com/headwater/headwater/ebpf/unwind"
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

// isContinuationStubs reports whether code of this name contains the stub.
func isContinuationStubs(name string) bool {
	return strings.Contains(strings.ToLower(name), continuationStubs)
}

// withBarrier adds the rule of the stub at an offset, if it is below end, to the rules of its code. The rule is that of
// the byte before, because nothing calls the stub: its address is only a return address.
func withBarrier(rules []rowAt, barrier, end int) []rowAt {
	if barrier <= 0 || barrier >= end {
		return rules
	}
	after := slices.IndexFunc(rules, func(r rowAt) bool { return r.at > barrier })
	if after < 0 {
		after = len(rules)
	}
	first := slices.IndexFunc(rules, func(r rowAt) bool { return r.at >= barrier-1 })
	if first < 0 {
		first = len(rules)
	}
	own := rowAt{at: barrier}
	if after > 0 {
		own.rule = rules[after-1].rule
	}
	callers := rowAt{at: barrier - 1, rule: unwind.WideRule{CFA: unwind.CFAFrozen}}
	return slices.Concat(rules[:first], []rowAt{callers, own}, rules[after:])
}

// Frozen implements language.Code.
func (c *codeCache) Frozen(vaddr, at uint64) (frozen, returned bool) {
	addr := vaddr + c.base
	piece := c.findCode(vaddr, at)
	if piece == nil || piece.block.method != 0 || !isContinuationStubs(piece.Name) {
		return false, false
	}
	if c.barrierOf != piece || c.barrier == piece.End {
		m := memory{r: c.vm.memory}
		code := make([]byte, min(piece.End-piece.Start, MaxCode))
		if m.readBytes(piece.Start, code); m.err != nil {
			return true, false // unknown
		}
		c.barrierOf, c.barrier = piece, barrierIn(code, piece.Start)
	}
	return addr >= c.barrier, addr == c.barrier
}

// The VM notes that it copies frames to the heap until the copy is done. The code that has called it then leaves these
// frames within a few instructions: a method of its own, or another stub or the interpreter after a call of the VM.
const (
	yieldMethod = "jdk.internal.vm.Continuation.doYield"
	leaveBytes  = 512
)

// Freezes implements language.Code.
func (c *codeCache) Freezes(leaf, top, at uint64) bool {
	piece := c.findCode(leaf, at)
	switch {
	case piece == nil:
		return false
	case piece.Name == yieldMethod:
		return true
	case c.vm.readText(piece.block.name) == methodSuffix: // compiled code calls the VM by stubs
		return false
	}
	return leaf >= top && leaf-top < leaveBytes && piece == c.findCode(top-1, at)
}
