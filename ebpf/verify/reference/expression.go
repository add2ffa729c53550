package reference

import (
	"encoding/binary"
	"fmt"
)

// Operations of DWARF expressions (DWARF 5, table 7.9) that are allowed in call frame information (6.4.2).
const (
	dwAddr       = 0x03
	dwDeref      = 0x06
	dwConst1u    = 0x08
	dwConst1s    = 0x09
	dwConst2u    = 0x0a
	dwConst2s    = 0x0b
	dwConst4u    = 0x0c
	dwConst4s    = 0x0d
	dwConst8u    = 0x0e
	dwConst8s    = 0x0f
	dwConstu     = 0x10
	dwConsts     = 0x11
	dwDup        = 0x12
	dwDrop       = 0x13
	dwOver       = 0x14
	dwPick       = 0x15
	dwSwap       = 0x16
	dwRot        = 0x17
	dwAbs        = 0x19
	dwAnd        = 0x1a
	dwDiv        = 0x1b
	dwMinus      = 0x1c
	dwMod        = 0x1d
	dwMul        = 0x1e
	dwNeg        = 0x1f
	dwNot        = 0x20
	dwOr         = 0x21
	dwPlus       = 0x22
	dwPlusUconst = 0x23
	dwShl        = 0x24
	dwShr        = 0x25
	dwShra       = 0x26
	dwXor        = 0x27
	dwBra        = 0x28
	dwEq         = 0x29
	dwGe         = 0x2a
	dwGt         = 0x2b
	dwLe         = 0x2c
	dwLt         = 0x2d
	dwNe         = 0x2e
	dwSkip       = 0x2f
	dwLit0       = 0x30
	dwLit31      = 0x4f
	dwBreg0      = 0x70
	dwBreg31     = 0x8f
	dwBregx      = 0x92
	dwDerefSize  = 0x94
	dwNop        = 0x96
)

// machine evaluates one expression (DWARF 5, 2.5). Values are of 64 bits.
type machine struct {
	cursor
	frame *frame
	bias  uint64 // load bias of the file
	stack []uint64
}

// maxOperations is the maximum number of operations for one expression.
const maxOperations = 10_000

// evaluate returns the top of the stack at the end of the expression. The stack starts with the given values.
func (f *frame) evaluate(expression []byte, bias uint64, stack ...uint64) (uint64, error) {
	m := machine{cursor: cursor{data: expression}, frame: f, bias: bias, stack: stack}
	for n := 0; !m.done(); n++ {
		if n == maxOperations {
			m.failWith("more than %d operations", maxOperations)
		}
		m.operate(byte(m.unsigned(1)))
	}
	v := m.pop()
	if m.err != nil {
		return 0, fmt.Errorf("expression % x: %w", expression, m.err)
	}
	return v, nil
}

func (m *machine) push(v uint64) { m.stack = append(m.stack, v) }

func (m *machine) pop() uint64 {
	if len(m.stack) == 0 {
		m.failWith("the stack is empty")
		return 0
	}
	v := m.stack[len(m.stack)-1]
	m.stack = m.stack[:len(m.stack)-1]
	return v
}

// copyOf pushes a copy of the entry n below the top.
func (m *machine) copyOf(n int) {
	if n >= len(m.stack) {
		m.failWith("entry %d of %d on the stack", n, len(m.stack))
		return
	}
	m.push(m.stack[len(m.stack)-1-n])
}

func (m *machine) operate(op byte) {
	switch {
	case op >= dwLit0 && op <= dwLit31:
		m.push(uint64(op - dwLit0))
	case op >= dwBreg0 && op <= dwBreg31:
		m.register(uint64(op - dwBreg0))
	case op >= dwConst1u && op <= dwConsts || op == dwAddr:
		m.constant(op)
	case op >= dwDup && op <= dwRot:
		m.rearrange(op)
	case op >= dwEq && op <= dwNe:
		m.compare(op)
	default:
		m.others(op)
	}
}

