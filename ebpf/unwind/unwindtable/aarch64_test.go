package unwindtable

import (
	"bytes"
	"debug/elf"
	"encoding/binary"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/headwater/headwater/ebpf/unwind"
	"github.com/headwater/headwater/ebpf/unwind/ehframe/ehtest"
	"github.com/headwater/headwater/integration/testkit/need"
)

// aarch64Source contains the kinds of frames that C compiles to.
const aarch64Source = `
int other(int *p, ...);
int leaf(int a) { return a + 1; }
int frame(int a) { return other(&a, a) + 1; }
int dynamic(int n) { int v[n]; return other(v, n) + 1; }
int big(int n) { int v[100000]; return other(v, n) + n; }
int many(int *p) { int s = 0; for (int i = 0; i < 9; i++) s += other(p, i) * p[s]; return s; }
int leaf_with_frame(int n) { volatile int v[200]; for (int i = 0; i < n; i++) v[i % 200] = i; return v[n % 200]; }
int varargs(int n, ...)
{
	__builtin_va_list l;
	__builtin_va_start(l, n);
	int r = __builtin_va_arg(l, int);
	__builtin_va_end(l);
	return other(&r, r);
}
__attribute__((noreturn)) void stop(int n) { other(&n); for (;;); }
`

// TestReadelfAArch64 compiles C for arm64 and compares the rules with
// readelf's rows: frames with and without frame pointer, signed return
// addresses.
func TestReadelfAArch64(t *testing.T) {
	need.Tools(t, "clang-19")
	for _, flags := range []string{"-O2", "-O0", "-O2 -fomit-frame-pointer", "-O2 -mbranch-protection=pac-ret+leaf",
		"-O2 -mbranch-protection=pac-ret+b-key"} {
		t.Run(flags, func(t *testing.T) {
			dir := t.TempDir()
			source, object := filepath.Join(dir, "a.c"), filepath.Join(dir, "a.o")
			if err := os.WriteFile(source, []byte(aarch64Source), 0o600); err != nil {
				t.Fatal(err)
			}
			args := append(strings.Fields(flags), "--target=aarch64-linux-gnu", "-funwind-tables", "-c", "-o", object,
				source)
			if out, err := exec.Command("clang-19", args...).CombinedOutput(); err != nil {
				t.Fatalf("clang: %v\n%s", err, out)
			}
			table, err := FromSections(Sections{Machine: arm, EHFrame: linked(t, object)})
			if err != nil {
				t.Fatal(err)
			}
			p := &pages{t, table, make(map[uint64]*unwind.Page)}
			fdes := ehtest.Interp(t, object, ".eh_frame")
			rows := 0
			for i := range fdes {
				rows += compareAArch64(t, p, &fdes[i])
			}
			t.Logf("%d FDEs, %d rows", len(fdes), rows)
		})
	}
}

// TestReadelfLargeAArch64 compares the tables of Debian's libraries for arm64.
func TestReadelfLargeAArch64(t *testing.T) {
	for name, path := range ehtest.AArch64Files(t) {
		t.Run(name, func(t *testing.T) {
			if path == "" {
				need.Missing(t, "%s is not installed: packages libc6-arm64-cross and libstdc++6-arm64-cross", name)
			}
			p := &pages{t, openTable(t, path), make(map[uint64]*unwind.Page)}
			fdes, rows := 0, 0
			ehtest.EachFDE(t, path, ".eh_frame", func(fde *ehtest.FDE) {
				rows += compareAArch64(t, p, fde)
				fdes++
			})
			checkPages(t, p)
			t.Logf("%d FDEs, %d rows", fdes, rows)
		})
	}
}

// linked returns .eh_frame of an object file with the text at address 0, after resolving
// R_AARCH64_PREL32 relocations against .text.
func linked(t *testing.T, object string) *Section {
	t.Helper()
	const addr = 0x1000000
	f, err := elf.Open(object)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	data, err := f.Section(".eh_frame").Data()
	if err != nil {
		t.Fatal(err)
	}
	relocations, err := f.Section(".rela.eh_frame").Data()
	if err != nil {
		t.Fatal(err)
	}
	symbols, err := f.Symbols()
	if err != nil {
		t.Fatal(err)
	}
	for r := bytes.NewReader(relocations); r.Len() > 0; {
		var rela elf.Rela64
		if err := binary.Read(r, binary.LittleEndian, &rela); err != nil {
			t.Fatal(err)
		}
		if typ := elf.R_AARCH64(elf.R_TYPE64(rela.Info)); typ != elf.R_AARCH64_PREL32 {
			t.Fatalf("relocation %v", typ)
		}
		value := symbols[elf.R_SYM64(rela.Info)-1].Value + uint64(rela.Addend)
		binary.LittleEndian.PutUint32(data[rela.Off:], uint32(value-(addr+rela.Off)))
	}
	return assembled(addr, data)
}

func compareAArch64(t *testing.T, p *pages, fde *ehtest.FDE) int {
	t.Helper()
	if len(fde.Rows) == 0 {
		if got := p.rule(fde.Start).String(); got != "cfa=sp+0 ra=lr" {
			t.Fatalf("pc %#x: %s, readelf has no rows", fde.Start, got)
		}
	}
	for i, row := range fde.Rows {
		end := fde.End
		if i+1 < len(fde.Rows) {
			end = fde.Rows[i+1].Loc
		}
		want := expectedAArch64(t, fde, row)
		for _, pc := range []uint64{row.Loc, end - 1} {
			if got := formulaAArch64(p.rule(pc)); got != want {
				t.Fatalf("pc %#x: %s, readelf says %s", pc, got, want)
			}
		}
	}
	return len(fde.Rows)
}

// formulaAArch64 formats a rule with all formulas.
func formulaAArch64(w unwind.WideRule) string {
	fp, ra := "u", "u"
	if w.FP() == unwind.FPAtCFA {
		fp = fmt.Sprintf("c%+d", w.FPOff)
	}
	switch w.RA() {
	case unwind.RADefault:
		ra = fmt.Sprintf("c%+d", w.FPOff+8)
	case unwind.RAAtCFA:
		ra = fmt.Sprintf("c%+d", w.RAOff)
	}
	cfa, _, _ := w.Columns(arm)
	if w.RA() == unwind.RAUndefined {
		cfa = "sp+0"
	}
	return cfa + " " + fp + " " + ra
}

func expectedAArch64(t *testing.T, fde *ehtest.FDE, row ehtest.Row) string {
	t.Helper()
	cfa, fp, ra := fde.Cell(row, "CFA"), fde.Cell(row, "x29"), fde.Cell(row, "ra")
	if fp == "" || fp == "s" {
		fp = "u"
	}
	if ra == "" || ra == "s" {
		ra = "u"
	}
	return cfa + " " + fp + " " + ra
}
