package reference

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/headwater/headwater/ebpf/unwind/ehframe/ehtest"
	"github.com/headwater/headwater/integration/testkit/need"
)

// x86Names maps readelf's names of the x86-64 registers to DWARF numbers.
var x86Names = strings.Fields("rax rdx rcx rbx rsi rdi rbp rsp r8 r9 r10 r11 r12 r13 r14 r15 ra")

// TestReadelf compares every row of every FDE with the output of readelf.
func TestReadelf(t *testing.T) {
	files := map[string]string{}
	for _, path := range ehtest.Files(t) {
		files[path] = ".eh_frame"
	}
	files[debugFrameProgram(t)] = ".debug_frame"
	for path, name := range files {
		t.Run(filepath.Base(path), func(t *testing.T) {
			source, err := os.Open(path)
			if err != nil {
				t.Fatal(err)
			}
			f := &File{Path: path, source: source, file: source}
			defer f.close()
			if err := f.loadOnce(); err != nil {
				t.Fatal(err)
			}
			s := f.section(name)
			if s == nil {
				t.Fatalf("no %s", name)
			}
			compare(t, s, ehtest.Interp(t, path, name))
		})
	}
}

// debugFrameProgram builds a program with .debug_frame.
func debugFrameProgram(t *testing.T) string {
	t.Helper()
	need.Tools(t, "gcc")
	path := filepath.Join(t.TempDir(), "program")
	cmd := exec.Command("gcc", "-g", "-O2", "-fno-asynchronous-unwind-tables", "-o", path, "-x", "c", "-")
	cmd.Stdin = strings.NewReader("#include <stdio.h>\nint twice(int n) { return printf(\"%d\", n) + n; }\n" +
		"int main(int n, char **v) { return twice(n) + twice(n + 1); }\n")
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%v: %v\n%s", cmd, err, out)
	}
	return path
}

// section returns the section with a name.
func (f *File) section(name string) *section {
	for _, frames := range f.frames {
		if frames.section.debug == (name == ".debug_frame") {
			return frames.section
		}
	}
	return nil
}

func compare(t *testing.T, s *section, want []ehtest.FDE) {
	t.Helper()
	got, err := s.entries()
	if err != nil {
		t.Fatal(err)
	}
	if len(got) != len(want) || len(got) == 0 {
		t.Fatalf("%d FDEs, readelf has %d", len(got), len(want))
	}
	compared := 0
	for i, w := range want {
		g := got[i]
		if g.offset != w.Offset || g.start != w.Start || g.end != w.End {
			t.Fatalf("FDE at %#x is about %#x-%#x, readelf has one at %#x about %#x-%#x", g.offset, g.start, g.end, w.Offset,
				w.Start, w.End)
		}
		rows, err := s.rowsOf(&g)
		if err != nil {
			t.Fatalf("FDE at %#x: %v", g.offset, err)
		}
		compared += compareRows(t, rows, w)
	}
	t.Logf("%d FDEs, %d rows equal", len(got), compared)
}

// compareRows compares the rows of one FDE. readelf prints no row if the FDE does not change the rules of its CIE, and
// one row for each address.
func compareRows(t *testing.T, rows []row, want ehtest.FDE) int {
	t.Helper()
	for _, w := range want.Rows {
		for len(rows) > 1 && rows[1].start <= w.Loc {
			rows = rows[1:]
		}
		if rows[0].start != w.Loc {
			t.Fatalf("FDE at %#x has no row at %#x, as readelf has", want.Offset, w.Loc)
		}
		for c, cell := range w.Cells {
			if got := cellOf(rows[0], want.Columns[c]); got != cell {
				t.Fatalf("FDE at %#x, row at %#x, %s: %s, readelf has %s", want.Offset, w.Loc, want.Columns[c], got, cell)
			}
		}
	}
	if len(want.Rows) > 0 && len(rows) != 1 {
		t.Fatalf("FDE at %#x: %d rows behind the last one that readelf has", want.Offset, len(rows)-1)
	}
	return len(want.Rows)
}

// cellOf returns a rule in readelf's form.
func cellOf(r row, column string) string {
	if column == "CFA" {
		if r.cfa.kind == valExpression {
			return "exp"
		}
		return fmt.Sprintf("%s%+d", x86Names[r.cfa.register], r.cfa.offset)
	}
	for number, name := range x86Names {
		if name != column {
			continue
		}
		switch rule := r.registers[uint64(number)]; rule.kind {
		case unspecified, undefined:
			return "u"
		case sameValue:
			return "s"
		case atOffset:
			return fmt.Sprintf("c%+d", rule.offset)
		case valOffset:
			return fmt.Sprintf("v%+d", rule.offset)
		case inRegister:
			return x86Names[rule.register]
		case atExpression:
			return "exp"
		case valExpression:
			return "vexp"
		}
	}
	return "no such register: " + column
}
