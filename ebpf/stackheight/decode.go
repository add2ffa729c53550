package stackheight

import "encoding/binary"

// effect is what an instruction does to the stack pointer and the frame pointer,
// as far as the analysis follows it.
type effect uint8

const (
	nothing     effect = iota // to the two, and goes on behind itself
	pads                      // nothing at all
	begins                    // nothing: endbr64, where functions begin
	calls                     // what returns behind the instruction, or not at all
	moves                     // sp += n
	pops                      // fp = *sp; sp += n
	restores                  // fp = *(sp + n)
	saves                     // *(sp + n) = fp
	stores                    // *(sp + n) = another register
	fromFP                    // sp = fp + n
	leaves                    // sp = fp; fp = *sp; sp += 8
	toFP                      // fp = sp + n
	loadsBySP                 // sp = *(sp + n)
	loadsByFP                 // sp = *(fp + n)
	returns                   // to the caller
	jumps                     // to n bytes behind itself
	branches                  // there, or on
	leavesBy                  // a jump through a slot of the file: to another function
	jumpsAnyway               // nobody knows where to
	stops                     // does not go on
	loses                     // the stack pointer gets a value that is not followed
)

// instruction is one instruction of x86-64.
type instruction struct {
	size   int
	effect effect
	n      int64
}

// Numbers of registers in instructions.
const (
	rsp = 4
	rbp = 5
)

// decoder reads one instruction. What it reads behind the end of code is zero, and
// overrun tells.
type decoder struct {
	code    []byte
	at      int
	overrun bool
	wide    bool // operand size 64
	short   bool // operand size 16
	rexR    int  // 8: the register operand is one of the upper eight
	rexX    int
	rexB    int
	address bool // address size 32

	mod, reg, rm int  // of ModR/M, with the upper bits
	base         int  // register of a memory operand; -1: none
	indexed      bool // it has an index register
	disp         int64
}

func (d *decoder) byte() byte {
	if d.at >= len(d.code) {
		d.overrun = true
		return 0
	}
	d.at++
	return d.code[d.at-1]
}

// signed reads an immediate of so many bytes.
func (d *decoder) signed(size int) int64 {
	if d.at+size > len(d.code) {
		d.overrun = true
		d.at = len(d.code)
		return 0
	}
	p := d.code[d.at:]
	d.at += size
	switch size {
	case 1:
		return int64(int8(p[0]))
	case 2:
		return int64(int16(binary.LittleEndian.Uint16(p)))
	case 4:
		return int64(int32(binary.LittleEndian.Uint32(p)))
	}
	return int64(binary.LittleEndian.Uint64(p))
}

// immediate reads an immediate of the operand size, of 32 bits at most.
func (d *decoder) immediate() int64 {
	if d.short && !d.wide {
		return d.signed(2)
	}
	return d.signed(4)
}

// modRM reads the operands.
func (d *decoder) modRM() {
	b := d.byte()
	d.mod, d.reg, d.rm = int(b>>6), int(b>>3&7)|d.rexR, int(b&7)
	d.base, d.indexed, d.disp = -1, false, 0
	if d.mod == 3 {
		d.rm |= d.rexB
		return
	}
	switch d.rm {
	case 4:
		sib := d.byte()
		d.indexed = int(sib>>3&7)|d.rexX != 4
		if d.base = int(sib&7) | d.rexB; sib&7 == 5 && d.mod == 0 {
			d.base, d.disp = -1, d.signed(4)
		}
	case 5:
		if d.mod == 0 { // relative to the instruction pointer
			d.disp = d.signed(4)
			break
		}
		fallthrough
	default:
		d.base = d.rm | d.rexB
	}
	switch d.mod {
	case 1:
		d.disp = d.signed(1)
	case 2:
		d.disp = d.signed(4)
	}
}

// inRegister reports whether the operand that may be in memory is register r.
func (d *decoder) inRegister(r int) bool { return d.mod == 3 && d.rm == r }

// inMemory reports whether it is in memory, at a distance from register r.
func (d *decoder) inMemory(r int) bool { return d.mod != 3 && d.base == r && !d.indexed && !d.address }

// decode reads the first instruction of code. It has no size if it is none, or
// one that ends behind code.
func decode(code []byte) instruction {
	d := decoder{code: code}
	effect, n := d.instruction()
	const longest = 15
	if d.overrun || d.at > longest || d.at == 0 {
		return instruction{}
	}
	if effect == undefined {
		return instruction{}
	}
	return instruction{d.at, effect, n}
}

// undefined says that bytes are no instruction.
const undefined effect = 255

