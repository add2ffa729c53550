package ebpf

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/headwater/headwater/integration/testkit"
	"github.com/headwater/headwater/integration/testkit/need"
)

// shop burns CPU in two functions that a stripped file has no names of.
const shop = `
static volatile unsigned long spent;
static __attribute__((noinline)) void sort(unsigned long n) {
	for (unsigned long i = 0; i < n; i++) { spent += i; if (i % 3 == 0) spent ^= i; if (i % 7 == 0) spent -= i; }
}
static __attribute__((noinline)) void orders(void) { for (int i = 0; i < 9; i++) { sort(1000000); sort(999); } }
int main(void) { for (;;) orders(); }`

// TestStrippedFunctions profiles a stripped program: a frame is named by the start of its function, as nm shows it for
// the program before it was stripped, and its address is the code's. It still counts as not named.
func TestStrippedFunctions(t *testing.T) {
	t.Parallel()
	need.Root(t)
	need.Tools(t, "gcc", "strip", "nm")
	dir := t.TempDir()
	source, whole, program := filepath.Join(dir, "shopd.c"), filepath.Join(dir, "whole"), filepath.Join(dir, "shopd")
	if err := os.WriteFile(source, []byte(shop), 0o644); err != nil {
		t.Fatal(err)
	}
	for _, c := range [][]string{{"gcc", "-O1", "-o", whole, source}, {"strip", "-o", program, whole}} {
		if out, err := exec.Command(c[0], c[1:]...).CombinedOutput(); err != nil {
			t.Fatalf("%v: %v\n%s", c, err, out)
		}
	}
	names := startsByName(t, whole)
	pid := testkit.Run(t, exec.Command(program))
	s := start(t, only(identityOptions(), pid))
	defer s.Close()

	counted := func() bool { // the program counts as one without names: then its file has been read
		return slices.ContainsFunc(s.Stats().Unnamed, func(u UnnamedStats) bool {
			return u.File == program && u.Frames > 0 && u.Reason == "debug_file_missing"
		})
	}
	collectUntil(t, s, "the program counts as one without names", func([]Profile) bool { return counted() })
	addresses := map[string]map[uint64]bool{} // by the function's name
	for _, p := range collect(t, s, pid, 100) {
		for _, l := range p.Pprof.Location {
			if name := l.Line[0].Function.Name; l.Mapping.File == program {
				if addresses[name] == nil {
					addresses[name] = map[uint64]bool{}
				}
				addresses[name][l.Address] = true
			}
		}
	}
	if len(addresses[names["sort"]]) < 2 || len(addresses[names["orders"]]) == 0 || len(addresses[names["main"]]) != 1 {
		t.Errorf("%v at %v", names, addresses)
	}
	delete(addresses, names["_start"])
	if len(addresses) != 3 {
		t.Errorf("the program has more than three functions: %v", addresses)
	}
	if !counted() {
		t.Errorf("the program does not count as one without names: %+v", s.Stats().Unnamed)
	}
}

// startsByName returns the names of a program's functions by their starts.
func startsByName(t testing.TB, path string) map[string]string {
	t.Helper()
	out, err := exec.Command("nm", path).Output()
	if err != nil {
		t.Fatal(err)
	}
	names := map[string]string{}
	for line := range strings.Lines(string(out)) {
		if f := strings.Fields(line); len(f) == 3 {
			at, err := strconv.ParseUint(f[0], 16, 64)
			if err != nil {
				t.Fatal(err)
			}
			names[f[2]] = fmt.Sprintf("shopd+0x%x", at)
		}
	}
	return names
}
