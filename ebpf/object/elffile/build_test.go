package elffile

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/headwater/headwater/integration/testkit"
	"github.com/headwater/headwater/integration/testkit/need"
)

// run runs a tool and returns its output.
func run(t testing.TB, name string, args ...string) string {
	t.Helper()
	need.Tools(t, name)
	out, err := exec.Command(name, args...).CombinedOutput()
	if err != nil {
		t.Fatalf("%s %q: %v\n%s", name, args, err, out)
	}
	return string(out)
}

// compile returns a program that gcc built from C source, in its own folder, so that the caller may
// change it. gcc builds it only once, unless flags name another file of this test.
func compile(t testing.TB, source string, flags ...string) string {
	t.Helper()
	need.Tools(t, "gcc")
	dir := t.TempDir()
	out := filepath.Join(dir, "a.out")
	if slices.ContainsFunc(flags, func(flag string) bool { return strings.Contains(flag, os.TempDir()) }) {
		if err := gcc(dir, source, flags); err != nil {
			t.Fatal(err)
		}
		return out
	}
	key := append([]string{testkit.Version(t, "gcc"), source}, flags...)
	made := testkit.Fixture(t, "elffile", key, func(dir string) error { return gcc(dir, source, flags) })
	copyFile(t, filepath.Join(made, "a.out"), out)
	return out
}

// gcc compiles source into dir/a.out.
func gcc(dir, source string, flags []string) error {
	if err := os.WriteFile(filepath.Join(dir, "a.c"), []byte(source), 0o644); err != nil {
		return err
	}
	cmd := exec.Command("gcc", append([]string{"-o", "a.out", "a.c"}, flags...)...)
	cmd.Dir = dir
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("%v: %w\n%s", cmd.Args, err, out)
	}
	return nil
}

func copyFile(t testing.TB, from, to string) {
	t.Helper()
	data, err := os.ReadFile(from)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(to, data, 0o755); err != nil {
		t.Fatal(err)
	}
}

func open(t testing.TB, path string) *File {
	t.Helper()
	f, err := Open(path)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { f.Close() })
	return f
}

// libc returns the path of this host's C library.
func libc(t testing.TB) string {
	t.Helper()
	for _, pattern := range []string{"/lib/*/libc.so.6", "/lib64/libc.so.6", "/usr/lib/libc.so.6"} {
		if found, _ := filepath.Glob(pattern); len(found) > 0 {
			return found[0]
		}
	}
	need.Missing(t, "no libc.so.6 found")
	return ""
}
