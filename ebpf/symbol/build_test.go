package symbol

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/headwater/headwater/ebpf/object/elffile"
	"github.com/headwater/headwater/integration/testkit"
	"github.com/headwater/headwater/integration/testkit/need"
)

// run runs a tool and returns its standard output.
func run(t testing.TB, stdin, name string, args ...string) string {
	t.Helper()
	need.Tools(t, name)
	cmd := exec.Command(name, args...)
	cmd.Stdin = strings.NewReader(stdin)
	var stderr strings.Builder
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("%s %q: %v\n%s", name, args, err, stderr.String())
	}
	return string(out)
}

// compile returns a program that gcc made from a source file; the extension of the file name gives the language. The
// program is in its own folder, so the caller may change it. gcc runs once for equal arguments.
func compile(t testing.TB, file, source string, flags ...string) string {
	t.Helper()
	need.Tools(t, "gcc")
	dir := t.TempDir()
	gcc := func(dir string) error {
		path := filepath.Join(dir, file)
		if err := os.WriteFile(path, []byte(source), 0o644); err != nil {
			return err
		}
		cmd := exec.Command("gcc", append([]string{"-o", filepath.Join(dir, "program"), path}, flags...)...)
		if out, err := cmd.CombinedOutput(); err != nil {
			return fmt.Errorf("%v: %w\n%s", cmd.Args, err, out)
		}
		return nil
	}
	if slices.Contains(flags, "-gsplit-dwarf") { // the program contains the path of its .dwo file
		if err := gcc(dir); err != nil {
			t.Fatal(err)
		}
		return filepath.Join(dir, "program")
	}
	key := append([]string{testkit.Version(t, "gcc"), file, source}, flags...)
	made := testkit.Fixture(t, "symbol", key, gcc)
	if err := os.CopyFS(dir, os.DirFS(made)); err != nil {
		t.Fatal(err)
	}
	return filepath.Join(dir, "program")
}

// object returns the object of a file on this host.
func object(t testing.TB, id uint32, path string) *Object {
	t.Helper()
	f, err := elffile.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	return &Object{ID: id, Path: path, BuildID: f.BuildID(),
		Open: func() (*elffile.File, error) { return elffile.Open(path) }}
}

// library finds one of this host's libraries.
func library(t testing.TB, name string) string {
	t.Helper()
	for _, pattern := range []string{"/usr/lib/*/" + name, "/lib/*/" + name, "/usr/lib64/" + name, "/usr/lib/" + name} {
		if found, _ := filepath.Glob(pattern); len(found) > 0 {
			path, err := filepath.EvalSymlinks(found[0])
			if err != nil {
				t.Fatal(err)
			}
			return path
		}
	}
	need.Missing(t, "no %s found", name)
	return ""
}

// writeFile writes content below dir and returns the path.
func writeFile(t testing.TB, content []byte, elements ...string) string {
	t.Helper()
	path := filepath.Join(elements...)
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, content, 0o644); err != nil {
		t.Fatal(err)
	}
	return path
}

func readFile(t testing.TB, path string) []byte {
	t.Helper()
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return b
}
