package unwindtable

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/headwater/headwater/ebpf/unwind"
	"github.com/headwater/headwater/ebpf/unwind/ehframe/ehtest"
)

const goSource = `package main
import "fmt"
func main() { fmt.Println("hello") }
`

// TestReadelfGo compares the rules made from Go's .debug_frame with readelf's rows, except for the
// frame pointer, which .debug_frame does not mention: the code almost always shows where it is.
func TestReadelfGo(t *testing.T) {
	dir := t.TempDir()
	source, path := filepath.Join(dir, "a.go"), filepath.Join(dir, "a")
	if err := os.WriteFile(source, []byte(goSource), 0o600); err != nil {
		t.Fatal(err)
	}
	build := exec.Command("go", "build", "-o", path, source)
	build.Env = append(os.Environ(), "CGO_ENABLED=0", "GOARCH=amd64", "GOFLAGS=")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("go build: %v\n%s", err, out)
	}
	p := &pages{t, openTable(t, path), make(map[uint64]*unwind.Page)}
	bytes := make(map[unwind.FPKind]uint64)
	ehtest.EachFDE(t, path, ".debug_frame", func(fde *ehtest.FDE) {
		for i, row := range fde.Rows {
			end := fde.End
			if i+1 < len(fde.Rows) {
				end = fde.Rows[i+1].Loc
			}
			got := p.rule(row.Loc)
			if got.CFA == unwind.CFASignal || got.CFA == unwind.CFAFrame || got.CFA == unwind.CFAUnsupported ||
				got.CFA == unwind.CFAGoroutine || got.RA() == unwind.RAUndefined || got.RA() == unwind.RAReg {
				continue // readelf shows a plain function: .debug_frame has no other stacks and registers
			}
			bytes[got.FP()] += end - row.Loc
			got.Rules, got.FPOff = unwind.Rules(unwind.FPSame, got.RA()), 0
			if want := expected(fde, row); inScheduler(got) != want {
				t.Fatalf("pc %#x: %s, readelf says %s", row.Loc, got, want)
			}
		}
	})
	checkPages(t, p)
	t.Logf("bytes of text by rule of the frame pointer: same %d, saved %d, undefined %d", bytes[unwind.FPSame],
		bytes[unwind.FPAtCFA], bytes[unwind.FPUndefined])
	if bytes[unwind.FPAtCFA] < 50*bytes[unwind.FPUndefined] || bytes[unwind.FPAtCFA] < bytes[unwind.FPSame] {
		t.Error("the frame pointer is lost too often")
	}
	if !strings.Contains(signalsOf(p), "signal frame") {
		t.Error("no row for the runtime's signal trampoline")
	}
}

// signalsOf lists the signal trampolines among the pages.
func signalsOf(p *pages) string {
	var out strings.Builder
	for _, page := range p.built {
		for _, r := range page.Rows {
			if r.CFA == unwind.CFASignal {
				out.WriteString(page.Widen(r).String())
			}
		}
	}
	return out.String()
}
