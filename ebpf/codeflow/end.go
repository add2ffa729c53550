package codeflow

import (
	"bytes"
	"debug/elf"
	"slices"
)

// maxSpan is the most bytes that End follows, and maxAhead how many jumps ahead it checks.
const (
	maxSpan  = 64 << 10
	maxAhead = 16
)

// End returns how far the code that begins at start certainly is one function's, where neither a symbol nor call frame
// information says that: start itself if no instruction is there, and never more than limit. It follows the code in the
// order of its addresses. The code ends where nothing goes on and no branch on a condition leads further. A jump
// without a condition is one to another function unless the code that it leads to branches back to before it. ok is
// false for a machine whose code is not known.
func End(image Image, machine elf.Machine, start, limit uint64) (end uint64, ok bool) {
	decode := decoderOf(machine)
	if decode == nil {
		return start, false
	}
	if limit <= start {
		return start, true
	}
	code := make([]byte, min(limit-start, maxSpan))
	if image.ReadVaddr(code, start) != nil {
		return start, true
	}
	s := span{machine: machine, decode: decode, start: start, code: code}
	end = s.follow(start, nil)
	slices.Sort(s.ahead)
	for n := 0; n < len(s.ahead) && n < maxAhead; n++ {
		to := s.ahead[n]
		if to < end {
			continue
		}
		back := false
		further := s.follow(to, func(target uint64) { back = back || target > start && target < to })
		if back {
			end = further
			slices.Sort(s.ahead[n+1:])
		}
	}
	return end, true
}

// span is code that End follows.
type span struct {
	machine elf.Machine
	decode  decoder
	start   uint64
	code    []byte
	ahead   []uint64 // where jumps without a condition lead to further on
}

func (s *span) holds(addr uint64) bool { return addr >= s.start && addr-s.start < uint64(len(s.code)) }

// follow returns where the code from addr on ends. Of code that leads to what is no code that is the last call, which
// may not return, or addr itself. It calls branched, if there is one, with the target of each branch and jump.
func (s *span) follow(addr uint64, branched func(target uint64)) uint64 {
	certain, far := addr, addr // far: where the furthest branch on a condition leads to
	for s.holds(addr) {
		rest := s.code[addr-s.start:]
		in, err := s.decode(addr, rest)
		if err != nil || s.isData(rest) {
			if addr >= far {
				return certain
			}
			addr = far // a table lies between
			continue
		}
		next := addr + uint64(in.Length)
		if in.branch {
			switch {
			case in.next && s.holds(in.target):
				far = max(far, in.target)
			case !in.next && in.target > next && s.holds(in.target):
				s.ahead = append(s.ahead, in.target)
			}
			if branched != nil {
				branched(in.target)
			}
		}
		called := in.calls != 0 || in.callsBySlot
		if next > far && (!in.next || called && s.padded(next)) {
			return next
		}
		if called && next > far {
			certain = next
		}
		addr = next
	}
	return min(addr, s.start+uint64(len(s.code)))
}

// isData reports whether bytes that could be an instruction are none in a program: zeros, and what only a kernel may
// execute.
func (s *span) isData(b []byte) bool {
	if s.machine != elf.EM_X86_64 {
		return false // zeros are no instruction
	}
	switch b[0] {
	case 0:
		return len(b) > 1 && b[1] == 0
	case 0xe4, 0xe5, 0xe6, 0xe7, 0xec, 0xed, 0xee, 0xef, 0x6c, 0x6d, 0x6e, 0x6f, 0xfa, 0xfb: // ports and interrupts
		return true
	}
	return false
}

// padded reports whether a function could begin behind an address: nothing but padding is there up to where functions
// are aligned. Then the call before the address may be one that does not return.
func (s *span) padded(addr uint64) bool {
	const alignment = 16
	for addr%alignment != 0 {
		if !s.holds(addr) {
			return false
		}
		n := s.nop(s.code[addr-s.start:])
		if n == 0 {
			return false
		}
		addr += uint64(n)
	}
	return true
}

// nop returns the length of the instruction at the begin of b if it does nothing, else 0.
func (s *span) nop(b []byte) int {
	if s.machine == elf.EM_AARCH64 {
		if bytes.HasPrefix(b, []byte{0x1f, 0x20, 0x03, 0xd5}) {
			return 4
		}
		return 0
	}
	opcode := bytes.TrimLeft(b, "\x66\x2e")
	if !bytes.HasPrefix(opcode, []byte{0x90}) && !bytes.HasPrefix(opcode, []byte{0x0f, 0x1f}) {
		return 0
	}
	in, err := s.decode(0, b)
	if err != nil {
		return 0
	}
	return in.Length
}
