package cfi

import (
	"encoding/binary"
	"errors"
	"fmt"
)

// ErrExpression says that a DWARF expression is invalid or not allowed in call frame information.
var ErrExpression = errors.New("bad DWARF expression")

// Limits on an expression.
const (
	maxSteps = 10_000
	maxDepth = 256 // entries on the stack
)

// evaluator evaluates one DWARF expression (DWARF 5, 2.5.1), with the restrictions of call frame
// information (6.4.2: no operators that need a debugging information entry). Values have the
// generic type, which is as wide as an address.
type evaluator struct {
	context
	code  []byte
	at    int
	stack []uint64
	err   error // the first error
}

// context is the state that rules are evaluated with.
type context struct {
	machine Machine
	frame   *Frame
	memory  Memory
	bias    uint64 // load bias of the file
}

// evaluate evaluates an expression with the given initial stack and returns the final top of the
// stack.
func (c context) evaluate(code []byte, stack ...uint64) (uint64, error) {
	e := evaluator{context: c, code: code, stack: stack}
	for steps := 0; e.at < len(e.code) && e.err == nil; steps++ {
		if steps >= maxSteps {
			e.fail("more than %d steps", maxSteps)
			break
		}
		e.stepOperation()
	}
	v := e.pop()
	if e.err != nil {
		return 0, fmt.Errorf("expression % x at byte %d: %w", code[:min(len(code), 64)], e.at, e.err)
	}
	return v, nil
}

func (e *evaluator) fail(format string, args ...any) {
	e.failWith(fmt.Errorf("%w: %s", ErrExpression, fmt.Sprintf(format, args...)))
}

func (e *evaluator) failWith(err error) {
	if e.err == nil {
		e.err = err
	}
}

func (e *evaluator) push(v uint64) {
	if len(e.stack) >= maxDepth {
		e.fail("more than %d entries on the stack", maxDepth)
		return
	}
	e.stack = append(e.stack, e.machine.truncate(v))
}

func (e *evaluator) pop() uint64 {
	if len(e.stack) == 0 {
		e.fail("empty stack")
		return 0
	}
	v := e.stack[len(e.stack)-1]
	e.stack = e.stack[:len(e.stack)-1]
	return v
}

// pickValue pushes the entry at index i, counted from the top of the stack.
func (e *evaluator) pickValue(i int) {
	if i >= len(e.stack) {
		e.fail("no entry %d of %d on the stack", i, len(e.stack))
		return
	}
	e.push(e.stack[len(e.stack)-1-i])
}

// stepOperation executes one operation.
func (e *evaluator) stepOperation() {
	op := uint8(e.unsigned(1))
	switch {
	case op >= opLit0 && op <= opLit31:
		e.push(uint64(op - opLit0))
	case op >= opBreg0 && op <= opBreg31:
		e.register(uint64(op-opBreg0), e.sleb())
	case op == opBregx:
		number := e.uleb()
		e.register(number, e.sleb())
	case op >= opAddr && op <= opConsts && op != opDeref:
		e.constant(op)
	case op == opDeref || op == opDerefSize:
		e.deref(op)
	case op == opSkip || op == opBra:
		e.jumpBy(op)
	case op == opNop:
	case op >= opDup && op <= opRot:
		e.shuffle(op)
	case op == opAbs || op == opNeg || op == opNot || op == opPlusUconst:
		e.unary(op)
	default:
		e.binary(op)
	}
}

// constant pushes an operand.
func (e *evaluator) constant(op uint8) {
	switch op {
	case opAddr:
		e.push(e.unsigned(e.machine.word) + e.bias)
	case opConst1u, opConst2u, opConst4u, opConst8u:
		e.push(e.unsigned(1 << ((op - opConst1u) / 2)))
	case opConst1s, opConst2s, opConst4s, opConst8s:
		e.push(e.signed(1 << ((op - opConst1s) / 2)))
	case opConstu:
		e.push(e.uleb())
	case opConsts:
		e.push(e.sleb())
	default:
		e.fail("operation %#02x", op)
	}
}

// register pushes the value of a register plus an offset.
func (e *evaluator) register(number, offset uint64) {
	if e.err != nil {
		return
	}
	if number == uint64(e.machine.pc) {
		e.push(e.frame.PC + offset)
		return
	}
	if number >= maxRegisters {
		e.fail("register %d", number)
		return
	}
	v, ok := e.frame.Regs.Get(uint16(number))
	if !ok {
		e.failWith(lostRegister(uint16(number)))
	}
	e.push(v + offset)
}

