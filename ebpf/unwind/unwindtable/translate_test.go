package unwindtable

import (
	"bytes"
	"debug/elf"
	"testing"

	"github.com/headwater/headwater/ebpf/unwind"
	"github.com/headwater/headwater/ebpf/unwind/ehframe/ehtest"
)

const (
	amd64 = elf.EM_X86_64
	arm   = elf.EM_AARCH64
)

const (
	frameAddr = 0x500000
	hdrAddr   = 0x4f0000
	text      = 0x410000 // start of a page
)

func asm() ehtest.Asm { return nil }

func x86Initial() ehtest.Asm {
	return asm().Op(ehtest.DefCFA).Uleb(7).Uleb(8).Op(ehtest.OffsetReg | 16).Uleb(1)
}

func armInitial() ehtest.Asm { return asm().Op(ehtest.DefCFA).Uleb(31).Uleb(0) }

// assembled returns a Section of b.
func assembled(addr uint64, b []byte) *Section {
	return &Section{Addr: addr, Size: uint64(len(b)), Data: bytes.NewReader(b)}
}

// tableOf returns the table of the frames, with a search table.
func tableOf(t testing.TB, machine elf.Machine, f *ehtest.Frames) *Table {
	t.Helper()
	table, err := FromSections(Sections{
		Machine: machine, EHFrame: assembled(f.Addr, f.Bytes), EHFrameHdr: assembled(hdrAddr, f.Header(hdrAddr)),
	})
	if err != nil {
		t.Fatal(err)
	}
	return table
}

// ruleOf returns the rule after the instructions of the CIE and of an FDE.
func ruleOf(t *testing.T, machine elf.Machine, cie ehtest.CIE, program ehtest.Asm) unwind.WideRule {
	t.Helper()
	frames := &ehtest.Frames{Addr: frameAddr}
	frames.FDE(frames.CIE(cie), text, 64, program)
	page, err := tableOf(t, machine, frames).Page(text>>unwind.MaxPageShift, unwind.MaxPageShift)
	if err != nil {
		t.Fatal(err)
	}
	return page.Rule(text)
}

// Expression operators (DWARF 5, 7.7.1).
func breg(b ehtest.Asm, reg byte, off int64) ehtest.Asm { return b.Op(0x70 + reg).Sleb(off) }

// plt is the CFA expression of a .plt section.
func plt(threshold byte) ehtest.Asm {
	return breg(breg(asm(), 7, 8), 16, 0).
		Op(0x30 + 15).Op(0x1a).Op(0x30 + threshold).Op(0x2a).Op(0x33).Op(0x24).Op(0x22)
}

