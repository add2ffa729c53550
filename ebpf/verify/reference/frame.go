package reference

import (
	"encoding/binary"
	"errors"
	"fmt"
	"maps"
)

// End is the reason for the end of a walk.
type End string

// The ends of a walk. The first three are the root of the stack.
const (
	Outermost End = "outermost"   // call frame information marks the return address as undefined
	GoRoot    End = "go_root"     // a function that Go's runtime marks as the outermost one of its stacks
	ZeroRoot  End = "zero_return" // the return address is zero

	ProcessGone  End = "process_gone"  // the process is no longer known, or its file can no longer be opened
	NoMapping    End = "no_mapping"    // the address is in no executable mapping
	NoFile       End = "no_file"       // the code is in no file: it was generated at run time
	NoCFI        End = "no_cfi"        // the file has no rules for the address
	GoOtherStack End = "go_stack"      // a function of Go's runtime that leaves the stack that perf copies
	OtherStack   End = "other_stack"   // the caller is on another stack, which perf does not copy
	CopyEnds     End = "copy_ends"     // perf copies at most 64 KiB of a stack
	NotCopied    End = "not_copied"    // perf stops at a page that was never touched, or that is not in memory
	RegisterLost End = "register_lost" // a rule needs a register that no rule restores
	BadCFI       End = "bad_cfi"       // the file cannot be read, or its call frame information is invalid
	DepthLimit   End = "depth_limit"   // more than maxFrames frames
)

// Root reports whether the walk reached the root of the stack.
func (e End) Root() bool { return e == Outermost || e == GoRoot || e == ZeroRoot }

// endError is an error with its own End.
type endError struct {
	end  End
	text string
}

func (e *endError) Error() string { return e.text }

// endOf returns the End for an error.
func endOf(err error) End {
	var e *endError
	if errors.As(err, &e) {
		return e.end
	}
	return BadCFI
}

// abi holds a machine's calling convention for registers, by DWARF number.
type abi struct {
	sp        uint64
	pc        uint64          // number of pc in expressions
	link      bool            // calls leave the return address in a register
	preserved map[uint64]bool // registers that functions preserve
	address   uint64          // mask of the bits of a code address
}

// abiOf returns the abi of a GOARCH.
func abiOf(arch string) (*abi, error) {
	preserved := map[uint64]bool{}
	switch arch {
	case "amd64": // System V psABI, 3.2.1: rbx, rbp, r12 to r15; numbers: figure 3.36
		for _, number := range []uint64{3, 6, 12, 13, 14, 15} {
			preserved[number] = true
		}
		return &abi{sp: 7, pc: 16, preserved: preserved, address: ^uint64(0)}, nil
	case "arm64": // AAPCS64, 6.1.1: x19 to x29. Above bit 48 a return address may be signed
		for number := uint64(19); number <= 29; number++ {
			preserved[number] = true
		}
		return &abi{sp: 31, pc: 32, link: true, preserved: preserved, address: 1<<48 - 1}, nil
	}
	return nil, fmt.Errorf("no call frame information is known for %s", arch)
}

// frame is the state of one activation of a function.
type frame struct {
	abi       *abi
	memory    *stackCopy
	pc        uint64
	exact     bool              // pc is the next instruction, not a return address
	registers map[uint64]uint64 // the known registers
}

// lookup returns the address whose rules apply: pc or, if pc is a return address, an address in the call before it.
func (f *frame) lookup() uint64 {
	if f.exact {
		return f.pc
	}
	return f.pc - 1
}

func (f *frame) register(number uint64) (uint64, error) {
	if number == f.abi.pc {
		return f.pc, nil
	}
	v, ok := f.registers[number]
	if !ok {
		return 0, &endError{RegisterLost, fmt.Sprintf("register %d is not known", number)}
	}
	return v, nil
}

// stackCopy is a copy of the memory from the stack pointer on.
type stackCopy struct {
	sp    uint64
	bytes []byte
	full  bool // it has perf's maximum size: the stack may continue
}

// near is the distance from the stack pointer below which an address is taken for the same stack.
const near = 8 << 20

