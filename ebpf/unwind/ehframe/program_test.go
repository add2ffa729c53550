package ehframe_test

import (
	"errors"
	"fmt"
	"math"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/headwater/headwater/ebpf/unwind/ehframe"
	"github.com/headwater/headwater/ebpf/unwind/ehframe/ehtest"
)

const textStart = 0x401000

// initial is the usual program of an x86-64 CIE: CFA = rsp + 8, ra at CFA - 8.
func initial() ehtest.Asm {
	return ehtest.Asm{}.Op(ehtest.DefCFA).Uleb(7).Uleb(8).Op(ehtest.OffsetReg | 16).Uleb(1)
}

// rowsOf assembles an FDE of 256 bytes of text and returns its rows, one line each, with offsets
// relative to the start of the text.
func rowsOf(t *testing.T, cie ehtest.CIE, program ehtest.Asm) ([]string, error) {
	t.Helper()
	frames := &ehtest.Frames{Addr: 0x500000}
	off := frames.FDE(frames.CIE(cie), textStart, 256, program)
	fde, err := ehframe.NewReader(frames.Section()).FDE(off)
	if err != nil {
		t.Fatal(err)
	}
	var rows []string
	var p ehframe.Program
	err = p.Rows(&fde, func(r *ehframe.Row) bool {
		rows = append(rows, formatRow(r))
		return true
	})
	return rows, err
}

func formatRow(r *ehframe.Row) string {
	var b strings.Builder
	fmt.Fprintf(&b, "%d-%d", r.Start-textStart, r.End-textStart)
	switch r.CFA.Kind {
	case ehframe.CFARegister:
		fmt.Fprintf(&b, " cfa=r%d%+d", r.CFA.Reg, r.CFA.Offset)
	case ehframe.CFAExpression:
		fmt.Fprintf(&b, " cfa=exp[%x]", r.CFA.Expr)
	}
	for _, rule := range r.Registers {
		fmt.Fprintf(&b, " r%d=%s", rule.Number, formatRule(rule.Rule))
	}
	if r.ArgsSize != 0 {
		fmt.Fprintf(&b, " args=%d", r.ArgsSize)
	}
	if r.SignedRA {
		b.WriteString(" signed")
	}
	if r.SignedPC {
		b.WriteString(" with pc")
	}
	return b.String()
}

func formatRule(r ehframe.Rule) string {
	switch r.Kind {
	case ehframe.Register:
		return fmt.Sprintf("r%d", r.Reg)
	case ehframe.Expression:
		return fmt.Sprintf("exp[%x]", r.Expr)
	case ehframe.ValExpression:
		return fmt.Sprintf("vexp[%x]", r.Expr)
	case ehframe.Undefined:
		return "undefined"
	}
	return ruleCell(r)
}