func TestTranslateX86(t *testing.T) {
	def := func(b ehtest.Asm, reg, off uint64) ehtest.Asm { return b.Op(ehtest.DefCFA).Uleb(reg).Uleb(off) }
	exp := func(e ehtest.Asm) ehtest.Asm { return asm().Op(ehtest.DefCFAExpression).Block(e) }
	regExp := func(b ehtest.Asm, reg uint64, e ehtest.Asm) ehtest.Asm {
		return b.Op(ehtest.Expression).Uleb(reg).Block(e)
	}
	for name, c := range map[string]struct {
		program ehtest.Asm
		want    string
	}{
		"rsp":             {def(asm(), 7, 16), "cfa=sp+16"},
		"rbp":             {def(asm(), 6, 16).Op(ehtest.OffsetReg | 6).Uleb(2), "cfa=fp+16 fp=*(cfa-16)"},
		"r10":             {def(asm(), 10, 0), "cfa=r10+0"},
		"rdi":             {def(asm(), 5, 0), "cfa=r5+0"},
		"xmm0":            {def(asm(), 17, 0), "unsupported: cfa_register"},
		"big frame":       {def(asm(), 7, 40000), "cfa=sp+40000"},
		"huge frame":      {def(asm(), 7, 3<<30+8), "cfa=sp+3221225480"},
		"huger frame":     {def(asm(), 7, 1<<35), "unsupported: offset_range"},
		"huge frame, odd": {def(asm(), 7, 1<<31+4), "unsupported: offset_range"},
		"DRAP": {regExp(exp(breg(asm(), 6, -8).Op(6)), 6, breg(asm(), 6, 0)),
			"cfa=*(fp-8)+0 fp=*(fp+0)"},
		"saved rsp":        {exp(breg(asm(), 7, 40).Op(6).Op(0x23).Uleb(8)), "cfa=*(sp+40)+8"},
		"saved rsp, odd":   {exp(breg(asm(), 7, 40).Op(6).Op(0x23).Uleb(4)), "unsupported: cfa_expression"},
		"plain expression": {exp(breg(asm(), 7, 24)), "cfa=sp+24"},
		"pointer in rax":   {exp(breg(asm(), 0, 24).Op(6)), "unsupported: cfa_expression"},
		"scaled": {exp(breg(breg(asm(), 7, 8), 9, 0).Op(0x38).Op(0x1e).Op(0x22).Op(6).Op(0x23).Uleb(8)),
			"cfa=*(sp+8*r9+8)+8"},
		"scaled by 4": {exp(breg(breg(asm(), 7, 8), 9, 0).Op(0x34).Op(0x1e).Op(0x22).Op(6).Op(0x23).Uleb(8)),
			"unsupported: cfa_expression"},
		"scaled, rbp in r9": {exp(breg(breg(asm(), 7, 8), 9,
			0).Op(0x38).Op(0x1e).Op(0x22).Op(6).Op(0x23).Uleb(8)).Op(ehtest.Register).Uleb(6).Uleb(9),
			"unsupported: fp_rule"},
		"classic PLT":          {exp(plt(11)), "cfa=sp+8+(pc&15>=11)*8"},
		"IBT PLT":              {exp(plt(9)), "cfa=sp+8+(pc&15>=9)*8"},
		"almost a PLT":         {exp(plt(11).Op(0x22)), "unsupported: cfa_expression"},
		"empty expression":     {exp(nil), "unsupported: cfa_expression"},
		"rbp same":             {asm().Op(ehtest.SameValue).Uleb(6), "cfa=sp+8"},
		"rbp undefined":        {asm().Op(ehtest.Undefined).Uleb(6), "cfa=sp+8 fp=undefined"},
		"rbp in r9":            {asm().Op(ehtest.Register).Uleb(6).Uleb(9), "cfa=sp+8 fp=r9"},
		"rbp in a slot of rsp": {regExp(def(asm(), 7, 32), 6, breg(asm(), 7, 8)), "cfa=sp+32 fp=*(cfa-24)"},
		"rbp a value":          {asm().Op(ehtest.ValOffset).Uleb(6).Uleb(2), "unsupported: fp_rule"},
		"rbp restored":         {asm().Op(ehtest.OffsetReg | 6).Uleb(2).Op(ehtest.RestoreReg | 6), "cfa=sp+8"},
		"outermost":            {asm().Op(ehtest.Undefined).Uleb(16), "cfa=sp+0 ra=undefined"},
		"vfork": {asm().Op(ehtest.DefCFAOffset).Uleb(0).Op(ehtest.Register).Uleb(16).Uleb(5),
			"cfa=sp+0 ra=r5"},
		"ra elsewhere":       {asm().Op(ehtest.OffsetReg | 16).Uleb(3), "cfa=sp+8 ra=*(cfa-24)"},
		"ra same":            {asm().Op(ehtest.SameValue).Uleb(16), "unsupported: ra_rule"},
		"rsp is the CFA":     {asm().Op(ehtest.ValOffset).Uleb(7).Uleb(0), "cfa=sp+8"},
		"rsp is not the CFA": {asm().Op(ehtest.Register).Uleb(7).Uleb(8), "unsupported: sp_rule"},
		"bad program":        {asm().Op(0x3f), "unsupported: bad_program"},
	} {
		t.Run(name, func(t *testing.T) {
			got := ruleOf(t, amd64, ehtest.CIE{Augmentation: "zR", Program: x86Initial()}, c.program).String()
			if got != c.want {
				t.Errorf("%s, want %s", got, c.want)
			}
		})
	}
}

func TestTranslateX86Signal(t *testing.T) {
	cie := ehtest.CIE{Augmentation: "zRS"}
	restorer := func(rbp int64) ehtest.Asm {
		b := asm().Op(ehtest.DefCFAExpression).Block(breg(asm(), 7, 160).Op(6))
		b = b.Op(ehtest.Expression).Uleb(6).Block(breg(asm(), 7, rbp))
		b = b.Op(ehtest.Expression).Uleb(7).Block(breg(asm(), 7, 160))
		return b.Op(ehtest.Expression).Uleb(16).Block(breg(asm(), 7, 168))
	}
	if got := ruleOf(t, amd64, cie, restorer(120)).String(); got != "signal frame, sp at sp+160" {
		t.Error(got)
	}
	if got := ruleOf(t, amd64, cie, restorer(128)).String(); got != "unsupported: signal_frame" {
		t.Errorf("another layout: %s", got)
	}
}

