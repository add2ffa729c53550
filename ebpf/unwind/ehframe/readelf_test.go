package ehframe_test

import (
	"debug/elf"
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"strings"
	"testing"

	"github.com/headwater/headwater/ebpf/unwind/ehframe"
	"github.com/headwater/headwater/ebpf/unwind/ehframe/ehtest"
)

// x86Names is readelf's names of the x86-64 registers by DWARF number.
var x86Names = strings.Fields("rax rdx rcx rbx rsi rdi rbp rsp r8 r9 r10 r11 r12 r13 r14 r15 ra")

func sectionOf(t testing.TB, f *elf.File, name string) *ehframe.Section {
	t.Helper()
	s := f.Section(name)
	if s == nil {
		t.Fatalf("no section %s", name)
	}
	data, err := s.Data()
	if err != nil {
		t.Fatal(err)
	}
	return &ehframe.Section{
		Source: ehframe.Bytes(data), Size: uint64(len(data)), Addr: s.Addr,
		Order: binary.LittleEndian, AddrSize: 8,
	}
}

func openELF(t testing.TB, path string) *elf.File {
	t.Helper()
	f, err := elf.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { f.Close() })
	return f
}

// TestReadelf compares every row of every FDE with readelf's, and looks up every FDE through the
// binary search table and through a scanned index.
func TestReadelf(t *testing.T) {
	for _, path := range ehtest.Files(t) {
		t.Run(filepath.Base(path), func(t *testing.T) {
			f, fdes := openELF(t, path), ehtest.Interp(t, path, ".eh_frame")
			frame := sectionOf(t, f, ".eh_frame")
			compareFDEs(t, ehframe.NewReader(frame), fdes)
			lookUpFDEs(t, sectionOf(t, f, ".eh_frame_hdr"), frame, fdes)
		})
	}
}

func compareFDEs(t *testing.T, reader *ehframe.Reader, fdes []ehtest.FDE) {
	t.Helper()
	var program ehframe.Program
	rows := 0
	for _, want := range fdes {
		fde, err := reader.FDE(want.Offset)
		if err != nil {
			t.Fatal(err)
		}
		if fde.Start != want.Start || fde.End != want.End {
			t.Fatalf("FDE %#x is about %#x-%#x, readelf says %#x-%#x", want.Offset, fde.Start, fde.End, want.Start,
				want.End)
		}
		rows += compareRows(t, &program, &fde, want)
	}
	t.Logf("%d FDEs, %d rows equal", len(fdes), rows)
}

func compareRows(t *testing.T, program *ehframe.Program, fde *ehframe.FDE, want ehtest.FDE) int {
	t.Helper()
	i := 0
	err := program.Rows(fde, func(got *ehframe.Row) bool {
		if len(want.Rows) == 0 { // readelf prints no rows if the FDE adds none to its CIE
			return true
		}
		if i >= len(want.Rows) {
			t.Fatalf("FDE %#x: row at %#x that readelf does not have", want.Offset, got.Start)
		}
		w := want.Rows[i]
		if got.Start != w.Loc {
			t.Fatalf("FDE %#x: row at %#x, readelf has it at %#x", want.Offset, got.Start, w.Loc)
		}
		for c, cell := range w.Cells {
			if g := cellOf(got, want.Columns[c]); g != cell {
				t.Fatalf("FDE %#x row %#x column %s: %s, readelf says %s", want.Offset, got.Start, want.Columns[c], g,
					cell)
			}
		}
		i++
		return true
	})
	if err != nil {
		t.Fatal(err)
	}
	if i != len(want.Rows) {
		t.Fatalf("FDE %#x: %d rows, readelf has %d", want.Offset, i, len(want.Rows))
	}
	return i
}

// cellOf formats one rule of row as readelf does.
func cellOf(row *ehframe.Row, column string) string {
	if column == "CFA" {
		if row.CFA.Kind == ehframe.CFAExpression {
			return "exp"
		}
		return fmt.Sprintf("%s%+d", x86Names[row.CFA.Reg], row.CFA.Offset)
	}
	for number, name := range x86Names {
		if name == column {
			return ruleCell(row.Rule(uint16(number)))
		}
	}
	return "no such register: " + column
}

func ruleCell(r ehframe.Rule) string {
	switch r.Kind {
	case ehframe.Unspecified, ehframe.Undefined:
		return "u"
	case ehframe.SameValue:
		return "s"
	case ehframe.Offset:
		return fmt.Sprintf("c%+d", r.Offset)
	case ehframe.ValOffset:
		return fmt.Sprintf("v%+d", r.Offset)
	case ehframe.Register:
		return x86Names[r.Reg]
	case ehframe.Expression:
		return "exp"
	case ehframe.ValExpression:
		return "vexp"
	}
	return "unknown rule"
}

// lookUpFDEs looks up every FDE by the first and last byte of its text.
func lookUpFDEs(t *testing.T, hdr, frame *ehframe.Section, fdes []ehtest.FDE) {
	t.Helper()
	header, err := ehframe.ParseHeader(hdr)
	if err != nil {
		t.Fatal(err)
	}
	if header.EHFrame != frame.Addr {
		t.Fatalf(".eh_frame at %#x, the header says %#x", frame.Addr, header.EHFrame)
	}
	scanned, bad := ehframe.Scan(frame)
	if bad != 0 {
		t.Errorf("%d FDEs could not be read", bad)
	}
	reader := ehframe.NewReader(frame)
	for _, want := range fdes {
		if want.Start == want.End {
			continue
		}
		for _, pc := range []uint64{want.Start, want.End - 1} {
			lookUp(t, "header", header, reader, pc, want.Offset)
			lookUp(t, "scanned", scanned, reader, pc, want.Offset)
		}
	}
	random := rand.New(rand.NewPCG(1, 2)) // the previous result does not predict the next address
	for range 4 * len(fdes) {
		if want := fdes[random.IntN(len(fdes))]; want.Start != want.End {
			lookUp(t, "header", header, reader, want.Start+random.Uint64N(want.End-want.Start), want.Offset)
		}
	}
}

func lookUp(t *testing.T, name string, index ehframe.Index, reader *ehframe.Reader, pc, want uint64) {
	t.Helper()
	i, err := ehframe.Find(index, pc)
	if err != nil || i < 0 {
		t.Fatalf("%s: pc %#x: entry %d, %v", name, pc, i, err)
	}
	_, off, err := index.Entry(i)
	if err != nil {
		t.Fatal(err)
	}
	fde, err := reader.FDE(off)
	if err != nil || !fde.Contains(pc) {
		t.Fatalf("%s: pc %#x: FDE %#x is about %#x-%#x, %v", name, pc, off, fde.Start, fde.End, err)
	}
	if off != want {
		t.Fatalf("%s: pc %#x: FDE %#x, readelf says %#x", name, pc, off, want)
	}
}