// TestInstructions has one case for every call frame instruction. The expectations come from DWARF
// 5, 6.4.2, by hand.
func TestInstructions(t *testing.T) {
	asm := func() ehtest.Asm { return nil }
	for name, c := range map[string]struct {
		program ehtest.Asm
		want    []string
	}{
		"nothing": {asm(), []string{"0-256 cfa=r7+8 r16=c-8"}},
		"advance_loc": {asm().Op(ehtest.AdvanceLoc | 3).Op(ehtest.DefCFAOffset).Uleb(16),
			[]string{"0-3 cfa=r7+8 r16=c-8", "3-256 cfa=r7+16 r16=c-8"}},
		"advance_loc 0": {asm().Op(ehtest.AdvanceLoc).Op(ehtest.DefCFAOffset).Uleb(16),
			[]string{"0-256 cfa=r7+16 r16=c-8"}},
		"advance_loc1": {asm().Op(ehtest.AdvanceLoc1).Op(200).Op(ehtest.DefCFAOffset).Uleb(16),
			[]string{"0-200 cfa=r7+8 r16=c-8", "200-256 cfa=r7+16 r16=c-8"}},
		"advance_loc2": {asm().Op(ehtest.AdvanceLoc2).U16(255).Op(ehtest.DefCFAOffset).Uleb(16),
			[]string{"0-255 cfa=r7+8 r16=c-8", "255-256 cfa=r7+16 r16=c-8"}},
		"advance_loc4": {asm().Op(ehtest.AdvanceLoc4).U32(5).Op(ehtest.DefCFAOffset).Uleb(16),
			[]string{"0-5 cfa=r7+8 r16=c-8", "5-256 cfa=r7+16 r16=c-8"}},
		"advance_loc8": {asm().Op(ehtest.MIPSAdvanceLoc8).U64(6).Op(ehtest.DefCFAOffset).Uleb(16),
			[]string{"0-6 cfa=r7+8 r16=c-8", "6-256 cfa=r7+16 r16=c-8"}},
		"advance to end": {asm().Op(ehtest.AdvanceLoc2).U16(256).Op(ehtest.DefCFAOffset).Uleb(16),
			[]string{"0-256 cfa=r7+8 r16=c-8"}},
		"def_cfa":           {asm().Op(ehtest.DefCFA).Uleb(6).Uleb(300), []string{"0-256 cfa=r6+300 r16=c-8"}},
		"def_cfa_sf":        {asm().Op(ehtest.DefCFASF).Uleb(6).Sleb(-2), []string{"0-256 cfa=r6+16 r16=c-8"}},
		"def_cfa_register":  {asm().Op(ehtest.DefCFARegister).Uleb(6), []string{"0-256 cfa=r6+8 r16=c-8"}},
		"def_cfa_offset_sf": {asm().Op(ehtest.DefCFAOffsetSF).Sleb(3), []string{"0-256 cfa=r7-24 r16=c-8"}},
		"def_cfa_expression": {asm().Op(ehtest.DefCFAExpression).Block(asm().Op(0x77).Sleb(-8).Op(6)),
			[]string{"0-256 cfa=exp[777806] r16=c-8"}},
		"offset": {asm().Op(ehtest.OffsetReg | 6).Uleb(2),
			[]string{"0-256 cfa=r7+8 r6=c-16 r16=c-8"}},
		"offset_extended": {asm().Op(ehtest.OffsetExtended).Uleb(70).Uleb(2),
			[]string{"0-256 cfa=r7+8 r16=c-8 r70=c-16"}},
		"offset_extended_sf": {asm().Op(ehtest.OffsetExtendedSF).Uleb(6).Sleb(-2),
			[]string{"0-256 cfa=r7+8 r6=c+16 r16=c-8"}},
		"GNU_negative_offset_extended": {asm().Op(ehtest.GNUNegativeOffsetExtended).Uleb(6).Uleb(2),
			[]string{"0-256 cfa=r7+8 r6=c+16 r16=c-8"}},
		"val_offset": {asm().Op(ehtest.ValOffset).Uleb(6).Uleb(2),
			[]string{"0-256 cfa=r7+8 r6=v-16 r16=c-8"}},
		"val_offset_sf": {asm().Op(ehtest.ValOffsetSF).Uleb(6).Sleb(-2),
			[]string{"0-256 cfa=r7+8 r6=v+16 r16=c-8"}},
		"expression": {asm().Op(ehtest.Expression).Uleb(6).Block(asm().Op(0x76).Sleb(0)),
			[]string{"0-256 cfa=r7+8 r6=exp[7600] r16=c-8"}},
		"val_expression": {asm().Op(ehtest.ValExpression).Uleb(6).Block(asm().Op(0x76).Sleb(0)),
			[]string{"0-256 cfa=r7+8 r6=vexp[7600] r16=c-8"}},
		"register":   {asm().Op(ehtest.Register).Uleb(16).Uleb(5), []string{"0-256 cfa=r7+8 r16=r5"}},
		"undefined":  {asm().Op(ehtest.Undefined).Uleb(16), []string{"0-256 cfa=r7+8 r16=undefined"}},
		"same_value": {asm().Op(ehtest.SameValue).Uleb(3), []string{"0-256 cfa=r7+8 r3=s r16=c-8"}},
		"GNU_args_size": {asm().Op(ehtest.GNUArgsSize).Uleb(32),
			[]string{"0-256 cfa=r7+8 r16=c-8 args=32"}},
		"restore goes back to the CIE's rule": {asm().Op(ehtest.OffsetReg | 16).Uleb(3).Op(ehtest.AdvanceLoc | 1).
			Op(ehtest.RestoreReg | 16),
			[]string{"0-1 cfa=r7+8 r16=c-24", "1-256 cfa=r7+8 r16=c-8"}},
		"restore of a register that the CIE does not mention": {asm().Op(ehtest.OffsetReg | 6).Uleb(2).
			Op(ehtest.AdvanceLoc | 1).Op(ehtest.RestoreReg | 6),
			[]string{"0-1 cfa=r7+8 r6=c-16 r16=c-8", "1-256 cfa=r7+8 r16=c-8"}},
		"restore_extended": {asm().Op(ehtest.Undefined).Uleb(16).Op(ehtest.AdvanceLoc | 1).Op(ehtest.RestoreExtended).
			Uleb(16),
			[]string{"0-1 cfa=r7+8 r16=undefined", "1-256 cfa=r7+8 r16=c-8"}},
		"remember and restore nest": {
			asm().Op(ehtest.RememberState).Op(ehtest.DefCFAOffset).Uleb(16).
				Op(ehtest.RememberState).Op(ehtest.OffsetReg | 3).Uleb(2).Op(ehtest.DefCFA).Uleb(6).Uleb(24).
				Op(ehtest.AdvanceLoc | 1).Op(ehtest.RestoreState).
				Op(ehtest.AdvanceLoc | 1).Op(ehtest.RestoreState),
			[]string{"0-1 cfa=r6+24 r3=c-16 r16=c-8", "1-2 cfa=r7+16 r16=c-8", "2-256 cfa=r7+8 r16=c-8"}},
		"a remembered state may be restored again": {
			asm().Op(ehtest.RememberState).Op(ehtest.DefCFAOffset).Uleb(16).Op(ehtest.AdvanceLoc | 1).
				Op(ehtest.RestoreState).Op(ehtest.RememberState).Op(ehtest.AdvanceLoc | 1).Op(ehtest.DefCFAOffset).Uleb(24).
				Op(ehtest.AdvanceLoc | 1).Op(ehtest.RestoreState),
			[]string{"0-1 cfa=r7+16 r16=c-8", "1-2 cfa=r7+8 r16=c-8", "2-3 cfa=r7+24 r16=c-8",
				"3-256 cfa=r7+8 r16=c-8"}},
		"AARCH64_negate_ra_state": {asm().Op(ehtest.AArch64NegateRAState).Op(ehtest.AdvanceLoc | 4).
			Op(ehtest.AArch64NegateRAState),
			[]string{"0-4 cfa=r7+8 r16=c-8 signed", "4-256 cfa=r7+8 r16=c-8"}},
		"AARCH64_negate_ra_state_with_pc": {asm().Op(ehtest.AArch64NegateRAStatePC),
			[]string{"0-256 cfa=r7+8 r16=c-8 signed with pc"}},
		"set_loc": {asm().Op(ehtest.SetLoc).U32(setLoc(9)).Op(ehtest.DefCFAOffset).Uleb(16),
			[]string{"0-9 cfa=r7+8 r16=c-8", "9-256 cfa=r7+16 r16=c-8"}},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := rowsOf(t, ehtest.CIE{Augmentation: "zR", Program: initial()}, c.program)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(c.want, got); diff != "" {
				t.Errorf("rows (-want +got):\n%s", diff)
			}
		})
	}
}

