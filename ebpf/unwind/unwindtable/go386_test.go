package unwindtable

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/headwater/headwater/ebpf/unwind"
	"github.com/headwater/headwater/ebpf/unwind/ehframe"
	"github.com/headwater/headwater/ebpf/unwind/ehframe/ehtest"
)

// buildGo386 builds the program of the other tests for 32 bits.
func buildGo386(t *testing.T, flags ...string) string {
	t.Helper()
	dir := t.TempDir()
	source, path := filepath.Join(dir, "a.go"), filepath.Join(dir, "a")
	if err := os.WriteFile(source, []byte(goSource), 0o600); err != nil {
		t.Fatal(err)
	}
	build := exec.Command("go", append(append([]string{"build", "-o", path}, flags...), source)...)
	build.Env = append(os.Environ(), "CGO_ENABLED=0", "GOARCH=386", "GOFLAGS=")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("go build: %v\n%s", err, out)
	}
	return path
}

// callFrame returns the call frame at an address, which must have one.
func callFrame(t *testing.T, table *Table, vaddr uint64) unwind.CallFrame {
	t.Helper()
	c, ok, err := table.CallFrame(vaddr)
	if err != nil || !ok {
		t.Fatalf("pc %#x: no call frame, error %v", vaddr, err)
	}
	return c
}

// TestReadelfGo386 compares the call frames of a 32-bit Go program with readelf's rows of the
// .debug_frame that Go's linker writes. The program without symbols and DWARF must have the same
// call frames.
func TestReadelfGo386(t *testing.T) {
	path := buildGo386(t)
	table, stripped := openTable(t, path), openTable(t, buildGo386(t, "-ldflags=-s -w"))
	compared, others := 0, 0
	ehtest.EachFDE(t, path, ".debug_frame", func(fde *ehtest.FDE) {
		for _, row := range fde.Rows {
			got := callFrame(t, table, row.Loc)
			if bare := callFrame(t, stripped, row.Loc); fmt.Sprint(bare) != fmt.Sprint(got) {
				t.Fatalf("pc %#x: %v, in the stripped program %v", row.Loc, got, bare)
			}
			if got.Row.CFA.Kind == ehframe.CFAUnspecified {
				others++ // the end of a stack, or another stack: .debug_frame has neither
				continue
			}
			compared++
			if cfa := fmt.Sprintf("esp+%d", got.Row.CFA.Offset); cfa != fde.Cell(row, "CFA") {
				t.Fatalf("pc %#x: CFA %s, readelf says %s", row.Loc, cfa, fde.Cell(row, "CFA"))
			}
			returns := got.Row.Rule(got.ReturnRegister)
			if ra := fmt.Sprintf("c%+d", returns.Offset); returns.Kind != ehframe.Offset || ra != fde.Cell(row, "ra") {
				t.Fatalf("pc %#x: return address %v, readelf says %s", row.Loc, returns, fde.Cell(row, "ra"))
			}
		}
	})
	t.Logf("%d rows compared, %d of ends of stacks and of other stacks", compared, others)
	if compared < 1000 || others == 0 || others*20 > compared {
		t.Errorf("%d rows compared, %d of ends of stacks and of other stacks", compared, others)
	}
}
