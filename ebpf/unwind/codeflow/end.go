package codeflow

import (
	"bytes"
	"debug/elf"
	"slices"
)

// maxSpan bounds the bytes that End follows, and maxAhead the forward jumps that it checks.
const (
	maxSpan  = 64 << 10
	maxAhead = 16
)

// End returns the end of the code at start that certainly belongs to one function, for code without
// a symbol or call frame information. It returns start if there is no instruction at start, and at
// most limit.
//
// End follows the code in address order. The code ends after an instruction that does not continue,
// if no conditional branch leads past it. An unconditional forward jump leads to another function,
// unless the code at its target branches back to before the target. ok is false if the machine is
// unsupported.
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

// span is the code that End follows.
type span struct {
	machine elf.Machine
	decode  decoder
	start   uint64
	code    []byte
	ahead   []uint64 // targets of unconditional forward jumps
}

func (s *span) holds(addr uint64) bool { return addr >= s.start && addr-s.start < uint64(len(s.code)) }

// follow returns the end of the code at addr. If the code runs into data, it returns the end of the
// last call, which may not return, or addr if there is no call. If branched is not nil, follow
// calls it with the target of each branch and jump.
func (s *span) follow(addr uint64, branched func(target uint64)) uint64 {
	certain, far := addr, addr // far is the target of the furthest conditional branch
	for s.holds(addr) {
		rest := s.code[addr-s.start:]
		in, err := s.decode(addr, rest)
		if err != nil || s.isData(rest) {
			if addr >= far {
				return certain
			}
			addr = far // skip a table
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

// isData reports whether bytes that decode as an instruction are data: zeros, or instructions that
// only a kernel may execute.
func (s *span) isData(b []byte) bool {
	if s.machine != elf.EM_X86_64 {
		return false // zeros are not an instruction
	}
	switch b[0] {
	case 0:
		return len(b) > 1 && b[1] == 0
	case 0xe4, 0xe5, 0xe6, 0xe7, 0xec, 0xed, 0xee, 0xef, 0x6c, 0x6d, 0x6e, 0x6f, 0xfa, 0xfb: // ports and interrupts
		return true
	}
	return false
}

// padded reports whether a function could start after an address: there is only padding up to the
// next aligned address. The call before the address may then be a call that does not return.
func (s *span) padded(addr uint64) bool {
	const alignment = 16
	for addr%alignment != 0 {
		if !s.holds(addr) {
			return false
		}
		n := s.lengthOfNop(s.code[addr-s.start:])
		if n == 0 {
			return false
		}
		addr += uint64(n)
	}
	return true
}

// lengthOfNop returns the length of the instruction at the start of b if it is a nop, else 0.
func (s *span) lengthOfNop(b []byte) int {
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
