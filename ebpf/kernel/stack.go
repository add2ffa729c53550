package kernel

import (
	"encoding/binary"
	"fmt"
	"math/bits"

	"github.com/headwater/headwater/ebpf/unwind"
)

const (
	// stackPage is the unit in which stacks are copied.
	stackPage  = uint64(profilerLimitsSTACK_PAGE)
	stackPages = int(profilerLimitsSTACK_PAGES) // of a part
	// A page of a packed part starts with a bit for each pair of words, set if the pair follows.
	pairBytes    = 8 * uint64(profilerLimitsPAIR_WORDS)
	pairBitBytes = 8 * int(profilerLimitsPAIR_BITS_WORDS)
)

// Stack is a copy of pieces of a user stack, or of two stacks if one continues on the other; or the memory of a
// process, see StackIn. It is an unwind.Stack.
type Stack struct {
	stackPart
	more       []stackPart
	lastFrames uint64       // start of the region in which a frame can be the outermost one; 0 if not known
	memory     unwind.Stack // instead of a copy
}

// StackIn returns a stack that is read from memory, which must not change until the stack is walked.
func StackIn(m unwind.Stack) Stack { return Stack{memory: m} }

// Exists reports whether there is a stack to read.
func (s Stack) Exists() bool { return s.memory != nil || s.Len() > 0 }

// stackPart is a copy of a piece of a stack, with holes where pages could not be read.
type stackPart struct {
	bytes  []byte
	base   uint64 // address of bytes[0], the start of a page
	pages  uint32 // a bit for each page that was read
	packed bool   // bytes has only the pages that were read, packed, see bpf/sample/pack.h
}

// Len returns the number of bytes that a copy takes, including holes except in packed parts.
func (s Stack) Len() int {
	n := len(s.bytes)
	for _, p := range s.more {
		n += len(p.bytes)
	}
	return n
}

// ReadU64 reads a word of the stack.
func (s Stack) ReadU64(addr uint64) (uint64, bool) {
	if s.memory != nil {
		return s.memory.ReadU64(addr)
	}
	if v, ok := s.readU64(addr); ok {
		return v, true
	}
	for _, p := range s.more {
		if v, ok := p.readU64(addr); ok {
			return v, true
		}
	}
	return 0, false
}

// Read reads bytes of the stack, and reports whether all could be read. It is for a word or few.
func (s Stack) Read(addr uint64, b []byte) bool {
	for len(b) > 0 {
		word, ok := s.ReadU64(addr &^ 7)
		if !ok {
			return false
		}
		n := copy(b, binary.LittleEndian.AppendUint64(nil, word)[addr%8:])
		addr, b = addr+uint64(n), b[n:]
	}
	return true
}

// EndsAt reports whether a frame at addr can be the outermost one of the first piece.
func (s Stack) EndsAt(addr uint64) bool {
	if s.memory != nil {
		return s.memory.EndsAt(addr)
	}
	const region = stackPage // largest distance between a thread's descriptor and its frames
	return s.lastFrames != 0 && addr >= s.lastFrames && addr-s.lastFrames <= region
}

func (s stackPart) readU64(addr uint64) (uint64, bool) {
	at := addr - s.base
	if addr < s.base || !s.hasPage(at) || !s.hasPage(at+7) {
		return 0, false
	}
	if s.packed {
		return s.readPacked(at)
	}
	if at >= uint64(len(s.bytes)) || uint64(len(s.bytes))-at < 8 {
		return 0, false
	}
	return binary.LittleEndian.Uint64(s.bytes[at:]), true
}

func (s stackPart) hasPage(at uint64) bool { return s.pages>>(at/stackPage)&1 != 0 }

// readPacked reads a word, aligned or not.
func (s stackPart) readPacked(at uint64) (uint64, bool) {
	shift := 8 * (at % 8)
	v, ok := s.packedWord(at &^ 7)
	if shift == 0 || !ok {
		return v, ok
	}
	above, ok := s.packedWord(at&^7 + 8)
	return v>>shift | above<<(64-shift), ok
}

// packedWord reads the aligned word at an offset in a packed part.
func (s stackPart) packedWord(at uint64) (uint64, bool) {
	rest := s.bytes
	for page := range at / stackPage {
		if s.hasPage(page * stackPage) {
			size, ok := packedPage(rest)
			if !ok {
				return 0, false
			}
			rest = rest[size:]
		}
	}
	size, ok := packedPage(rest)
	if !ok || !s.hasPage(at) {
		return 0, false
	}
	pair := at % stackPage / pairBytes
	if binary.LittleEndian.Uint64(rest[pair/64*8:])>>(pair%64)&1 == 0 {
		return 0, true
	}
	before := 0
	for i := range pair / 64 {
		before += bits.OnesCount64(binary.LittleEndian.Uint64(rest[8*i:]))
	}
	before += bits.OnesCount64(binary.LittleEndian.Uint64(rest[pair/64*8:]) & (1<<(pair%64) - 1))
	word := rest[pairBitBytes+before*int(pairBytes) : size]
	return binary.LittleEndian.Uint64(word[at%pairBytes:]), true
}

// packedPage returns the size of the packed page at the start of b.
func packedPage(b []byte) (size int, ok bool) {
	if len(b) < pairBitBytes {
		return 0, false
	}
	size = pairBitBytes
	for i := 0; i < pairBitBytes; i += 8 {
		size += bits.OnesCount64(binary.LittleEndian.Uint64(b[i:])) * int(pairBytes)
	}
	return size, size <= len(b)
}

// check returns an error if a part that BPF wrote is malformed.
func (s stackPart) check() error {
	if s.pages>>stackPages != 0 {
		return fmt.Errorf("a part of a stack has pages %#x, want %d at most", s.pages, stackPages)
	}
	if !s.packed {
		return nil
	}
	rest := s.bytes
	for range bits.OnesCount32(s.pages) {
		size, ok := packedPage(rest)
		if !ok {
			return fmt.Errorf("a packed part of a stack of %d bytes is too short for its %d pages", len(s.bytes),
				bits.OnesCount32(s.pages))
		}
		rest = rest[size:]
	}
	if len(rest) != 0 {
		return fmt.Errorf("a packed part of a stack of %d bytes has %d more than its pages", len(s.bytes), len(rest))
	}
	return nil
}
