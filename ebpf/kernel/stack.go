package kernel

import "encoding/binary"

// stackPage is the unit in which stacks are copied.
const stackPage = uint64(profilerLimitsSTACK_PAGE)

// Stack is a copy of pieces of a user stack, or of two where one goes on in another.
// It is an unwind.Memory.
type Stack struct {
	stackPart
	more []stackPart
}

// stackPart is a copy of a piece of a stack, with holes where pages could not be read.
type stackPart struct {
	bytes []byte
	base  uint64 // address of bytes[0], the begin of a page
	pages uint32 // a bit for each page that was read
}

// Len returns the number of bytes copied, holes included.
func (s Stack) Len() int {
	n := len(s.bytes)
	for _, p := range s.more {
		n += len(p.bytes)
	}
	return n
}

// ReadU64 reads a word of the copy.
func (s Stack) ReadU64(addr uint64) (uint64, bool) {
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

func (s stackPart) readU64(addr uint64) (uint64, bool) {
	at := addr - s.base
	if addr < s.base || at >= uint64(len(s.bytes)) || uint64(len(s.bytes))-at < 8 || !s.has(at) || !s.has(at+7) {
		return 0, false
	}
	return binary.LittleEndian.Uint64(s.bytes[at:]), true
}

func (s stackPart) has(at uint64) bool { return s.pages>>(at/stackPage)&1 != 0 }
