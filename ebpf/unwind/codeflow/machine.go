package codeflow

import (
	"debug/elf"
	"encoding/binary"
	"fmt"

	"github.com/headwater/headwater/ebpf/unwind/x86"
)

// decoder decodes the instruction at an address.
type decoder func(addr uint64, code []byte) (step, error)

// decoderOf returns the decoder of a machine, nil if the machine is unsupported.
func decoderOf(machine elf.Machine) decoder {
	switch machine {
	case elf.EM_X86_64:
		return decodeX86
	case elf.EM_AARCH64:
		return decodeARM64
	}
	return nil
}

// decodeX86 decodes one instruction of x86-64.
func decodeX86(addr uint64, code []byte) (step, error) {
	in, ok := x86.Decode(code)
	if !ok {
		return step{}, fmt.Errorf("%#x: %w", addr, ErrDecode)
	}
	after := addr + uint64(in.Length)
	s := step{Instruction: Instruction{Addr: addr, Length: in.Length}}
	switch effect := x86.StackEffect(&in); effect.Kind {
	case x86.Return:
		s.Kind = Return
	case x86.Stop, x86.Trap:
	case x86.Jump:
		s.branch, s.target = true, after+uint64(effect.N)
	case x86.Branch:
		s.next, s.branch, s.target = true, true, after+uint64(effect.N)
	case x86.JumpBySlot:
		s.Kind, s.To = Slot, after+uint64(in.Disp)
	case x86.JumpAnywhere:
		s.indirect, s.absolute = true, in.Mod != 3
		if in.Base == x86.NoBase && in.Mod != 3 {
			s.base = uint64(in.Disp)
		}
	case x86.Call:
		s.next = true
		if s.callsBySlot = in.Opcode == 0xff; !s.callsBySlot {
			s.calls = after + uint64(in.Imm)
		}
	default:
		s.next = true
		s.base, s.bound = baseX86(&in, after), boundX86(&in)
	}
	return s, nil
}

// decodeI386 decodes one instruction of i386. The instructions that differ from x86-64 have one
// byte, except for moves between eax and an address. Far calls and bound are not supported.
func decodeI386(addr uint64, code []byte) (step, error) {
	const movAddress = 5
	s := step{Instruction: Instruction{Addr: addr, Length: 1}, next: true}
	if len(code) == 0 {
		return step{}, fmt.Errorf("%#x: %w", addr, ErrDecode)
	}
	switch op := code[0]; {
	case op&0xf0 == 0x40, op < 0x40 && op&7 > 5 && op&0x26 != 0x26, op == 0x60, op == 0x61: // inc, dec, push, pop, daa
		return s, nil
	case op >= 0xa0 && op <= 0xa3:
		s.Length = movAddress
		return s, nil
	}
	return decodeX86(addr, code)
}

// baseX86 returns the address that lea computes relative to the instruction, 0 for other instructions.
func baseX86(in *x86.Instruction, after uint64) uint64 {
	const lea = 0x8d
	if in.Table == 0 && !in.Vector && in.Opcode == lea && in.Mod != 3 && in.Base == x86.RIPBase {
		return after + uint64(in.Disp)
	}
	return 0
}

// boundX86 returns the operand of cmp plus 1, or 0 for other instructions.
func boundX86(in *x86.Instruction) uint64 {
	const compare = 7
	isCompare := in.Table == 0 && !in.Vector &&
		(in.Opcode == 0x3c || in.Opcode == 0x3d || in.Opcode >= 0x80 && in.Opcode <= 0x83 && in.Reg&7 == compare)
	if !isCompare || in.Imm < 0 {
		return 0
	}
	return uint64(in.Imm) + 1
}

// decodeARM64 decodes one instruction of arm64. All instructions have 4 bytes.
func decodeARM64(addr uint64, code []byte) (step, error) {
	const size = 4
	if len(code) < size || addr%size != 0 {
		return step{}, fmt.Errorf("%#x: %w", addr, ErrDecode)
	}
	in := binary.LittleEndian.Uint32(code)
	s := step{Instruction: Instruction{Addr: addr, Length: size}}
	distance := func(bits, low int) uint64 { return uint64(int64(int32(in<<(32-bits-low))>>(32-bits)) * size) }
	switch {
	case in>>16 == 0: // udf
	case in == 0xd65f03c0, in == 0xd65f0bff, in == 0xd65f0fff: // ret, retaa, retab
		s.Kind = Return
	case in>>26 == 0x05: // b
		s.branch, s.target = true, addr+distance(26, 0)
	case in>>24 == 0x54, in>>25&0x3f == 0x1a: // b.cond, cbz and cbnz
		s.next, s.branch, s.target = true, true, addr+distance(19, 5)
	case in>>25&0x3f == 0x1b: // tbz, tbnz
		s.next, s.branch, s.target = true, true, addr+distance(14, 5)
	case in>>26 == 0x25: // bl
		s.next, s.calls = true, addr+distance(26, 0)
	case in>>21 == 0x6b1, in>>21 == 0x6b9: // blr, blraaz, blraa
		s.next, s.callsBySlot = true, true
	case in>>21 == 0x6b0, in>>21 == 0x6b8: // br, braaz, braa
		s.indirect = true
	default:
		s.next = true
	}
	return s, nil
}
