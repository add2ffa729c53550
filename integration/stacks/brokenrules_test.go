package stacks

import (
	"errors"
	"os/exec"
	"testing"

	"github.com/headwater/headwater/integration/testkit"
	"github.com/headwater/headwater/integration/testkit/need"
)

// brokenRule is a rule that is broken on purpose.
type brokenRule struct {
	name string
	mutation
}

// brokenRules break the code that makes unwind rows of call frame information. Each makes one
// of the rules of testdata/rules/everyrule.c wrong.
func brokenRules() []brokenRule {
	return []brokenRule{
		{"CFA offset", mutation{"ebpf/unwind/unwindtable/translate.go", "return fitInt32(&w.CFAOff, cfa.Offset)\n",
			"return fitInt32(&w.CFAOff, cfa.Offset+8)\n"}},
		{"rbp not saved", mutation{"ebpf/unwind/unwindtable/translate.go", "return unwind.FPAtCFA, fitInt32(&w.FPOff, off)",
			"return unwind.FPSame, fitInt32(new(int32), off)"}},
		{"restore does nothing", mutation{"ebpf/unwind/ehframe/program.go", "p.setRule(r, reg, p.initial.Rule(reg))",
			"_ = reg"}},
		{"remember does not nest", mutation{"ebpf/unwind/ehframe/program.go", "p.row.assign(&p.saved[p.depth])",
			"p.row.assign(&p.saved[0])"}},
		{"rows begin late", mutation{"ebpf/unwind/unwindtable/frames.go", "f.addAt(row.Start, f.span.rowOf(",
			"f.addAt(row.Start+1, f.span.rowOf("}},
		// At a call that ends a function, the rules of the next function would count.
		{"rows begin early", mutation{"ebpf/unwind/unwindtable/frames.go", "f.addAt(row.Start, f.span.rowOf(",
			"f.addAt(row.Start-1, f.span.rowOf("}},
		{"FDE ends early", mutation{"ebpf/unwind/ehframe/fde.go", "addAddress(f.Start, size, c.AddrSize)",
			"addAddress(f.Start, size/2, c.AddrSize)"}},
		{"page without its first FDE", mutation{"ebpf/unwind/unwindtable/frames.go",
			"for i := first; err == nil && i < f.index.Len()", "for i := first + 1; err == nil && i < f.index.Len()"}},
		{"PLT expression", mutation{"ebpf/unwind/unwindtable/x86.go", "w.CFA, w.CFAOff = unwind.CFAPLT, int32(threshold)",
			"w.CFA, w.CFAOff = unwind.CFASP, 8+0*int32(threshold)"}},
		{"register of a wide rule", mutation{"ebpf/unwind/unwindtable/translate.go",
			"w.CFA, w.Reg = unwind.CFAReg, uint8(cfa.Reg)", "w.CFA, w.Reg = unwind.CFAReg, uint8(cfa.Reg)+1"}},
		{"offset cut to 16 bits", mutation{"ebpf/unwind/row.go", "return r, r.widen() == w && w.CFA != CFAReg",
			"return r, w.CFA != CFAReg"}},
		{"neighbours taken for equal", mutation{"ebpf/unwind/row.go", "return r == o",
			"return r.CFA == o.CFA && r.CFAOff == o.CFAOff"}},
		{"signal frame", mutation{"ebpf/unwind/unwindtable/x86.go",
			"return unwind.WideRule{CFA: unwind.CFASignal, CFAOff: x86SignalSP}",
			"return unwind.WideRule{CFA: unwind.CFASignal, CFAOff: x86SignalSP + 8}"}},
		{"load bias", mutation{"ebpf/object/elffile/bias.go", "bias = mapStart - mapOffset - (p.Vaddr - p.Off)",
			"bias = mapStart - mapOffset - (p.Vaddr - p.Off) + 16"}},
	}
}

// TestBrokenRules builds the verifier with one rule broken after another. It detects each, and reports no error if no
// rule is broken.
func TestBrokenRules(t *testing.T) {
	testkit.Nightly(t, "TestVerify finds nothing in more programs with no rule broken; the rest tests the verifier")
	t.Parallel()
	need.Root(t)
	need.Tools(t, "gcc")
	const verifier = "./integration/stacks/testdata/verifier"
	workload := runs("hweveryrule", "rules/everyrule.c")(t, t.TempDir()).Path
	if code, text := judge(t, build(t, verifier), workload); code != 0 {
		t.Fatalf("exit code %d with nothing broken\n%s", code, text)
	}
	for _, b := range brokenRules() {
		t.Run(b.name, func(t *testing.T) {
			if code, text := judge(t, buildWith(t, verifier, &b.mutation), workload); code != 1 {
				t.Errorf("exit code %d, want 1: %q in %s is not noticed\n%s", code, b.to, b.file, text)
			}
		})
	}
}

// judge runs the verifier on the workload, with a tenth of a second of CPU time for each rule.
func judge(t *testing.T, verifier, workload string) (code int, text string) {
	t.Helper()
	out, err := urgent(t, exec.Command(verifier, workload, "0.1"))
	if exit := (*exec.ExitError)(nil); errors.As(err, &exit) {
		return exit.ExitCode(), out
	}
	if err != nil {
		t.Fatal(err)
	}
	return 0, out
}
