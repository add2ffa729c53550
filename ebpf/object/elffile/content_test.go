package elffile

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/headwater/headwater/integration/testkit/need"
)

// TestContent compares a program with copies in which other tools changed one part.
func TestContent(t *testing.T) {
	dir := t.TempDir()
	path := func(name string) string { return filepath.Join(dir, name) }
	source := path("a.c")
	const text = "int helper(int n) { return n * 3; } int main(int n, char **v) { return helper(n); }"
	if err := os.WriteFile(source, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
	tool := func(name string, args ...string) {
		t.Helper()
		need.Tools(t, name)
		if out, err := exec.Command(name, args...).CombinedOutput(); err != nil {
			t.Fatalf("%s %v: %v\n%s", name, args, err, out)
		}
	}
	tool("gcc", "-g", "-o", path("program"), source)
	section := path("section")
	if err := os.WriteFile(section, make([]byte, 64), 0o644); err != nil {
		t.Fatal(err)
	}
	read := func(name string) (c Content, shape string) {
		t.Helper()
		f, err := Open(path(name))
		if err != nil {
			t.Fatal(err)
		}
		defer f.Close()
		if c, err = f.Content(); err != nil {
			t.Fatal(err)
		}
		return c, f.Shape()
	}
	original, shape := read("program")
	for _, c := range []struct {
		name                  string
		command               []string
		code, rows            bool // equal to the original's
		itNames, isNamed, all bool // it may name the original; the original may name it; all is equal
	}{
		{"copy", []string{"cp", path("program"), path("copy")}, true, true, true, true, true},
		{"stripped", []string{"strip", "-o", path("stripped"), path("program")}, true, true, false, true, false},
		{"symbols", []string{"objcopy", "--redefine-sym", "helper=renamed", path("program"), path("symbols")}, true,
			true, false, false, false},
		{"frames", []string{"objcopy", "--add-section", ".debug_frame=" + section, path("program"), path("frames")},
			true, false, true, true, false},
		{"text", []string{"sh", "-c", `cp "$1" "$2"
			at=$(($(objdump -h "$1" | awk '$2 == ".text" {print "0x" $6}') + 3))
			printf '\220' | dd conv=notrunc bs=1 of="$2" seek=$at`, "sh", path("program"), path("text")},
			false, false, false, false, false},
	} {
		tool(c.command[0], c.command[1:]...)
		got, gotShape := read(c.name)
		if gotShape != shape {
			t.Errorf("%s: another shape", c.name)
		}
		if code, rows := got.Code == original.Code, got.Rows == original.Rows; code != c.code || rows != c.rows {
			t.Errorf("%s: the same code: %v, rows: %v; want %v, %v", c.name, code, rows, c.code, c.rows)
		}
		if itNames, isNamed := got.NamesOf(&original), original.NamesOf(&got); itNames != c.itNames ||
			isNamed != c.isNamed {
			t.Errorf("%s may name the original: %v, be named by it: %v; want %v, %v", c.name, itNames, isNamed,
				c.itNames, c.isNamed)
		}
		if (got == original) != c.all {
			t.Errorf("%s is equal: %v", c.name, got == original)
		}
	}
	tool("gcc", "-g", "-DX", "-Wl,-z,stack-size=4096", "-o", path("program2"), source)
	if _, other := read("program2"); other == shape {
		t.Error("the same shape with other program headers")
	}
}

// TestReopenOfWhatWasWritten checks that no names are read from a file that was overwritten.
func TestReopenOfWhatWasWritten(t *testing.T) {
	self, err := os.ReadFile("/proc/self/exe")
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), "program")
	if err := os.WriteFile(path, self, 0o755); err != nil {
		t.Fatal(err)
	}
	f, err := Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	again, err := f.Reopen()
	if err != nil {
		t.Fatal(err)
	}
	again.Close()
	if err := os.WriteFile(path, self[:len(self)-1], 0o755); err != nil {
		t.Fatal(err)
	}
	if again, err = f.Reopen(); !errors.Is(err, ErrChanged) {
		t.Errorf("reopened %v, %v", again, err)
	}
}