func (d *decoder) instruction() (effect, int64) {
	for {
		switch b := d.byte(); {
		case b == 0x66:
			d.short = true
		case b == 0x67:
			d.address = true
		case b == 0xf0, b == 0xf2, b == 0xf3, b == 0x2e, b == 0x36, b == 0x3e, b == 0x26, b == 0x64, b == 0x65:
		case b&0xf0 == 0x40:
			d.wide, d.rexR, d.rexX, d.rexB = b&8 != 0, int(b&4)<<1, int(b&2)<<2, int(b&1)<<3
			return d.opcode(d.byte())
		default:
			return d.opcode(b)
		}
		if d.overrun {
			return undefined, 0
		}
	}
}

// opcode reads what follows the prefixes.
func (d *decoder) opcode(op byte) (effect, int64) {
	switch {
	case op == 0x0f:
		return d.twoBytes()
	case op < 0x40:
		return d.arithmetic(op)
	case op < 0x60:
		return d.pushOrPop(op)
	}
	switch op {
	case 0xc4, 0xc5:
		return d.vex(op)
	case 0x62:
		return d.evex()
	case 0x63, 0x69, 0x6b: // movslq, imul
		d.modRM()
		if op == 0x69 {
			d.immediate()
		} else if op == 0x6b {
			d.signed(1)
		}
		return d.writes(d.reg == rsp), 0
	case 0x68:
		d.immediate()
		return moves, -d.word()
	case 0x6a:
		d.signed(1)
		return moves, -d.word()
	case 0x6c, 0x6d, 0x6e, 0x6f: // ins, outs
		return nothing, 0
	case 0x80, 0x81, 0x83:
		return d.arithmeticImmediate(op)
	case 0x84, 0x85, 0x88, 0x8a, 0x8c, 0x8e: // test, mov of bytes and segment registers
		d.modRM()
		return nothing, 0
	case 0x86: // xchg of bytes
		d.modRM()
		return nothing, 0
	case 0x87:
		d.modRM()
		return d.writes(d.reg == rsp || d.inRegister(rsp)), 0
	case 0x89, 0x8b, 0x8d:
		return d.move(op)
	case 0x8f:
		if d.at < len(d.code) && d.code[d.at]&31 >= 8 {
			return d.xop()
		}
		return d.popOperand()
	case 0x9a, 0x82, 0xce, 0xd4, 0xd5, 0xd6, 0xea, 0x60, 0x61:
		return undefined, 0
	case 0x9c:
		return moves, -d.word()
	case 0x9d:
		return moves, d.word()
	case 0xa0, 0xa1, 0xa2, 0xa3:
		if d.address {
			d.signed(4)
		} else {
			d.signed(8)
		}
		return nothing, 0
	case 0xa8:
		d.signed(1)
		return nothing, 0
	case 0xa9:
		d.immediate()
		return nothing, 0
	case 0xc0, 0xc1, 0xd0, 0xd1, 0xd2, 0xd3: // shifts
		d.modRM()
		if op < 0xd0 {
			d.signed(1)
		}
		return d.writes(op&1 == 1 && d.inRegister(rsp)), 0
	case 0xc2:
		d.signed(2)
		return returns, 0
	case 0xc3:
		return returns, 0
	case 0xc6:
		d.modRM()
		d.signed(1)
		return nothing, 0
	case 0xc7: // mov, xbegin
		d.modRM()
		d.immediate()
		return d.writes(d.reg&7 == 0 && d.inRegister(rsp)), 0
	case 0xc8:
		d.signed(2)
		d.signed(1)
		return loses, 0
	case 0xc9:
		return leaves, 0
	case 0xca:
		d.signed(2)
		return stops, 0
	case 0xcc:
		return pads, 0
	case 0xcb, 0xcf, 0xf4, 0xf1: // far returns, hlt
		return stops, 0
	case 0xcd:
		d.signed(1)
		return nothing, 0
	case 0xe0, 0xe1, 0xe2, 0xe3: // loop, jrcxz
		return branches, d.signed(1)
	case 0xe4, 0xe5, 0xe6, 0xe7:
		d.signed(1)
		return nothing, 0
	case 0xe8:
		if d.signed(4) == 0 && !d.overrun { // pushes where it is
			return moves, -8
		}
		return calls, 0
	case 0xe9:
		return jumps, d.signed(4)
	case 0xeb:
		return jumps, d.signed(1)
	case 0xf6, 0xf7:
		d.modRM()
		switch {
		case d.reg&7 > 1:
		case op == 0xf6:
			d.signed(1)
		default:
			d.immediate()
		}
		return d.writes(op == 0xf7 && d.inRegister(rsp) && (d.reg&7 == 2 || d.reg&7 == 3)), 0
	case 0xfe:
		d.modRM()
		return nothing, 0
	case 0xff:
		return d.group5()
	}
	switch {
	case op&0xf0 == 0x70:
		return branches, d.signed(1)
	case op == 0x90 && d.rexB == 0:
		return pads, 0
	case op >= 0x90 && op < 0x98:
		return d.writes(int(op&7)|d.rexB == rsp), 0 // xchg
	case op >= 0xb0 && op < 0xb8:
		d.signed(1)
		return nothing, 0
	case op >= 0xb8 && op < 0xc0:
		if d.wide {
			d.signed(8)
		} else {
			d.immediate()
		}
		return d.writes(int(op&7)|d.rexB == rsp), 0
	case op >= 0xd8 && op < 0xe0:
		d.modRM()
	}
	return nothing, 0 // without operands
}

