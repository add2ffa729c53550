package reference

import "maps"

// kind is the kind of a rule for a register of the caller (DWARF 5, 6.4.1).
type kind uint8

const (
	unspecified   kind = iota // there is no rule
	undefined                 // its value is lost
	sameValue                 // its value is unchanged
	atOffset                  // its value is in memory at CFA + offset
	valOffset                 // its value is CFA + offset
	inRegister                // its value is in another register; for the CFA: that register + offset
	atExpression              // its value is in memory at the result of the expression
	valExpression             // its value is the result of the expression
)

// rule is the rule of one register, or of the CFA: inRegister or valExpression.
type rule struct {
	kind       kind
	register   uint64
	offset     int64
	expression []byte
}

// row holds the rules from an address on.
type row struct {
	start     uint64 // ELF virtual address
	cfa       rule
	registers map[uint64]rule // by DWARF number; missing registers are unspecified
}

func (r row) clone() row {
	r.registers = maps.Clone(r.registers)
	return r
}

// Call frame instructions (DWARF 5, table 7.29) and vendor extensions.
const (
	opAdvance = 1 // in the two high bits, with an operand in the low bits
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
	opNegateRAStatePC  = 0x2c // arm64: toggles signed return addresses; ignored, as abi.address masks signatures
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
	initial row // rules of the CIE
	stack   []row
	rows    []row
}

// rowsOf returns the rules of an FDE as a table. The first row is at the start of the FDE, each row holds up to the
// next one, and the last row up to the end.
func (s *section) rowsOf(f *fde) ([]row, error) {
	p := program{section: s, cie: f.cie, row: row{start: f.start, registers: map[uint64]rule{}}}
	if err := p.runInstructions(f.cie.instructions); err != nil {
		return nil, err
	}
	p.initial = p.row.clone()
	if err := p.runInstructions(f.instructions); err != nil {
		return nil, err
	}
	return append(p.rows, p.row), nil
}

func (p *program) runInstructions(instructions span) error {
	p.cursor = &cursor{data: p.section.data[:instructions.to], at: instructions.from}
	for !p.done() {
		op := byte(p.unsigned(1))
		operand := uint64(op & 0x3f)
		switch op >> 6 {
		case opAdvance:
			p.advance(operand)
		case opOffset:
			p.setRule(operand, rule{kind: atOffset, offset: p.factored(int64(p.uleb()))})
		case opRestore:
			p.restore(operand)
		default:
			p.extended(op)
		}
	}
	return p.err
}

// advance starts a new row, codeAlign*delta bytes further on.
func (p *program) advance(delta uint64) { p.moveTo(p.row.start + delta*p.cie.codeAlign) }

func (p *program) moveTo(start uint64) {
	p.rows = append(p.rows, p.row.clone())
	p.row.start = start
}

func (p *program) factored(v int64) int64 { return v * p.cie.dataAlign }

func (p *program) setRule(register uint64, r rule) { p.row.registers[register] = r }

// restore resets a register to its rule in the CIE, if any.
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

// restoreState restores the rules remembered last, including the CFA, but not the address.
func (p *program) restoreState() {
	if len(p.stack) == 0 {
		p.failWith("nothing was remembered")
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
			p.failWith("instruction %#x changes a CFA that is not a register and an offset", op)
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
		p.setRule(register, rule{kind: atOffset, offset: p.factored(int64(p.uleb()))})
	case opOffsetExtendedSF:
		p.setRule(register, rule{kind: atOffset, offset: p.factored(p.sleb())})
	case opGNUNegOffset:
		p.setRule(register, rule{kind: atOffset, offset: -p.factored(int64(p.uleb()))})
	case opValOffset:
		p.setRule(register, rule{kind: valOffset, offset: p.factored(int64(p.uleb()))})
	case opValOffsetSF:
		p.setRule(register, rule{kind: valOffset, offset: p.factored(p.sleb())})
	case opRestoreExtended:
		p.restore(register)
	case opUndefined:
		p.setRule(register, rule{kind: undefined})
	case opSameValue:
		p.setRule(register, rule{kind: sameValue})
	case opRegister:
		p.setRule(register, rule{kind: inRegister, register: p.uleb()})
	case opExpression:
		p.setRule(register, rule{kind: atExpression, expression: p.bytes(p.uleb())})
	case opValExpression:
		p.setRule(register, rule{kind: valExpression, expression: p.bytes(p.uleb())})
	default:
		p.failWith("instruction %#x", op)
	}
}