// TestTranslateOCaml: OCaml 5 marks the frames of functions that switch stacks as signal frames. The expressions are
// from caml_c_call, caml_start_program and caml_runstack.
func TestTranslateOCaml(t *testing.T) {
	const deref, plus = 0x06, 0x23
	expression := func(b ehtest.Asm) ehtest.Asm { return asm().Op(ehtest.DefCFAExpression).Block(b) }
	for want, program := range map[string]ehtest.Asm{
		"cfa=sp+8":                    nil,
		"cfa=*(sp+8)+8":               expression(breg(asm(), 7, 8).Op(deref).Op(plus).Uleb(8)),
		"cfa=*(sp+16)+80":             expression(breg(asm(), 7, 16).Op(deref).Op(plus).Uleb(80)),
		"cfa=*(*(sp+56)+0)+8":         expression(breg(asm(), 7, 56).Op(deref).Op(plus).Uleb(0).Op(deref).Op(plus).Uleb(8)),
		"cfa=*(*(sp-8)+16)+0":         expression(breg(asm(), 7, -8).Op(deref).Op(plus).Uleb(16).Op(deref)),
		"unsupported: cfa_expression": expression(breg(asm(), 7, 8).Op(deref).Op(plus).Uleb(4).Op(deref)),
	} {
		cie := ehtest.CIE{Augmentation: "zRS", Program: x86Initial()}
		if got := ruleOf(t, amd64, cie, program).String(); got != want {
			t.Errorf("%s, want %s", got, want)
		}
	}
}

func TestTranslateMissingRules(t *testing.T) {
	if got := ruleOf(t, amd64, ehtest.CIE{Augmentation: "zR"}, nil).String(); got != "unsupported: ra_missing" {
		t.Error(got)
	}
	onlyRA := asm().Op(ehtest.OffsetReg | 16).Uleb(1)
	if got := ruleOf(t, amd64, ehtest.CIE{Augmentation: "zR", Program: onlyRA},
		nil).String(); got != "unsupported: cfa_missing" {
		t.Error(got)
	}
}

func TestTranslateAArch64(t *testing.T) {
	cfa := func(off uint64) ehtest.Asm { return asm().Op(ehtest.DefCFAOffset).Uleb(off) }
	save := func(b ehtest.Asm, reg byte, n uint64) ehtest.Asm { return b.Op(ehtest.OffsetReg | reg).Uleb(n) }
	for name, c := range map[string]struct {
		program ehtest.Asm
		want    string
	}{
		"leaf": {nil, "cfa=sp+0 ra=lr"},
		"pair": {save(save(cfa(32), 29, 4), 30, 3), "cfa=sp+32 fp=*(cfa-32)"},
		"pair, by x29": {save(save(asm().Op(ehtest.DefCFA).Uleb(29).Uleb(32), 29, 4), 30, 3),
			"cfa=fp+32 fp=*(cfa-32)"},
		"not a pair": {save(save(cfa(32), 29, 4), 30, 1), "cfa=sp+32 fp=*(cfa-32) ra=*(cfa-8)"},
		"x29 alone":  {save(cfa(32), 29, 4), "cfa=sp+32 fp=*(cfa-32) ra=lr"},
		"big frame":  {save(save(cfa(40000), 29, 5000), 30, 4999), "cfa=sp+40000 fp=*(cfa-40000)"},
		"signed": {save(save(cfa(16).Op(ehtest.AArch64NegateRAState), 29, 2), 30, 1),
			"cfa=sp+16 fp=*(cfa-16)"},
		"outermost": {asm().Op(ehtest.Undefined).Uleb(30), "cfa=sp+0 ra=undefined"},
		"ra in x0":  {asm().Op(ehtest.Register).Uleb(30).Uleb(0), "cfa=sp+0 ra=r0"},
		"CFA by x9": {asm().Op(ehtest.DefCFA).Uleb(9).Uleb(16), "cfa=r9+16 ra=lr"},
		"CFA by expression": {asm().Op(ehtest.DefCFAExpression).Block(breg(asm(), 31, 0)),
			"unsupported: cfa_expression"},
	} {
		t.Run(name, func(t *testing.T) {
			got := ruleOf(t, arm, ehtest.CIE{Augmentation: "zR", CodeAlign: 4, Return: 30, Program: armInitial()},
				c.program).String()
			if got != c.want {
				t.Errorf("%s, want %s", got, c.want)
			}
		})
	}
	// only x30 is saved: the rule stays narrow with FPOff 8 below the slot.
	got := ruleOf(t, arm, ehtest.CIE{Augmentation: "zR", Return: 30, Program: armInitial()}, save(cfa(16), 30, 2))
	if want := (unwind.WideRule{CFA: unwind.CFASP, CFAOff: 16, FPOff: -24}); got != want {
		t.Errorf("x30 alone: %+v, want %+v", got, want)
	}
	signals := ehtest.CIE{Augmentation: "zRS", Return: 30, Program: armInitial()}
	if got := ruleOf(t, arm, signals, asm().Op(ehtest.DefCFA).Uleb(29).Uleb(0)); got.CFA != unwind.CFASignal ||
		got.CFAOff != 560 {
		t.Errorf("signal frame: %s", got)
	}
	if got := ruleOf(t, arm, signals, save(save(cfa(16), 29, 2), 30, 1)).String(); got != "cfa=sp+16 fp=*(cfa-16)" {
		t.Errorf("signal frame of a called function: %s", got)
	}
}