func (m *machine) others(op byte) {
	switch op {
	case dwNop:
	case dwBregx:
		m.register(m.uleb())
	case dwDeref:
		m.loadValue(m.pop(), 8)
	case dwDerefSize:
		size := m.unsigned(1)
		m.loadValue(m.pop(), size)
	case dwSkip:
		m.jumpBy(m.signed(2))
	case dwBra:
		distance := m.signed(2)
		if m.pop() != 0 {
			m.jumpBy(distance)
		}
	default:
		m.arithmetic(op)
	}
}

func (m *machine) register(number uint64) {
	offset := m.sleb()
	v, err := m.frame.register(number)
	if err != nil && m.err == nil {
		m.err = err
	}
	m.push(v + uint64(offset))
}

func (m *machine) loadValue(addr, size uint64) {
	if size == 0 || size > 8 {
		m.failWith("%d bytes to be read", size)
		return
	}
	b, err := m.frame.memory.readBytes(addr, size)
	if err != nil && m.err == nil {
		m.err = err
	}
	var word [8]byte
	copy(word[:], b)
	m.push(binary.LittleEndian.Uint64(word[:]))
}

func (m *machine) jumpBy(distance int64) {
	to := int64(m.at) + distance
	if to < 0 || to > int64(len(m.data)) {
		m.failWith("jump to byte %d of %d", to, len(m.data))
		return
	}
	m.at = int(to)
}

func (m *machine) constant(op byte) {
	switch op {
	case dwAddr:
		m.push(m.unsigned(8) + m.bias)
	case dwConst1u, dwConst2u, dwConst4u, dwConst8u:
		m.push(m.unsigned(1 << ((op - dwConst1u) / 2)))
	case dwConst1s, dwConst2s, dwConst4s, dwConst8s:
		m.push(uint64(m.signed(1 << ((op - dwConst1s) / 2))))
	case dwConstu:
		m.push(m.uleb())
	case dwConsts:
		m.push(uint64(m.sleb()))
	}
}

func (m *machine) rearrange(op byte) {
	switch op {
	case dwDup:
		m.copyOf(0)
	case dwDrop:
		m.pop()
	case dwOver:
		m.copyOf(1)
	case dwPick:
		m.copyOf(int(m.unsigned(1)))
	case dwSwap:
		first, second := m.pop(), m.pop()
		m.push(first)
		m.push(second)
	case dwRot:
		first, second, third := m.pop(), m.pop(), m.pop()
		m.push(first)
		m.push(third)
		m.push(second)
	}
}

// compare pushes 1 if the relation holds between the second entry and the top as signed numbers, otherwise 0.
func (m *machine) compare(op byte) {
	b, a := int64(m.pop()), int64(m.pop())
	truth := map[byte]bool{dwEq: a == b, dwGe: a >= b, dwGt: a > b, dwLe: a <= b, dwLt: a < b, dwNe: a != b}
	if truth[op] {
		m.push(1)
	} else {
		m.push(0)
	}
}

func (m *machine) arithmetic(op byte) {
	switch op {
	case dwAbs:
		v := int64(m.pop())
		m.push(uint64(max(v, -v)))
		return
	case dwNeg:
		m.push(-m.pop())
		return
	case dwNot:
		m.push(^m.pop())
		return
	case dwPlusUconst:
		m.push(m.pop() + m.uleb())
		return
	}
	b, a := m.pop(), m.pop()
	switch op {
	case dwAnd:
		m.push(a & b)
	case dwOr:
		m.push(a | b)
	case dwXor:
		m.push(a ^ b)
	case dwPlus:
		m.push(a + b)
	case dwMinus:
		m.push(a - b)
	case dwMul:
		m.push(a * b)
	case dwShl:
		m.push(a << b)
	case dwShr:
		m.push(a >> b)
	case dwShra:
		m.push(uint64(int64(a) >> b))
	case dwDiv, dwMod:
		m.divide(op, a, b)
	default:
		m.failWith("operation %#x", op)
	}
}

// divide pushes the quotient of signed numbers, or the remainder of unsigned numbers.
func (m *machine) divide(op byte, a, b uint64) {
	switch {
	case b == 0:
		m.failWith("division by zero")
	case op == dwDiv:
		m.push(uint64(int64(a) / int64(b)))
	default:
		m.push(a % b)
	}
}