// setLoc returns the operand, relative to its own address, of a set_loc that
// is the first instruction of the FDE that rowsOf assembles.
func setLoc(loc uint64) uint32 {
	frames := &ehtest.Frames{Addr: 0x500000}
	frames.CIE(ehtest.CIE{Augmentation: "zR", Program: initial()})
	operand := frames.Addr + uint64(len(frames.Bytes)) + 8 + 8 + 1 + 1
	return uint32(textStart + loc - operand)
}

func TestCodeAlignment(t *testing.T) {
	got, err := rowsOf(t, ehtest.CIE{Augmentation: "zR", CodeAlign: 4, Program: initial()},
		ehtest.Asm{}.Op(ehtest.AdvanceLoc|3).Op(ehtest.DefCFAOffset).Uleb(16))
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]string{"0-12 cfa=r7+8 r16=c-8", "12-256 cfa=r7+16 r16=c-8"}, got); diff != "" {
		t.Error(diff)
	}
}

// TestInvalidInstructions checks that rows before an invalid instruction are kept and that the
// error is of the right kind.
func TestInvalidInstructions(t *testing.T) {
	before := func() ehtest.Asm {
		return ehtest.Asm{}.Op(ehtest.AdvanceLoc | 1).Op(ehtest.DefCFAOffset).Uleb(16).Op(ehtest.AdvanceLoc | 1)
	}
	for name, c := range map[string]struct {
		program ehtest.Asm
		want    error
	}{
		"unknown":                  {before().Op(0x3f), ehframe.ErrUnsupported},
		"restore without remember": {before().Op(ehtest.RestoreState), ehframe.ErrInvalid},
		"expression too long":      {before().Op(ehtest.DefCFAExpression).Uleb(100), ehframe.ErrTruncated},
		"offset overflows": {before().Op(ehtest.OffsetExtended).Uleb(6).Uleb(math.MaxInt64),
			ehframe.ErrInvalid},
		"offset beyond int64": {before().Op(ehtest.DefCFAOffset).Uleb(math.MaxUint64), ehframe.ErrInvalid},
		"register too large":  {before().Op(ehtest.Undefined).Uleb(1 << 20), ehframe.ErrUnsupported},
		"set_loc goes back":   {before().Op(ehtest.SetLoc).U32(setLoc(0) - 4), ehframe.ErrInvalid},
		"location overflows":  {before().Op(ehtest.MIPSAdvanceLoc8).U64(math.MaxUint64), ehframe.ErrInvalid},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := rowsOf(t, ehtest.CIE{Augmentation: "zR", Program: initial()}, c.program)
			if !errors.Is(err, c.want) {
				t.Errorf("error %v, want %v", err, c.want)
			}
			if diff := cmp.Diff([]string{"0-1 cfa=r7+8 r16=c-8", "1-2 cfa=r7+16 r16=c-8"}, got); diff != "" {
				t.Errorf("rows (-want +got):\n%s", diff)
			}
		})
	}
}

