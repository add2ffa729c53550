package verify

import (
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/headwater/headwater/ebpf/elffile"
)

// TestGoUnchecked looks at a program with symbols, which the binaries of go test
// do not have.
func TestGoUnchecked(t *testing.T) {
	source, program := filepath.Join(t.TempDir(), "main.go"), filepath.Join(t.TempDir(), "program")
	if err := os.WriteFile(source, []byte("package main\n\nfunc main() {}\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	if out, err := exec.Command("go", "build", "-o", program, source).CombinedOutput(); err != nil {
		t.Fatalf("go build: %v\n%s", err, out)
	}
	f, err := elffile.Open(program)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	found, err := goUnchecked(f)
	if err != nil {
		t.Fatal(err)
	}
	symbols, err := f.Symbols()
	if err != nil {
		t.Fatal(err)
	}
	seen := 0
	for _, s := range symbols {
		want := s.Name == "runtime.systemstack.abi0" || s.Name == "runtime.mcall" || s.Name == "runtime.mcall.abi0"
		if !want && s.Name != "runtime.mallocgc" {
			continue
		}
		seen++
		if s.Size == 0 || found.contain(s.Value) != want || found.contain(s.Value+s.Size-1) != want {
			t.Errorf("%s at 0x%x: want %t of %x", s.Name, s.Value, want, found)
		}
	}
	if seen < 3 {
		t.Errorf("%d of systemstack, mcall and mallocgc found, want 3", seen)
	}
	if found.contain(0) || (ranges{}).contain(1) {
		t.Error("nothing is at 0")
	}
}
