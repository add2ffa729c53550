package unwindtable

import (
	"bytes"
	"cmp"
	"debug/elf"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"testing"

	"github.com/headwater/headwater/ebpf/ehframe/ehtest"
	"github.com/headwater/headwater/ebpf/elffile"
	"github.com/headwater/headwater/ebpf/unwind"
	"github.com/headwater/headwater/ebpf/x86"
	"github.com/headwater/headwater/integration/testkit"
	"github.com/headwater/headwater/integration/testkit/need"
)

// analyzed is what rows by analysis say of the instructions of a file that call frame information speaks of.
type analyzed struct {
	same, none, wrong int
	fp                int // of same: the caller's frame pointer is said to be elsewhere
	other             int // by the other one of stack pointer and frame pointer
	examples          map[string]int
}

func (a analyzed) all() int { return a.same + a.none + a.wrong + a.other }

func (a analyzed) String() string {
	all := a.all()
	share := func(n int) float64 { return 100 * float64(n) / float64(max(all, 1)) }
	return fmt.Sprintf("%d instructions: %.3f %% alike (frame pointer elsewhere: %.3f %%), %.3f %% by the other, "+
		"%.2f %% without a row, %.4f %% (%d) wrong", all, share(a.same), share(a.fp), share(a.other), share(a.none),
		share(a.wrong), a.wrong)
}

// withoutFrames returns the rows of a file as if it had no call frame information.
func withoutFrames(t testing.TB, f *elffile.File) *Table {
	t.Helper()
	s := Sections{Machine: f.Machine(), Code: f.CodeRanges()}
	for _, text := range f.OpenText() {
		s.Text = append(s.Text, sectionOf(text))
	}
	table, err := FromSections(s)
	if err != nil {
		t.Fatal(err)
	}
	return table
}

// withoutCode returns the rows that call frame information alone states.
func withoutCode(t testing.TB, f *elffile.File) *Table {
	t.Helper()
	table, err := New(f)
	if err != nil {
		t.Fatal(err)
	}
	s := table.sections
	s.Text, s.Code = nil, nil
	if s.EHFrame == nil {
		s.Text = []*Section{{Data: bytes.NewReader(nil)}}
	}
	if table, err = FromSections(s); err != nil {
		t.Fatal(err)
	}
	return table
}

// compareAnalysis compares the rows of a file's code by analysis with those by its call frame information.
func compareAnalysis(t *testing.T, path string) (out analyzed) {
	f, err := elffile.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	stated, blind := withoutCode(t, f), withoutFrames(t, f)
	out.examples = map[string]int{}
	for _, text := range f.OpenText() {
		code := make([]byte, text.Size)
		if _, err := text.Data.ReadAt(code, 0); err != nil {
			t.Fatal(err)
		}
		segment := elffile.Segment{Vaddr: text.Addr, Memsz: text.Size}
		found := slices.Collect(func(yield func(Range) bool) {
			for r, err := range blind.Ranges(segment, unwind.MaxPageShift) {
				if err != nil {
					t.Fatal(err)
				}
				if !yield(r) {
					return
				}
			}
		})
		for r, err := range stated.Ranges(segment, unwind.MaxPageShift) {
			if err != nil {
				t.Fatal(err)
			}
			for at := r.Start; at < r.End; {
				in, ok := x86.Decode(code[at-text.Addr:])
				if !ok {
					break
				}
				for found[0].End <= at {
					found = found[1:]
				}
				if k := x86.StackEffect(&in).Kind; k != x86.Pad && k != x86.Trap {
					out.add(at, r.Rule, found[0].Rule)
				}
				at += uint64(in.Length)
			}
		}
	}
	return out
}

func (a *analyzed) add(at uint64, want, got unwind.WideRule) {
	bySP, byFP := want.CFA == unwind.CFASP, want.CFA == unwind.CFAFP
	switch {
	case !bySP && !byFP || want.RA() == unwind.RAUndefined:
	case got.CFA == unwind.CFANone:
		a.none++
	case got.CFA == want.CFA && got.CFAOff == want.CFAOff:
		a.same++
		// What has been popped is below the stack pointer, which compilers do not say.
		popped := want.FP() == unwind.FPAtCFA && bySP && -want.FPOff > want.CFAOff && got.FP() == unwind.FPSame
		if !popped && (got.FP() != want.FP() || got.FPOff != want.FPOff) {
			a.fp++
		}
	case bySP && got.CFA == unwind.CFAFP || byFP && got.CFA == unwind.CFASP:
		a.other++
	default:
		a.wrong++
		if len(a.examples) < 1<<16 {
			a.examples[fmt.Sprintf("%x stated %s found %s", at&^0x3f, want, got)]++
		}
	}
}

// programsToAnalyze are files of many kinds of code.
func programsToAnalyze(t testing.TB) (paths []string) {
	for _, name := range []string{"perl", "gawk", "busybox", "git", "python3", "php", "gdb", "node", "clang-19"} {
		path, err := exec.LookPath(name)
		if err != nil {
			t.Logf("%s is not installed", name)
			continue
		}
		if path, err = filepath.EvalSymlinks(path); err != nil {
			t.Fatal(err)
		}
		if e, err := elf.Open(path); err == nil && e.Machine == elf.EM_X86_64 {
			paths = append(paths, path)
			e.Close()
		}
	}
	return append(paths, ehtest.Files(t)...)
}

// maxWrong is the share of instructions whose row by analysis may lead to another frame than call frame information.
const maxWrong = 0.0001

// TestAnalysisOfPrograms takes the code of programs as if they had no call frame information. With
// HEADWATER_PROGRAMS=/path/to/one:/and/another it takes those.
func TestAnalysisOfPrograms(t *testing.T) {
	testkit.Nightly(t, "TestCallFrameInformation of package stackheight compares libraries")
	paths := programsToAnalyze(t)
	if list := os.Getenv("HEADWATER_PROGRAMS"); list != "" {
		paths = filepath.SplitList(list)
	}
	if len(paths) == 0 {
		need.Missing(t, "there is none of the programs")
	}
	for _, path := range paths {
		t.Run(filepath.Base(path), func(t *testing.T) {
			a := compareAnalysis(t, path)
			t.Log(a)
			most := slices.SortedFunc(maps.Keys(a.examples), func(x, y string) int {
				return cmp.Or(cmp.Compare(a.examples[y], a.examples[x]), cmp.Compare(x, y))
			})
			for _, e := range most[:min(len(most), 20)] {
				t.Logf("%d instructions around %s", a.examples[e], e)
			}
			if share := float64(a.wrong) / float64(max(a.all(), 1)); share > maxWrong {
				t.Errorf("%.4f %% of the instructions have a wrong row, at most %.2f %% may", 100*share, 100*maxWrong)
			}
		})
	}
}