// TestRememberIsBounded checks that the number of remembered states is limited.
func TestRememberIsBounded(t *testing.T) {
	program := ehtest.Asm(strings.Repeat(string(rune(ehtest.RememberState)), 1<<16))
	_, err := rowsOf(t, ehtest.CIE{Augmentation: "zR", Program: initial()}, program)
	if !errors.Is(err, ehframe.ErrUnsupported) {
		t.Errorf("error %v, want ErrUnsupported", err)
	}
}

// TestProgramIsReusable checks that one Program can be used with several CIEs, and that an invalid
// CIE does not break it.
func TestProgramIsReusable(t *testing.T) {
	frames := &ehtest.Frames{Addr: 0x500000}
	good := frames.CIE(ehtest.CIE{Augmentation: "zR", Program: initial()})
	bad := frames.CIE(ehtest.CIE{Augmentation: "zR", Program: ehtest.Asm{}.Op(ehtest.RestoreReg | 6)})
	offs := []uint64{frames.FDE(good, textStart, 256, nil), frames.FDE(bad, textStart, 256, nil),
		frames.FDE(good, textStart, 256, nil)}
	reader := ehframe.NewReader(frames.Section())
	var p ehframe.Program
	for i, off := range offs {
		fde, err := reader.FDE(off)
		if err != nil {
			t.Fatal(err)
		}
		var got []string
		err = p.Rows(&fde, func(r *ehframe.Row) bool { got = append(got, formatRow(r)); return true })
		if i == 1 {
			if !errors.Is(err, ehframe.ErrInvalid) || got != nil {
				t.Errorf("invalid CIE: rows %v, error %v", got, err)
			}
			continue
		}
		if diff := cmp.Diff([]string{"0-256 cfa=r7+8 r16=c-8"}, got); err != nil || diff != "" {
			t.Errorf("FDE %d: %v %s", i, err, diff)
		}
	}
}
