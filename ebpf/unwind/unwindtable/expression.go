package unwindtable

// DWARF expression operators (DWARF 5, 7.7.1) of the supported forms.
const (
	opDeref      = 0x06
	opAnd        = 0x1a
	opMul        = 0x1e
	opPlus       = 0x22
	opPlusUconst = 0x23
	opShl        = 0x24
	opGe         = 0x2a
	opLit0       = 0x30
	opLit31      = 0x4f
	opBreg0      = 0x70
	opBreg31     = 0x8f
	opBregx      = 0x92
	opNop        = 0x96
)

// expression matches a DWARF expression, one operator at a time.
type expression struct {
	b  []byte
	ok bool // all operators so far matched
}

func match(b []byte) *expression { return &expression{b: b, ok: true} }

// done reports whether the whole expression matched.
func (e *expression) done() bool { return e.ok && len(e.b) == 0 }

func (e *expression) byte() byte {
	if !e.ok || len(e.b) == 0 {
		e.ok = false
		return 0
	}
	c := e.b[0]
	e.b = e.b[1:]
	return c
}

// takeOp matches the operator op.
func (e *expression) takeOp(op byte) *expression {
	e.ok = e.byte() == op && e.ok
	return e
}

// takeLiteral matches a literal and returns it.
func (e *expression) takeLiteral() uint8 {
	c := e.byte()
	if c < opLit0 || c > opLit31 {
		e.ok = false
		return 0
	}
	return c - opLit0
}

// takeRegister matches register + offset and returns both.
func (e *expression) takeRegister() (reg uint16, off int64) {
	switch c := e.byte(); {
	case c >= opBreg0 && c <= opBreg31:
		reg = uint16(c - opBreg0)
	case c == opBregx:
		n := e.uleb()
		if n > 0xffff {
			e.ok = false
		}
		reg = uint16(n)
	default:
		e.ok = false
	}
	return reg, e.sleb()
}

// takePlus matches an optional DW_OP_plus_uconst and returns its operand.
func (e *expression) takePlus() uint64 {
	if !e.ok || len(e.b) == 0 || e.b[0] != opPlusUconst {
		return 0
	}
	e.byte()
	return e.uleb()
}

// uleb reads an unsigned LEB128 number of at most 63 bits.
func (e *expression) uleb() uint64 {
	v := uint64(0)
	for shift := 0; shift < 63; shift += 7 {
		c := e.byte()
		v |= uint64(c&0x7f) << shift
		if c&0x80 == 0 {
			return v
		}
	}
	e.ok = false
	return 0
}

// sleb reads a signed LEB128 number of at most 63 bits.
func (e *expression) sleb() int64 {
	v := int64(0)
	for shift := 0; shift < 63; shift += 7 {
		c := e.byte()
		v |= int64(c&0x7f) << shift
		if c&0x80 == 0 {
			if c&0x40 != 0 {
				v |= -1 << (shift + 7)
			}
			return v
		}
	}
	e.ok = false
	return 0
}

// registerOffset matches register + offset.
func registerOffset(expr []byte) (reg uint16, off int64, ok bool) {
	e := match(expr)
	reg, off = e.takeRegister()
	return reg, off, e.done()
}

// derefRegister matches *(register + offset) + add.
func derefRegister(expr []byte) (reg uint16, off int64, add uint64, ok bool) {
	e := match(expr)
	reg, off = e.takeRegister()
	add = e.takeOp(opDeref).takePlus()
	return reg, off, add, e.done()
}
