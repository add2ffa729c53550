package cpython

import (
	"errors"
	"fmt"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/headwater/headwater/ebpf/object/elffile"
	"github.com/headwater/headwater/integration/testkit/need"
)

// TestLayouts compares the layout of each Python with the output of a C program that is compiled with its headers.
func TestLayouts(t *testing.T) {
	need.Root(t)
	need.Tools(t, "gcc", "/usr/include/python3.11/Python.h")
	for _, python := range pythons(t) {
		t.Run(python, func(t *testing.T) {
			p := startPython(t, python, "-c", "import sysconfig; print(sysconfig.get_path('include'), '\\n'); input()")
			root := fmt.Sprintf("/proc/%d/root", p.pid)
			include := root + strings.TrimSpace(p.said(t)[0])
			program := filepath.Join(t.TempDir(), "offsets")
			compile := exec.Command("gcc", "-w", "-I", include, "-I", include+"/internal", "-I", root+"/usr/include",
				"-I", root+"/usr/include/x86_64-linux-gnu", "-o", program, "testdata/offsets.c")
			if out, err := compile.CombinedOutput(); err != nil {
				t.Fatalf("gcc: %v\n%s", err, out)
			}
			out, err := exec.Command(program).Output()
			if err != nil {
				t.Fatal(err)
			}
			l, _ := p.library(t)
			if l.layout == nil || l.layout.assumed || l.err != nil {
				t.Fatalf("%+v, %v", l.layout, l.err)
			}
			fields := 0
			for line := range strings.Lines(string(out)) {
				field, number, _ := strings.Cut(strings.TrimSpace(line), " ")
				want, err := strconv.ParseInt(number, 10, 64)
				if err != nil {
					t.Fatal(err)
				}
				if got, ok := l.layout.offsets[field]; !ok || got != want {
					t.Errorf("%s: %d, %t; the headers have %d", field, got, ok, want)
				}
				fields++
			}
			if fields != len(l.layout.offsets) || fields < 15 {
				t.Errorf("the table has %d fields, the headers %d", len(l.layout.offsets), fields)
			}
		})
	}
}

// TestVersion compares the versions that Detect finds in files with the versions that these programs print.
func TestVersion(t *testing.T) {
	need.Root(t)
	for _, python := range pythons(t) {
		p := startPython(t, python, "-c", "import platform; print(platform.python_version(), '\\n'); input()")
		want := strings.TrimSpace(p.said(t)[0])
		l, _ := p.library(t)
		if got := l.version(); got != want && !(l.patch < 0 && strings.HasPrefix(want, got+".")) {
			t.Errorf("%s: %s, want %s", python, got, want)
		}
	}
}

// TestNewer: a version that is not in the table gets the layout of the newest version, marked as assumed. A version
// that is too old gets none, and numbers that cannot be offsets are rejected.
func TestNewer(t *testing.T) {
	word := func(n uint64) (uint64, error) {
		if n == wordFreeThreaded {
			return 0, nil
		}
		return 8, nil
	}
	l, err := layoutOf(newest()+1, word)
	if err != nil || !l.assumed || l.minor != newest() {
		t.Errorf("newer: %+v, %v", l, err)
	}
	if l, err := layoutOf(7, word); err == nil {
		t.Errorf("3.7: %+v", l)
	}
	large := func(n uint64) (uint64, error) { return n / 3 * maxOffset, nil } // but word 2 is 0
	if l, err := layoutOf(13, large); !errors.Is(err, errLayout) {
		t.Errorf("large offsets: %+v, %v", l, err)
	}
	if l, err := layoutOf(13, func(uint64) (uint64, error) { return 1, nil }); !errors.Is(err, errFreeThreaded) {
		t.Errorf("without the GIL: %+v, %v", l, err)
	}
	for _, minor := range tableMinors() {
		if l, err := layoutOf(minor, word); err != nil || l.assumed {
			t.Errorf("3.%d: %+v, %v", minor, l, err)
		}
	}
}

// ask returns the output of a Python program.
func ask(t *testing.T, python, program string) string {
	t.Helper()
	out, err := exec.Command(python, "-c", program).Output()
	if err != nil {
		t.Fatalf("%s: %v", python, err)
	}
	return strings.TrimSpace(string(out))
}

func TestNotPython(t *testing.T) {
	f, err := elffile.Open("/proc/self/exe")
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if l := (Language{}).Detect("/usr/bin/python3", f); l != nil {
		t.Errorf("%+v", l)
	}
}
