package elffile

import (
	"bytes"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/headwater/headwater/integration/testkit/need"
)

// TestDynamicSymbol compares lookups in the hash table with the list of nm: all symbols that a
// library exports, and only those.
func TestDynamicSymbol(t *testing.T) {
	need.Tools(t, "gcc", "nm")
	dir := t.TempDir()
	library := filepath.Join(dir, "lib.so")
	source := "int data = 1; __thread int local = 2; static int hidden; int missing(void);\n"
	for i := range 200 {
		source += "int f" + strconv.Itoa(i) + "(void) { return hidden + missing(); }\n"
	}
	compile := exec.Command("gcc", "-shared", "-fPIC", "-Wl,--hash-style=gnu", "-x", "c", "-o", library, "-")
	compile.Stdin = strings.NewReader(source)
	if out, err := compile.CombinedOutput(); err != nil {
		t.Fatalf("gcc: %v\n%s", err, out)
	}
	out, err := exec.Command("nm", "-D", "--defined-only", library).Output()
	if err != nil {
		t.Fatal(err)
	}
	f, err := Open(library)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	found := 0
	for line := range bytes.Lines(out) {
		fields := strings.Fields(string(line))
		want, err := strconv.ParseUint(fields[0], 16, 64)
		if err != nil {
			t.Fatal(err)
		}
		s, ok, err := f.DynamicSymbol(fields[2])
		if err != nil || !ok || s.Value != want {
			t.Errorf("%s: %#x, %t, %v; nm says %#x", fields[2], s.Value, ok, err, want)
		}
		found++
	}
	if found < 202 {
		t.Errorf("nm lists %d symbols", found)
	}
	for _, name := range []string{"hidden", "missing", "f", "f200", "", "data\x00"} {
		if s, ok, err := f.DynamicSymbol(name); ok || err != nil {
			t.Errorf("%q: %+v, %v, want none", name, s, err)
		}
	}
}

func TestIsMusl(t *testing.T) {
	need.Tools(t, "gcc", "musl-gcc")
	dir := t.TempDir()
	for compiler, want := range map[string]bool{"gcc": false, "musl-gcc": true} {
		for _, kind := range []string{"-no-pie", "-shared"} {
			path := filepath.Join(dir, compiler+kind)
			compile := exec.Command(compiler, kind, "-fPIC", "-x", "c", "-o", path, "-")
			compile.Stdin = strings.NewReader("int main(void) { return 0; }")
			if out, err := compile.CombinedOutput(); err != nil {
				t.Fatalf("%s: %v\n%s", compiler, err, out)
			}
			f, err := Open(path)
			if err != nil {
				t.Fatal(err)
			}
			defer f.Close()
			if got := f.IsMusl(); got != want {
				t.Errorf("%s %s: %t", compiler, kind, got)
			}
		}
	}
}
