package ehframe

import (
	"fmt"
	"math"
	"math/bits"
)

// Limits on the state that call frame instructions build.
const (
	maxRegisters = 256 // registers with a rule at a time
	maxRemember  = 256 // states remembered at a time
)

// Program executes call frame instructions. The zero value is ready to use. Reusing a Program for
// many FDEs saves allocations. It must not be used concurrently.
type Program struct {
	current *CIE  // CIE whose instructions and factors are in use
	initial Row   // rules after the CIE's instructions
	row     Row   // current rules
	saved   []Row // remembered states; the first depth are in use
	depth   int

	ready bool // initial holds the rules of current; false while its instructions run
}

// Rows calls yield for each row of f in ascending order of addresses, until yield returns false.
// Rows do not overlap and are not empty. Together they cover the FDE, unless there is an error; the
// error concerns the text after the last row. The row is valid only during the call of yield.
func (p *Program) Rows(f *FDE, yield func(*Row) bool) error {
	if f.Start >= f.End {
		return nil
	}
	if err := p.begin(f); err != nil {
		return fmt.Errorf("FDE at offset %#x: CIE at offset %#x: %w", f.Offset, f.CIE.Offset, err)
	}
	r := &reader{b: f.Instructions, addr: f.instructionAddr, order: f.sec.Order}
	for r.pos < len(r.b) {
		loc, moved := p.stepInstruction(r, f)
		if r.err != nil {
			return fmt.Errorf("FDE at offset %#x: instruction byte %d: %w", f.Offset, r.pos, r.err)
		}
		if !moved || loc == p.row.Start {
			continue
		}
		if loc >= f.End {
			break
		}
		p.row.End = loc
		if !yield(&p.row) {
			return nil
		}
		p.row.Start = loc
	}
	p.row.End = f.End
	yield(&p.row)
	return nil
}

// begin sets the rules of the first row of f.
func (p *Program) begin(f *FDE) error {
	p.depth = 0
	if p.current != f.CIE || !p.ready {
		p.current = f.CIE
		p.row.assign(&Row{})
		p.row.Start = f.Start
		p.ready = false
		r := &reader{b: f.CIE.Instructions, addr: f.CIE.instructionAddr, order: f.sec.Order}
		for r.pos < len(r.b) {
			if _, moved := p.stepInstruction(r, f); moved {
				r.failWith(fmt.Errorf("%w: a CIE cannot advance", ErrInvalid))
			}
			if r.err != nil {
				return r.err
			}
		}
		p.initial.assign(&p.row)
	}
	p.depth = 0
	p.ready = true
	p.row.assign(&p.initial)
	p.row.Start, p.row.End = f.Start, f.End
	return nil
}

// stepInstruction executes one instruction. If the instruction advances the location, moved is true and loc is
// the new location; the caller then completes the row.
func (p *Program) stepInstruction(r *reader, f *FDE) (loc uint64, moved bool) {
	op := r.u8()
	low := uint16(op & 0x3f)
	switch op & 0xc0 {
	case opAdvanceLoc:
		return p.advance(r, uint64(low)), true
	case opOffset:
		p.setRule(r, low, Rule{Kind: Offset, Offset: p.factored(r, r.uleb())})
		return 0, false
	case opRestore:
		p.restore(r, low)
		return 0, false
	}
	switch op {
	case opNop:
	case opSetLoc:
		return p.setLoc(r, f), true
	case opAdvanceLoc1:
		return p.advance(r, uint64(r.u8())), true
	case opAdvanceLoc2:
		return p.advance(r, uint64(r.u16())), true
	case opAdvanceLoc4:
		return p.advance(r, uint64(r.u32())), true
	case opMIPSAdvanceLoc8:
		return p.advance(r, r.u64()), true
	case opRememberState:
		p.remember(r)
	case opRestoreState:
		p.restoreState(r)
	case opGNUArgsSize:
		p.row.ArgsSize = r.uleb()
	case opAArch64NegateRA:
		p.row.SignedRA = !p.row.SignedRA
	case opAArch64NegateRAPC:
		p.row.SignedRA, p.row.SignedPC = !p.row.SignedRA, !p.row.SignedPC
	case opDefCFA, opDefCFASF, opDefCFARegister, opDefCFAOffset, opDefCFAOffsetSF, opDefCFAExpression:
		p.defineCFA(r, op)
	default:
		p.register(r, op)
	}
	return 0, false
}

// defineCFA executes an instruction that sets the CFA rule.
func (p *Program) defineCFA(r *reader, op uint8) {
	cfa := &p.row.CFA
	switch op {
	case opDefCFA:
		*cfa = CFA{Kind: CFARegister, Reg: number(r), Offset: unfactored(r)}
	case opDefCFASF:
		*cfa = CFA{Kind: CFARegister, Reg: number(r), Offset: p.factoredSigned(r)}
	case opDefCFARegister:
		*cfa = CFA{Kind: CFARegister, Reg: number(r), Offset: cfa.Offset}
	case opDefCFAOffset:
		cfa.Offset = unfactored(r)
	case opDefCFAOffsetSF:
		cfa.Offset = p.factoredSigned(r)
	case opDefCFAExpression:
		*cfa = CFA{Kind: CFAExpression, Offset: cfa.Offset, Expr: r.takeBytes(r.uleb())}
	}
}

