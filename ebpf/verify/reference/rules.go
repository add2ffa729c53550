package reference

import "maps"

// kind is how a register of the caller is found (DWARF 5, 6.4.1).
type kind uint8

const (
	unspecified   kind = iota // nothing is said
	undefined                 // it is lost
	sameValue                 // it is what it was
	atOffset                  // it is at CFA + offset
	valOffset                 // it is CFA + offset
	inRegister                // it is in another register; as a rule of the CFA: that register + offset
	atExpression              // it is where the expression says
	valExpression             // it is what the expression says
)

// rule is the rule of one register, or of the CFA: inRegister or valExpression.
type rule struct {
	kind       kind
	register   uint64
	offset     int64
	expression []byte
}

// row is the rules from an address on.
type row struct {
	start     uint64 // ELF virtual address
	cfa       rule
	registers map[uint64]rule // by DWARF number; what is not there is unspecified
}

func (r row) clone() row {
	r.registers = maps.Clone(r.registers)
	return r
}

// Call frame instructions (DWARF 5, table 7.29) and those that vendors added.
const (
	opAdvance = 1 // in the two high bits, with an operand in the others
	opOffset  = 2
	opRestore = 3

	opNop              = 0x00
	opSetLoc           = 0x01
	opAdvance1         = 0x02
	opAdvance2         = 0x03
	opAdvance4         = 0x04
	opOffsetExtended   = 0x05
	opRestoreExtended  = 0x06
	opUndefined        = 0x07
	opSameValue        = 0x08
	opRegister         = 0x09
	opRememberState    = 0x0a
	opRestoreState     = 0x0b
	opDefCFA           = 0x0c
	opDefCFARegister   = 0x0d
	opDefCFAOffset     = 0x0e
	opDefCFAExpression = 0x0f
	opExpression       = 0x10
	opOffsetExtendedSF = 0x11
	opDefCFASF         = 0x12
	opDefCFAOffsetSF   = 0x13
	opValOffset        = 0x14
	opValOffsetSF      = 0x15
	opValExpression    = 0x16
	opMIPSAdvance8     = 0x1d
	opNegateRAStatePC  = 0x2c // arm64: whether return addresses are signed; so read that it does not matter
	opNegateRAState    = 0x2d
	opGNUArgsSize      = 0x2e
	opGNUNegOffset     = 0x2f
)

// program executes call frame instructions.
type program struct {
	*cursor
	section *section
	cie     *cie
	row     row
	initial row // what the CIE says
	stack   []row
	rows    []row
}

// rows returns what an FDE says, as a table: the first row is at its beginning, each
// one holds up to the next, the last one to the end.
func (s *section) rows(f *fde) ([]row, error) {
	p := program{section: s, cie: f.cie, row: row{start: f.start, registers: map[uint64]rule{}}}
	if err := p.run(f.cie.instructions); err != nil {
		return nil, err
	}
	p.initial = p.row.clone()
	if err := p.run(f.instructions); err != nil {
		return nil, err
	}
	return append(p.rows, p.row), nil
}

func (p *program) run(instructions span) error {
	p.cursor = &cursor{data: p.section.data[:instructions.to], at: instructions.from}
	for !p.done() {
		op := byte(p.unsigned(1))
		operand := uint64(op & 0x3f)
		switch op >> 6 {
		case opAdvance:
			p.advance(operand)
		case opOffset:
			p.set(operand, rule{kind: atOffset, offset: p.factored(int64(p.uleb()))})
		case opRestore:
			p.restore(operand)
		default:
			p.extended(op)
		}
	}
	return p.err
}

// advance begins another row, codeAlign*delta bytes further on.
func (p *program) advance(delta uint64) { p.moveTo(p.row.start + delta*p.cie.codeAlign) }

func (p *program) moveTo(start uint64) {
	p.rows = append(p.rows, p.row.clone())
	p.row.start = start
}

func (p *program) factored(v int64) int64 { return v * p.cie.dataAlign }

func (p *program) set(register uint64, r rule) { p.row.registers[register] = r }

// restore gives a register the rule that the CIE has for it, which may be none.
func (p *program) restore(register uint64) {
	if r, ok := p.initial.registers[register]; ok {
		p.row.registers[register] = r
	} else {
		delete(p.row.registers, register)
	}
}

func (p *program) extended(op byte) {
	switch op {
	case opNop, opNegateRAState, opNegateRAStatePC:
	case opGNUArgsSize:
		p.uleb()
	case opSetLoc:
		p.moveTo(p.section.pointer(p.cursor, p.cie.pointer))
	case opAdvance1:
		p.advance(p.unsigned(1))
	case opAdvance2:
		p.advance(p.unsigned(2))
	case opAdvance4:
		p.advance(p.unsigned(4))
	case opMIPSAdvance8:
		p.advance(p.unsigned(8))
	case opRememberState:
		p.stack = append(p.stack, p.row.clone())
	case opRestoreState:
		p.restoreState()
	case opDefCFA, opDefCFASF, opDefCFARegister, opDefCFAOffset, opDefCFAOffsetSF, opDefCFAExpression:
		p.defineCFA(op)
	default:
		p.defineRegister(op)
	}
}

// restoreState goes back to what was remembered last: the CFA, too, but not the address.
func (p *program) restoreState() {
	if len(p.stack) == 0 {
		p.fail("nothing was remembered")
		return
	}
	last := len(p.stack) - 1
	start := p.row.start
	p.row, p.stack = p.stack[last], p.stack[:last]
	p.row.start = start
}

func (p *program) defineCFA(op byte) {
	cfa := &p.row.cfa
	switch op {
	case opDefCFA:
		*cfa = rule{kind: inRegister, register: p.uleb(), offset: int64(p.uleb())}
	case opDefCFASF:
		*cfa = rule{kind: inRegister, register: p.uleb(), offset: p.factored(p.sleb())}
	case opDefCFAExpression:
		*cfa = rule{kind: valExpression, expression: p.bytes(p.uleb())}
		return
	default:
		if cfa.kind != inRegister {
			p.fail("instruction %#x changes a CFA that is not a register and an offset", op)
		}
	}
	switch op {
	case opDefCFARegister:
		cfa.register = p.uleb()
	case opDefCFAOffset:
		cfa.offset = int64(p.uleb())
	case opDefCFAOffsetSF:
		cfa.offset = p.factored(p.sleb())
	}
}

func (p *program) defineRegister(op byte) {
	register := p.uleb()
	switch op {
	case opOffsetExtended:
		p.set(register, rule{kind: atOffset, offset: p.factored(int64(p.uleb()))})
	case opOffsetExtendedSF:
		p.set(register, rule{kind: atOffset, offset: p.factored(p.sleb())})
	case opGNUNegOffset:
		p.set(register, rule{kind: atOffset, offset: -p.factored(int64(p.uleb()))})
	case opValOffset:
		p.set(register, rule{kind: valOffset, offset: p.factored(int64(p.uleb()))})
	case opValOffsetSF:
		p.set(register, rule{kind: valOffset, offset: p.factored(p.sleb())})
	case opRestoreExtended:
		p.restore(register)
	case opUndefined:
		p.set(register, rule{kind: undefined})
	case opSameValue:
		p.set(register, rule{kind: sameValue})
	case opRegister:
		p.set(register, rule{kind: inRegister, register: p.uleb()})
	case opExpression:
		p.set(register, rule{kind: atExpression, expression: p.bytes(p.uleb())})
	case opValExpression:
		p.set(register, rule{kind: valExpression, expression: p.bytes(p.uleb())})
	default:
		p.fail("instruction %#x", op)
	}
}
