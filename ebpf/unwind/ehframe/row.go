package ehframe

// RuleKind is the kind of a register rule.
type RuleKind uint8

// The register rules of DWARF 5, 6.4.1. Unspecified is not in DWARF: the call frame information
// does not mention the register, and the ABI decides.
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

// RegisterRule is a rule together with the DWARF number of its register.
type RegisterRule struct {
	Number uint16
	Rule
}

// CFAKind is the kind of a CFA rule.
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
	Offset int64  // kept during a CFAExpression, as libgcc does
	Expr   []byte // refers to the section's bytes
}

// Row holds the rules for the text in [Start, End).
type Row struct {
	Start, End uint64         // ELF virtual addresses
	CFA        CFA            // rule of the CFA
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

// setRule sets the rule of reg; Unspecified removes it. It returns false if there are too many
// registers.
func (r *Row) setRule(reg uint16, rule Rule) bool {
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

// assign copies o to r, except the addresses, without sharing Registers.
func (r *Row) assign(o *Row) {
	registers := append(r.Registers[:0], o.Registers...)
	start, end := r.Start, r.End
	*r = *o
	r.Registers, r.Start, r.End = registers, start, end
}
