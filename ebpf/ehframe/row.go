package ehframe

// RuleKind says how the caller's value of a register is found.
type RuleKind uint8

// The register rules of DWARF 5, 6.4.1. Unspecified is not one of them: the
// call frame information does not mention the register, and the ABI decides.
const (
	Unspecified   RuleKind = iota
	Undefined              // the value is lost
	SameValue              // the register was not changed
	Offset                 // value = *(CFA + Offset)
	ValOffset              // value = CFA + Offset
	Register               // value = register Reg
	Expression             // value = *(Expr), evaluated with the CFA on the stack
	ValExpression          // value = Expr, evaluated with the CFA on the stack
)

// Rule is the rule of one register.
type Rule struct {
	Kind   RuleKind
	Reg    uint16 // Register: DWARF number
	Offset int64  // Offset, ValOffset: bytes
	Expr   []byte // Expression, ValExpression: DWARF expression; refers to the section's bytes
}

// RegisterRule is a rule with the DWARF number of the register it is about.
type RegisterRule struct {
	Number uint16
	Rule
}

// CFAKind says how the canonical frame address is found.
type CFAKind uint8

// The CFA rules of DWARF 5, 6.4.2.2.
const (
	CFAUnspecified CFAKind = iota
	CFARegister            // CFA = register Reg + Offset
	CFAExpression          // CFA = Expr
)

// CFA is the rule of the canonical frame address.
type CFA struct {
	Kind   CFAKind
	Reg    uint16
	Offset int64  // kept, as libgcc does, while an expression applies
	Expr   []byte // refers to the section's bytes
}

// Row is the rules that apply to the text from Start to before End.
type Row struct {
	Start, End uint64         // ELF virtual addresses
	CFA        CFA            // how to find the CFA
	Registers  []RegisterRule // in ascending order of Number; without Unspecified
	ArgsSize   uint64         // DW_CFA_GNU_args_size: bytes of pushed arguments
	SignedRA   bool           // arm64: the return address carries a pointer authentication code
	SignedPC   bool           // arm64: ... and the pc took part in signing it (PAuth_LR)
}

// Rule returns the rule of the register with DWARF number reg.
func (r *Row) Rule(reg uint16) Rule {
	for i := range r.Registers {
		if r.Registers[i].Number == reg {
			return r.Registers[i].Rule
		}
	}
	return Rule{}
}

// set makes rule the rule of reg; Unspecified removes it. It reports false if
// there are too many registers.
func (r *Row) set(reg uint16, rule Rule) bool {
	i := 0
	for i < len(r.Registers) && r.Registers[i].Number < reg {
		i++
	}
	found := i < len(r.Registers) && r.Registers[i].Number == reg
	switch {
	case rule.Kind == Unspecified && found:
		r.Registers = append(r.Registers[:i], r.Registers[i+1:]...)
	case rule.Kind == Unspecified:
	case found:
		r.Registers[i].Rule = rule
	case len(r.Registers) >= maxRegisters:
		return false
	default:
		r.Registers = append(r.Registers, RegisterRule{})
		copy(r.Registers[i+1:], r.Registers[i:])
		r.Registers[i] = RegisterRule{reg, rule}
	}
	return true
}

// assign makes r equal to o but for the addresses, without sharing Registers.
func (r *Row) assign(o *Row) {
	registers := append(r.Registers[:0], o.Registers...)
	start, end := r.Start, r.End
	*r = *o
	r.Registers, r.Start, r.End = registers, start, end
}
