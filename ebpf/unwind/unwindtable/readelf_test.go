package unwindtable

import (
	"debug/elf"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/headwater/headwater/ebpf/object/elffile"
	"github.com/headwater/headwater/ebpf/unwind"
	"github.com/headwater/headwater/ebpf/unwind/ehframe/ehtest"
	"github.com/headwater/headwater/integration/testkit/need"
)

func openTable(t testing.TB, path string) *Table {
	t.Helper()
	f, err := elffile.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { f.Close() })
	table, err := New(f)
	if err != nil {
		t.Fatal(err)
	}
	return table
}

// pages builds the pages of one table once.
type pages struct {
	t     testing.TB
	table *Table
	built map[uint64]*unwind.Page
}

func (p *pages) rule(vaddr uint64) unwind.WideRule {
	p.t.Helper()
	n := vaddr >> unwind.MinPageShift
	if p.built[n] == nil {
		page, err := p.table.Page(n, unwind.MinPageShift)
		if err != nil {
			p.t.Fatal(err)
		}
		p.built[n] = page
	}
	return p.built[n].Rule(vaddr)
}

// TestReadelf compares the rule at the first and last byte of every row of readelf, including page
// borders and gaps.
func TestReadelf(t *testing.T) {
	for _, path := range ehtest.Files(t) {
		t.Run(filepath.Base(path), func(t *testing.T) { compareFile(t, path) })
	}
}

// TestReadelfLarge does the same with the largest available files.
func TestReadelfLarge(t *testing.T) {
	for name, path := range ehtest.LargeFiles(t) {
		t.Run(name, func(t *testing.T) {
			if path == "" {
				need.Missing(t, "%s is not installed", name)
			}
			compareFile(t, path)
		})
	}
}

// maxUnsupported is the maximum share of text with call frame information that may have no rule for
// one reason.
const maxUnsupported = 0.0005

func compareFile(t *testing.T, path string) {
	p := &pages{t, openTable(t, path), make(map[uint64]*unwind.Page)}
	tally := make(map[string]int)
	var spans []ehtest.FDE // without rows
	covered := uint64(0)
	ehtest.EachFDE(t, path, ".eh_frame", func(fde *ehtest.FDE) {
		compareFDE(t, p, fde, tally)
		spans = append(spans, ehtest.FDE{Start: fde.Start, End: fde.End})
		covered += fde.End - fde.Start
	})
	checkGaps(t, p, spans)
	checkPages(t, p)
	unsupported := make(map[unwind.Reason]int)
	for _, page := range p.built {
		for reason, n := range page.Unsupported {
			unsupported[reason] += n
		}
	}
	for reason, n := range unsupported {
		share := float64(n) / float64(covered)
		t.Logf("%s: %d bytes of text, %.4f %%", reason, n, 100*share)
		if share > maxUnsupported {
			t.Errorf("%s: %.3f %% of the text, want at most %.3f", reason, 100*share, 100*maxUnsupported)
		}
	}
	t.Logf("%d FDEs, %d bytes, %v", len(spans), covered, tally)
}

func compareFDE(t *testing.T, p *pages, fde *ehtest.FDE, tally map[string]int) {
	t.Helper()
	if len(fde.Rows) == 0 && fde.Start < fde.End { // the CIE's rules, which readelf does not repeat
		if got := p.rule(fde.Start); got.CFA == unwind.CFANone || got != p.rule(fde.End-1) {
			t.Fatalf("pc %#x: %s", fde.Start, got)
		}
	}
	for i, row := range fde.Rows {
		end := fde.End
		if i+1 < len(fde.Rows) {
			end = fde.Rows[i+1].Loc
		}
		if row.Loc >= fde.End { // GCC sometimes emits a rule for empty text
			break
		}
		want := expected(fde, row)
		if rbx := fde.Cell(row, "rbx"); p.table.sections.Loader && strings.HasPrefix(rbx, "c") &&
			fde.Cell(row, "ra") == "c-8" && strings.HasPrefix(want, "cfa=") {
			want += " rbx=*(cfa" + rbx[1:] + ")"
		}
		compareRule(t, p, row.Loc, end-1, want, tally)
	}
}

func compareRule(t *testing.T, p *pages, first, last uint64, want string, tally map[string]int) {
	t.Helper()
	for _, pc := range []uint64{first, last} {
		got := p.rule(pc).String()
		if want == "" { // expressions: readelf does not show them here
			if !strings.HasPrefix(got, "cfa=sp+8+(pc&15>=1") && !strings.HasPrefix(got, "signal frame, sp at sp+160") &&
				!strings.HasPrefix(got, "cfa=*(") && !strings.Contains(got, "fp=*(fp") &&
				got != "unsupported: cfa_expression" {
				t.Fatalf("pc %#x: %s for a CFA expression", pc, got)
			}
			continue
		}
		if got != want {
			t.Fatalf("pc %#x: %s, readelf says %s", pc, got, want)
		}
	}
	tally["rows"]++
	switch got := p.rule(first); {
	case got.CFA == unwind.CFAUnsupported:
		tally[got.String()]++
	case want == "":
		tally[fmt.Sprintf("expression of kind %d", got.CFA)]++
	}
}