// writes is the effect of an instruction that may write to the stack pointer.
func (d *decoder) writes(sp bool) effect {
	if sp {
		return loses
	}
	return nothing
}

// word is how many bytes are pushed.
func (d *decoder) word() int64 {
	if d.short {
		return 2
	}
	return 8
}

// arithmetic is the first quarter of the opcodes: eight operations in six forms.
func (d *decoder) arithmetic(op byte) (effect, int64) {
	switch op & 7 {
	case 0, 1, 2, 3:
		d.modRM()
		compares := op&0x38 == 0x38
		return d.writes(!compares && (op&7 == 1 && d.inRegister(rsp) || op&7 == 3 && d.reg == rsp)), 0
	case 4:
		d.signed(1)
		return nothing, 0
	case 5:
		d.immediate()
		return nothing, 0
	}
	return undefined, 0
}

func (d *decoder) arithmeticImmediate(op byte) (effect, int64) {
	d.modRM()
	n := int64(0)
	if op == 0x81 {
		n = d.immediate()
	} else {
		n = d.signed(1)
	}
	switch {
	case op == 0x80 || !d.inRegister(rsp) || d.reg&7 == 7:
		return nothing, 0
	case d.wide && d.reg&7 == 0:
		return moves, n
	case d.wide && d.reg&7 == 5:
		return moves, -n
	}
	return loses, 0
}

func (d *decoder) pushOrPop(op byte) (effect, int64) {
	r := int(op&7) | d.rexB
	switch {
	case op < 0x58:
		return moves, -d.word()
	case r == rsp:
		return loses, 0
	case r == rbp && !d.short:
		return pops, d.word()
	}
	return moves, d.word()
}

func (d *decoder) popOperand() (effect, int64) {
	d.modRM()
	switch {
	case d.reg&7 != 0:
		return undefined, 0
	case d.inRegister(rsp):
		return loses, 0
	case d.inRegister(rbp) && !d.short:
		return pops, d.word()
	}
	return moves, d.word()
}

// move is mov between registers and memory, and lea.
func (d *decoder) move(op byte) (effect, int64) {
	d.modRM()
	to, fromSP, fromBP := d.reg, d.inRegister(rsp), d.inRegister(rbp)
	if op == 0x89 {
		switch {
		case d.mod != 3 && !d.inMemory(rsp):
			return nothing, 0
		case d.mod != 3 && d.reg == rbp && d.wide:
			return saves, d.disp
		case d.mod != 3:
			return stores, d.disp
		}
		to, fromSP, fromBP = d.rm, d.reg == rsp, d.reg == rbp
	}
	if op == 0x8d {
		if d.mod == 3 {
			return undefined, 0
		}
		fromSP, fromBP = d.inMemory(rsp), d.inMemory(rbp)
	}
	loads := op == 0x8b && d.mod != 3
	switch {
	case to != rsp && to != rbp:
		return nothing, 0
	case to == rsp && !d.wide:
		return loses, 0
	case !d.wide:
		return nothing, 0
	case to == rsp && loads && d.inMemory(rsp):
		return loadsBySP, d.disp
	case to == rsp && loads && d.inMemory(rbp):
		return loadsByFP, d.disp
	case to == rsp && loads:
		return loses, 0
	case to == rsp && fromSP:
		return moves, d.disp
	case to == rsp && fromBP:
		return fromFP, d.disp
	case to == rsp:
		return loses, 0
	case loads && d.inMemory(rsp):
		return restores, d.disp
	case fromSP && !loads:
		return toFP, d.disp
	}
	return nothing, 0
}

