package elffile

import (
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/headwater/headwater/integration/testkit/need"
)

// run runs a tool and returns what it prints.
func run(t testing.TB, name string, args ...string) string {
	t.Helper()
	need.Tools(t, name)
	out, err := exec.Command(name, args...).CombinedOutput()
	if err != nil {
		t.Fatalf("%s %q: %v\n%s", name, args, err, out)
	}
	return string(out)
}

// compile compiles C source with gcc and returns the path of the result.
func compile(t testing.TB, source string, flags ...string) string {
	t.Helper()
	dir := t.TempDir()
	src, out := filepath.Join(dir, "a.c"), filepath.Join(dir, "a.out")
	if err := os.WriteFile(src, []byte(source), 0o644); err != nil {
		t.Fatal(err)
	}
	run(t, "gcc", append([]string{"-o", out, src}, flags...)...)
	return out
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

// libc returns the path of the C library that this host runs.
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
