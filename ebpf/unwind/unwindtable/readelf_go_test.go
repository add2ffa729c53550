package unwindtable

import (
	"bytes"
	"debug/elf"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
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
	sizes := make(map[unwind.FPKind]uint64)
	ehtest.EachFDE(t, path, ".debug_frame", func(fde *ehtest.FDE) {
		for i, row := range fde.Rows {
			end := fde.End
			if i+1 < len(fde.Rows) {
				end = fde.Rows[i+1].Loc
			}
			got := p.rule(row.Loc)
			if got.CFA == unwind.CFASignal || got.CFA == unwind.CFAFrame || got.CFA == unwind.CFAUnsupported ||
				got.CFA == unwind.CFAGoroutine || got.RA() == unwind.RAUndefined || got.RA() == unwind.RAReg ||
				got.RA() == unwind.RAClone {
				continue // readelf shows a plain function: .debug_frame has no other stacks and registers
			}
			sizes[got.FP()] += end - row.Loc
			got.Rules, got.FPOff = unwind.Rules(unwind.FPSame, got.RA()), 0
			if want := expected(fde, row); inScheduler(got) != want {
				t.Fatalf("pc %#x: %s, readelf says %s", row.Loc, got, want)
			}
		}
	})
	checkPages(t, p)
	t.Logf("bytes of text by rule of the frame pointer: same %d, saved %d, undefined %d", sizes[unwind.FPSame],
		sizes[unwind.FPAtCFA], sizes[unwind.FPUndefined])
	if sizes[unwind.FPAtCFA] < 50*sizes[unwind.FPUndefined] || sizes[unwind.FPAtCFA] < sizes[unwind.FPSame] {
		t.Error("the frame pointer is lost too often")
	}
	if !strings.Contains(signalsOf(p), "signal frame") {
		t.Error("no row for the runtime's signal trampoline")
	}
	checkGoClone(t, p, path)
}

// checkGoClone looks up instructions of runtime.clone. After the system call, child and parent differ in rax alone,
// until the child sets its stack pointer.
func checkGoClone(t *testing.T, p *pages, path string) {
	t.Helper()
	f, err := elf.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	symbols, err := f.Symbols()
	if err != nil {
		t.Fatal(err)
	}
	i := slices.IndexFunc(symbols, func(s elf.Symbol) bool { return s.Name == "runtime.clone.abi0" })
	if i < 0 {
		t.Fatal("runtime.clone is not in the symbol table")
	}
	clone, code := symbols[i], make([]byte, symbols[i].Size)
	section := f.Section(".text")
	if _, err := section.ReadAt(code, int64(clone.Value-section.Addr)); err != nil {
		t.Fatal(err)
	}
	call := bytes.Index(code, []byte{0x0f, 0x05})        // syscall
	child := bytes.Index(code, []byte{0x48, 0x89, 0xf4}) // mov %rsi,%rsp
	if call < 0 || child < call {
		t.Fatalf("the system call is at %d, the child at %d", call, child)
	}
	for at, want := range map[int]unwind.RAKind{
		call: unwind.RADefault, call + 2: unwind.RAClone, child: unwind.RAClone, child + 3: unwind.RAUndefined,
	} {
		if rule := p.rule(clone.Value + uint64(at)); rule.CFA != unwind.CFASP || rule.RA() != want {
			t.Errorf("runtime.clone+%d: %s", at, rule)
		}
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