// register executes an instruction that sets the rule of a register.
func (p *Program) register(r *reader, op uint8) {
	if !hasRegister(op) {
		r.failWith(fmt.Errorf("%w: call frame instruction %#02x", ErrUnsupported, op))
		return
	}
	reg := number(r)
	rule := Rule{}
	switch op {
	case opRestoreExtended:
		p.restore(r, reg)
		return
	case opUndefined:
		rule.Kind = Undefined
	case opSameValue:
		rule.Kind = SameValue
	case opRegister:
		rule = Rule{Kind: Register, Reg: number(r)}
	case opOffsetExtended:
		rule = Rule{Kind: Offset, Offset: p.factored(r, r.uleb())}
	case opOffsetExtendedSF:
		rule = Rule{Kind: Offset, Offset: p.factoredSigned(r)}
	case opGNUNegativeOffsetEx:
		rule = Rule{Kind: Offset, Offset: -p.factored(r, r.uleb())}
	case opValOffset:
		rule = Rule{Kind: ValOffset, Offset: p.factored(r, r.uleb())}
	case opValOffsetSF:
		rule = Rule{Kind: ValOffset, Offset: p.factoredSigned(r)}
	case opExpression:
		rule = Rule{Kind: Expression, Expr: r.takeBytes(r.uleb())}
	case opValExpression:
		rule = Rule{Kind: ValExpression, Expr: r.takeBytes(r.uleb())}
	}
	p.setRule(r, reg, rule)
}

// hasRegister reports whether op is an extended instruction whose first operand is the register
// that it sets the rule of.
func hasRegister(op uint8) bool {
	switch op {
	case opRestoreExtended, opUndefined, opSameValue, opRegister, opOffsetExtended, opOffsetExtendedSF,
		opGNUNegativeOffsetEx, opValOffset, opValOffsetSF, opExpression, opValExpression:
		return true
	}
	return false
}

func (p *Program) setRule(r *reader, reg uint16, rule Rule) {
	if r.err == nil && !p.row.setRule(reg, rule) {
		r.failWith(fmt.Errorf("%w: rules for more than %d registers", ErrUnsupported, maxRegisters))
	}
}

// restore resets the rule of reg to the rule after the CIE's instructions.
func (p *Program) restore(r *reader, reg uint16) {
	if !p.ready {
		r.failWith(fmt.Errorf("%w: restore in a CIE", ErrInvalid))
		return
	}
	p.setRule(r, reg, p.initial.Rule(reg))
}

func (p *Program) remember(r *reader) {
	if p.depth >= maxRemember {
		r.failWith(fmt.Errorf("%w: more than %d remembered states", ErrUnsupported, maxRemember))
		return
	}
	if p.depth == len(p.saved) {
		p.saved = append(p.saved, Row{})
	}
	p.saved[p.depth].assign(&p.row)
	p.depth++
}

// restoreState restores the last remembered state, including the CFA, as all known consumers do.
// ArgsSize is not part of the state.
func (p *Program) restoreState(r *reader) {
	if p.depth == 0 {
		r.failWith(fmt.Errorf("%w: restore_state without remember_state", ErrInvalid))
		return
	}
	p.depth--
	args := p.row.ArgsSize
	p.row.assign(&p.saved[p.depth])
	p.row.ArgsSize = args
}

// advance returns the current location plus delta code units.
func (p *Program) advance(r *reader, delta uint64) uint64 {
	hi, bytes := bits.Mul64(delta, p.current.CodeAlign)
	loc, carry := bits.Add64(p.row.Start, bytes, 0)
	if hi != 0 || carry != 0 {
		r.failWith(fmt.Errorf("%w: location beyond the address space", ErrInvalid))
	}
	return loc
}

// setLoc returns the operand of a DW_CFA_set_loc.
func (p *Program) setLoc(r *reader, f *FDE) uint64 {
	loc := r.pointer(f.CIE.FDEEncoding, f.bases)
	if loc < p.row.Start {
		r.failWith(fmt.Errorf("%w: set_loc goes back", ErrInvalid))
	}
	return loc
}

// number reads the number of a register.
func number(r *reader) uint16 {
	n := r.uleb()
	if n > math.MaxUint16 {
		r.failWith(fmt.Errorf("%w: register %d", ErrUnsupported, n))
	}
	return uint16(n)
}

// unfactored reads an unsigned offset in bytes.
func unfactored(r *reader) int64 {
	n := r.uleb()
	if n > math.MaxInt64 {
		r.failWith(fmt.Errorf("%w: offset beyond the address space", ErrInvalid))
	}
	return int64(n)
}