func (s *stackCopy) readBytes(addr, size uint64) ([]byte, error) {
	at := addr - s.sp
	if at < uint64(len(s.bytes)) && size <= uint64(len(s.bytes))-at {
		return s.bytes[at:][:size], nil
	}
	end := OtherStack
	switch {
	case at < near && s.full:
		end = CopyEnds
	case at < near:
		end = NotCopied
	}
	return nil, &endError{end, fmt.Sprintf("address %#x is not among the %d bytes from %#x on", addr, len(s.bytes), s.sp)}
}

func (s *stackCopy) readWord(addr uint64) (uint64, error) {
	b, err := s.readBytes(addr, 8)
	if err != nil {
		return 0, err
	}
	return binary.LittleEndian.Uint64(b), nil
}

// caller applies a row to a frame. bias is the difference between the addresses in the process and the ELF virtual
// addresses. Without a caller it returns nil and the End.
func (f *frame) caller(r *row, common *cie, bias uint64) (*frame, End, error) {
	returns := r.registers[common.returnRegister]
	if returns.kind == undefined {
		return nil, Outermost, nil
	}
	cfa, err := f.computeCFA(r.cfa, bias)
	if err != nil {
		return nil, endOf(err), fmt.Errorf("CFA: %w", err)
	}
	pc, err := f.returnAddress(returns, common.returnRegister, cfa, bias)
	if err != nil {
		return nil, endOf(err), fmt.Errorf("return address: %w", err)
	}
	if pc &= f.abi.address; pc == 0 {
		return nil, ZeroRoot, nil
	}
	out := &frame{abi: f.abi, memory: f.memory, pc: pc, exact: common.signal, registers: f.restored(r, common, cfa, bias)}
	if _, ok := out.registers[f.abi.sp]; !ok {
		return nil, RegisterLost, errors.New("the caller's stack pointer is not known")
	}
	if out.pc == f.pc && maps.Equal(out.registers, f.registers) {
		return nil, BadCFI, errors.New("the caller is the frame itself")
	}
	return out, "", nil
}

func (f *frame) computeCFA(r rule, bias uint64) (uint64, error) {
	switch r.kind {
	case inRegister:
		v, err := f.register(r.register)
		return v + uint64(r.offset), err
	case valExpression:
		return f.evaluate(r.expression, bias)
	}
	return 0, errors.New("there is no rule")
}

func (f *frame) returnAddress(r rule, number, cfa, bias uint64) (uint64, error) {
	if r.kind == unspecified || r.kind == sameValue {
		if !f.abi.link {
			return 0, errors.New("there is no rule")
		}
		return f.register(number)
	}
	return f.value(r, number, cfa, bias)
}

// restored returns the registers of the caller that can be known.
func (f *frame) restored(r *row, common *cie, cfa, bias uint64) map[uint64]uint64 {
	out := map[uint64]uint64{}
	numbers := maps.Clone(f.registers) // registers that may have kept their values
	for number := range r.registers {
		numbers[number] = 0
	}
	for number := range numbers {
		register := r.registers[number]
		kept := common.signal || f.abi.preserved[number]
		if number == f.abi.pc || register.kind == unspecified && !kept {
			continue
		}
		if v, err := f.value(register, number, cfa, bias); err == nil {
			out[number] = v
		}
	}
	if f.abi.link && !common.signal {
		delete(out, common.returnRegister) // overwritten by the call
	}
	switch r.registers[f.abi.sp].kind {
	case unspecified, sameValue: // the CFA is the stack pointer before the call
		out[f.abi.sp] = cfa
	}
	return out
}

// value returns the value of a register in the caller.
func (f *frame) value(r rule, number, cfa, bias uint64) (uint64, error) {
	switch r.kind {
	case unspecified, sameValue:
		return f.register(number)
	case atOffset:
		return f.memory.readWord(cfa + uint64(r.offset))
	case valOffset:
		return cfa + uint64(r.offset), nil
	case inRegister:
		return f.register(r.register)
	case atExpression:
		addr, err := f.evaluate(r.expression, bias, cfa)
		if err != nil {
			return 0, err
		}
		return f.memory.readWord(addr)
	case valExpression:
		return f.evaluate(r.expression, bias, cfa)
	}
	return 0, &endError{RegisterLost, fmt.Sprintf("register %d is undefined", number)}
}