// dwarf maps readelf's names of the x86-64 registers to DWARF numbers.
var dwarf = map[string]int{"rax": 0, "rdx": 1, "rcx": 2, "rbx": 3, "rsi": 4, "rdi": 5, "rbp": 6, "rsp": 7,
	"r8": 8, "r9": 9, "r10": 10, "r11": 11, "r12": 12, "r13": 13, "r14": 14, "r15": 15}

// expected returns the rule for readelf's row, "" if it requires evaluating an expression.
func expected(fde *ehtest.FDE, row ehtest.Row) string {
	cfa, rbp, rsp, ra := fde.Cell(row, "CFA"), fde.Cell(row, "rbp"), fde.Cell(row, "rsp"), fde.Cell(row, "ra")
	if ra == "u" {
		return "cfa=sp+0 ra=undefined"
	}
	if cfa == "exp" || rbp == "exp" {
		return ""
	}
	if rsp != "" && rsp != "u" {
		return "unsupported: sp_rule"
	}
	base, off := cfa[:strings.IndexAny(cfa, "+-")], cfa[strings.IndexAny(cfa, "+-"):]
	switch base {
	case "rsp", "rbp":
		base = base[1:]
		if base == "bp" {
			base = "fp"
		}
	default:
		base = fmt.Sprintf("r%d", dwarf[base])
	}
	rule := "cfa=" + base + off
	switch {
	case rbp == "" || rbp == "u":
	case strings.HasPrefix(rbp, "c"):
		rule += " fp=*(cfa" + rbp[1:] + ")"
	default:
		rule += fmt.Sprintf(" fp=r%d", dwarf[rbp])
	}
	switch {
	case ra == "c-8":
	case strings.HasPrefix(ra, "c"):
		rule += " ra=*(cfa" + ra[1:] + ")"
	default:
		rule += fmt.Sprintf(" ra=r%d", dwarf[ra])
	}
	return rule
}

// checkGaps checks that there is no rule between FDEs, except for the byte after a signal
// trampoline.
func checkGaps(t *testing.T, p *pages, fdes []ehtest.FDE) {
	t.Helper()
	starts, gaps := make(map[uint64]bool), 0
	for _, f := range fdes {
		starts[f.Start] = true
	}
	for _, f := range fdes {
		if starts[f.End] {
			continue
		}
		gaps++
		byAnalysis := p.built[f.End>>unwind.MinPageShift] != nil && p.built[f.End>>unwind.MinPageShift].ByAnalysis > 0
		if got := p.rule(f.End); got.CFA != unwind.CFANone && !byAnalysis && got.RA() != unwind.RAClone &&
			(got.CFA != unwind.CFASignal || p.rule(f.End-1) != got) {
			t.Fatalf("pc %#x, after an FDE: %s", f.End, got)
		}
	}
	t.Logf("%d gaps", gaps)
}

// checkPages checks the invariants of every page.
func checkPages(t *testing.T, p *pages) {
	t.Helper()
	for n, page := range p.built {
		if page.Number != n {
			t.Fatalf("page %#x is taken for page %#x", page.Number, n)
		}
		if len(page.Rows) > 0 && page.Address(page.Rows[0]) != page.Start() {
			t.Fatalf("page %#x does not begin at its beginning", n)
		}
		for i := 1; i < len(page.Rows); i++ {
			a, b := page.Rows[i-1], page.Rows[i]
			if a.Off >= b.Off || a.SameRule(b) {
				t.Fatalf("page %#x: rows %v and %v", n, a, b)
			}
		}
		if words := page.Words(); len(words) != len(page.Rows)+2*len(page.Wide) {
			t.Fatalf("page %#x: %d words", n, len(words))
		}
	}
}

// TestStart checks that the entry point is the outermost frame.
func TestStart(t *testing.T) {
	for _, path := range []string{"/bin/bash", "/usr/bin/fio"} {
		f, err := elf.Open(path)
		if errors.Is(err, os.ErrNotExist) {
			continue
		}
		if err != nil {
			t.Fatal(err)
		}
		defer f.Close()
		p := &pages{t, openTable(t, path), make(map[uint64]*unwind.Page)}
		if got := p.rule(f.Entry); got.RA() != unwind.RAUndefined {
			t.Errorf("%s: _start: %s", path, got)
		}
	}
}

func TestNoUnwindInfo(t *testing.T) {
	if _, err := FromSections(Sections{Machine: 62}); !errors.Is(err, ErrNoUnwindInfo) {
		t.Errorf("error %v, want ErrNoUnwindInfo", err)
	}
	if _, err := FromSections(Sections{Machine: 8, EHFrame: &Section{}}); !errors.Is(err, ErrMachine) {
		t.Errorf("error %v, want ErrMachine", err)
	}
}