// group5 is inc, dec, call, jmp and push of an operand.
func (d *decoder) group5() (effect, int64) {
	d.modRM()
	switch d.reg & 7 {
	case 0, 1:
		return d.writes(d.inRegister(rsp)), 0
	case 2:
		return calls, 0
	case 4:
		if d.mod == 0 && d.rm == 5 {
			return leavesBy, 0
		}
		return jumpsAnyway, 0
	case 6:
		return moves, -d.word()
	case 7:
		return undefined, 0
	}
	return stops, 0
}

// twoBytes is the opcodes behind 0f.
func (d *decoder) twoBytes() (effect, int64) {
	op := d.byte()
	switch op {
	case 0x38:
		d.byte()
		d.modRM()
		return nothing, 0
	case 0x3a:
		d.byte()
		d.modRM()
		d.signed(1)
		return nothing, 0
	case 0x0b: // ud2
		return stops, 0
	case 0x05, 0x06, 0x07, 0x08, 0x09, 0x0e, 0x30, 0x31, 0x32, 0x33, 0x34, 0x35, 0x37, 0x77, 0xa2, 0xaa:
		return nothing, 0
	case 0xa0, 0xa8: // push %fs, %gs
		return moves, -d.word()
	case 0xa1, 0xa9:
		return moves, d.word()
	case 0x04, 0x0a, 0x0c, 0x24, 0x25, 0x26, 0x27, 0x36, 0x39, 0x3b, 0x3c, 0x3d, 0x3e, 0x3f, 0xa6, 0xa7:
		return undefined, 0
	}
	switch {
	case op&0xf0 == 0x80:
		return branches, d.signed(4)
	case op >= 0xc8 && op < 0xd0:
		return d.writes(int(op&7)|d.rexB == rsp), 0 // bswap
	case op >= 0x20 && op < 0x24: // control and debug registers, never memory
		d.byte()
		return nothing, 0
	}
	d.modRM()
	switch {
	case op == 0x1f:
		return pads, 0
	case op == 0x1e && d.mod == 3 && d.reg == 7 && d.rm == 2:
		return begins, 0
	}
	if hasImmediate(op) || op == 0xa4 || op == 0xac || op == 0xba || op == 0x0f {
		d.signed(1)
	}
	switch {
	case op&0xf0 == 0x40, op == 0xaf, op == 0xb6, op == 0xb7, op == 0xbe, op == 0xbf, op == 0xb8, op == 0xbc, op == 0xbd, op == 0x02, op == 0x03:
		return d.writes(d.reg == rsp), 0 // cmov, imul, movzx, movsx, bit counts
	case op == 0xb1, op == 0xc1, op == 0xb3, op == 0xbb, op == 0xab:
		return d.writes(d.inRegister(rsp)), 0
	}
	return nothing, 0
}

// hasImmediate tells of opcodes behind 0f which of those for vectors have a byte more.
func hasImmediate(op byte) bool {
	switch op {
	case 0x70, 0x71, 0x72, 0x73, 0xc2, 0xc4, 0xc5, 0xc6:
		return true
	}
	return false
}

// vex is the instructions for vectors since AVX.
func (d *decoder) vex(op byte) (effect, int64) {
	b, table := d.byte(), 1
	d.rexR = int(^b>>7&1) << 3
	if op == 0xc4 {
		d.rexX, d.rexB, table = int(^b>>6&1)<<3, int(^b>>5&1)<<3, int(b&31)
		d.byte()
	}
	return d.vector(table)
}

// xop is those that AMD had for some years.
func (d *decoder) xop() (effect, int64) {
	b := d.byte()
	d.byte()
	d.byte() // the opcode
	d.rexR, d.rexX, d.rexB = int(^b>>7&1)<<3, int(^b>>6&1)<<3, int(^b>>5&1)<<3
	d.modRM()
	switch b & 31 {
	case 8:
		d.signed(1)
	case 10:
		d.signed(4)
	}
	return nothing, 0
}

// evex is those since AVX-512.
func (d *decoder) evex() (effect, int64) {
	b := d.byte()
	d.byte()
	d.byte()
	d.rexR, d.rexX, d.rexB = int(^b>>7&1)<<3, int(^b>>6&1)<<3, int(^b>>5&1)<<3
	return d.vector(int(b & 7))
}

// vector reads the opcode, of one of the tables, and the operands.
func (d *decoder) vector(table int) (effect, int64) {
	op := d.byte()
	switch {
	case table == 0 || table > 6 || table == 4:
		return undefined, 0
	case table == 1 && op == 0x77: // vzeroupper
		return nothing, 0
	}
	d.modRM()
	if table == 3 || table == 1 && hasImmediate(op) {
		d.signed(1)
	}
	return nothing, 0
}