// deref replaces an address by the value in memory.
func (e *evaluator) deref(op uint8) {
	size := e.machine.word
	if op == opDerefSize {
		size = int(e.unsigned(1))
	}
	addr := e.pop()
	if e.err != nil {
		return
	}
	if size < 1 || size > e.machine.word {
		e.fail("reading %d bytes", size)
		return
	}
	var b [8]byte
	if !e.memory.Read(addr, b[:size]) {
		e.failWith(unreadable(addr))
	}
	e.push(binary.LittleEndian.Uint64(b[:]))
}

// jumpBy moves to another operation: always, or if the top of the stack is not zero.
func (e *evaluator) jumpBy(op uint8) {
	distance := int64(e.signed(2))
	if op == opBra && e.pop() == 0 {
		return
	}
	to := int64(e.at) + distance
	if to < 0 || to > int64(len(e.code)) {
		e.fail("jump to byte %d of %d", to, len(e.code))
		return
	}
	e.at = int(to)
}

// shuffle moves entries of the stack.
func (e *evaluator) shuffle(op uint8) {
	switch op {
	case opDup:
		e.pickValue(0)
	case opDrop:
		e.pop()
	case opOver:
		e.pickValue(1)
	case opPick:
		e.pickValue(int(e.unsigned(1)))
	case opSwap:
		top, second := e.pop(), e.pop()
		e.push(top)
		e.push(second)
	case opRot: // the top becomes third, the second the top
		top, second, third := e.pop(), e.pop(), e.pop()
		e.push(top)
		e.push(third)
		e.push(second)
	}
}

func (e *evaluator) unary(op uint8) {
	v := e.pop()
	switch op {
	case opAbs:
		if e.extend(v) < 0 {
			v = -v
		}
	case opNeg:
		v = -v
	case opNot:
		v = ^v
	case opPlusUconst:
		v += e.uleb()
	}
	e.push(v)
}

// binary replaces the two top entries by the result of an operation. Division and comparisons are
// signed, the remainder is unsigned.
func (e *evaluator) binary(op uint8) {
	if (op < opAnd || op > opXor) && (op < opEq || op > opNe) {
		e.fail("operation %#02x", op)
		return
	}
	top, second := e.pop(), e.pop()
	if (op == opDiv || op == opMod) && top == 0 {
		e.fail("division by zero")
		return
	}
	if op == opDiv || op == opShra || op >= opEq {
		top, second = uint64(e.extend(top)), uint64(e.extend(second))
	}
	e.push(arithmetic(op, second, top))
}

// extend converts a stack entry to a signed number.
func (e *evaluator) extend(v uint64) int64 {
	if e.machine.word == 4 {
		return int64(int32(v))
	}
	return int64(v)
}

func arithmetic(op uint8, a, b uint64) uint64 {
	switch op {
	case opAnd:
		return a & b
	case opDiv:
		return uint64(int64(a) / int64(b))
	case opMinus:
		return a - b
	case opMod:
		return a % b
	case opMul:
		return a * b
	case opOr:
		return a | b
	case opPlus:
		return a + b
	case opShl:
		return a << b
	case opShr:
		return a >> b
	case opShra:
		return uint64(int64(a) >> b)
	case opXor:
		return a ^ b
	}
	if compare(op, int64(a), int64(b)) {
		return 1
	}
	return 0
}

func compare(op uint8, a, b int64) bool {
	switch op {
	case opEq:
		return a == b
	case opGe:
		return a >= b
	case opGt:
		return a > b
	case opLe:
		return a <= b
	case opLt:
		return a < b
	}
	return a != b
}

// unsigned reads an operand of size bytes.
func (e *evaluator) unsigned(size int) uint64 {
	if e.err != nil || len(e.code)-e.at < size {
		e.fail("operand ends early")
		return 0
	}
	var b [8]byte
	copy(b[:], e.code[e.at:e.at+size])
	e.at += size
	return binary.LittleEndian.Uint64(b[:])
}

// signed reads an operand of size bytes and extends its sign.
func (e *evaluator) signed(size int) uint64 {
	shift := 64 - 8*size
	return uint64(int64(e.unsigned(size)<<shift) >> shift)
}

// uleb reads an unsigned LEB128 operand.
func (e *evaluator) uleb() uint64 {
	v, _ := e.leb()
	return v
}

// sleb reads a signed LEB128 operand.
func (e *evaluator) sleb() uint64 {
	v, bits := e.leb()
	if bits < 64 && v>>(bits-1)&1 == 1 {
		v |= ^uint64(0) << bits
	}
	return v
}

// leb reads a LEB128 number and returns the number of bits in its encoding.
func (e *evaluator) leb() (v uint64, bits uint) {
	for bits < 70 {
		b := e.unsigned(1)
		v |= b & 0x7f << bits
		bits += 7
		if b&0x80 == 0 {
			return v, bits
		}
	}
	e.fail("number of more than 64 bits")
	return 0, bits
}
