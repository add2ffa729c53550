package dwarfline

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/headwater/headwater/ebpf/object/elffile"
	"github.com/headwater/headwater/integration/testkit"
	"github.com/headwater/headwater/integration/testkit/need"
)

// run runs a tool in a folder.
func run(t testing.TB, dir, name string, args ...string) string {
	t.Helper()
	need.Tools(t, name)
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, name, args...)
	cmd.Dir = dir
	var stderr strings.Builder
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("%v: %v\n%s", cmd.Args, err, stderr.String())
	}
	return string(out)
}

// build compiles a file of testdata and returns the program.
func build(t testing.TB, source, compiler string, flags ...string) string {
	t.Helper()
	source, err := filepath.Abs(filepath.Join("testdata", source))
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	run(t, dir, compiler, append(flags, "-o", "program", source)...)
	return filepath.Join(dir, "program")
}

// built is build for tests that only read the program. It compiles each program once and keeps it.
func built(t testing.TB, source, compiler string, flags ...string) string {
	t.Helper()
	need.Tools(t, compiler)
	path, err := filepath.Abs(filepath.Join("testdata", source))
	if err != nil {
		t.Fatal(err)
	}
	key := append([]string{testkit.Version(t, compiler), compiler, path}, flags...) // debug data contains the path
	made := testkit.Fixture(t, "dwarfline", append(key, sources(t)...), func(dir string) error {
		cmd := exec.Command(compiler, append(slices.Clone(flags), "-o", "program", path)...)
		cmd.Dir = dir
		if out, err := cmd.CombinedOutput(); err != nil {
			return fmt.Errorf("%v: %w\n%s", cmd.Args, err, out)
		}
		return nil
	})
	return filepath.Join(made, "program")
}

// sources returns the files of testdata, which may include each other.
func sources(t testing.TB) (texts []string) {
	t.Helper()
	files, err := filepath.Glob("testdata/*.*")
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		texts = append(texts, file, string(text))
	}
	return texts
}

// TestAddr2line compares programs of many compilers and forms of DWARF.
func TestAddr2line(t *testing.T) {
	for _, tt := range []struct {
		name, source, compiler string
		flags                  []string
	}{
		{"gcc", "plain.c", "gcc", []string{"-O2", "-g"}},
		{"gcc DWARF 4", "plain.c", "gcc", []string{"-O2", "-gdwarf-4"}},
		{"gcc DWARF 3", "plain.c", "gcc", []string{"-O2", "-gdwarf-3"}},
		{"gcc DWARF 2", "plain.c", "gcc", []string{"-O2", "-gdwarf-2", "-gstrict-dwarf"}},
		{"gcc 64-bit DWARF", "plain.c", "gcc", []string{"-O2", "-g", "-gdwarf64"}},
		{"gcc function sections", "plain.c", "gcc", []string{"-O2", "-g", "-ffunction-sections", "-Wl,--gc-sections"}},
		{"gcc type units", "templates.cc", "g++", []string{"-O2", "-g", "-fdebug-types-section"}},
		{"gcc -flto", "templates.cc", "g++", []string{"-O2", "-g", "-flto"}},
		{"g++", "templates.cc", "g++", []string{"-O2", "-g"}},
		{"g++ DWARF 4", "templates.cc", "g++", []string{"-O2", "-gdwarf-4"}},
		{"clang DWARF 5", "plain.c", "clang-19", []string{"-O2", "-gdwarf-5"}},
		{"clang DWARF 4", "plain.c", "clang-19", []string{"-O2", "-gdwarf-4"}},
		{"clang++ DWARF 5", "templates.cc", "clang++-19", []string{"-O2", "-gdwarf-5"}},
		{"clang++ DWARF 4", "templates.cc", "clang++-19", []string{"-O2", "-gdwarf-4"}},
		{"rustc", "generic.rs", "rustc", []string{"-C", "opt-level=3", "-g"}},
		{"zlib", "plain.c", "gcc", []string{"-O2", "-g", "-gz=zlib"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			program := built(t, tt.source, tt.compiler, tt.flags...)
			compare(t, program, program, codeAddresses(t, program, 1000, 1)).check(t)
		})
	}
}

// TestAddr2lineGo compares a Go program in DWARF 4, which this addr2line reads, and in DWARF 5,
// Go's current default.
func TestAddr2lineGo(t *testing.T) {
	for _, tt := range []struct{ name, experiment string }{{"DWARF 4", "nodwarf5"}, {"DWARF 5", "dwarf5"}} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			program := goProgram(t, tt.experiment)
			compare(t, program, program, codeAddresses(t, program, 1000, 1)).check(t)
		})
	}
}

// goProgram builds a Go program with an experiment of the toolchain. The standard library takes
// long to compile.
func goProgram(t *testing.T, experiment string) string {
	t.Helper()
	const source = "../../testdata/golang/plain"
	text, err := os.ReadFile(source + "/main.go")
	if err != nil {
		t.Fatal(err)
	}
	made := testkit.Fixture(t, "dwarfline", []string{runtime.Version(), experiment, string(text)}, func(dir string) error {
		cmd := exec.Command("go", "build", "-o", filepath.Join(dir, "program"), source)
		cmd.Env = append(os.Environ(), "GOEXPERIMENT="+experiment, "CGO_ENABLED=0")
		if out, err := cmd.CombinedOutput(); err != nil {
			return fmt.Errorf("%v: %w\n%s", cmd.Args, err, out)
		}
		return nil
	})
	return filepath.Join(made, "program")
}

// TestCompressed compares the forms of compression.
func TestCompressed(t *testing.T) {
	t.Parallel()
	plain := built(t, "plain.c", "gcc", "-O2", "-g")
	for _, form := range []string{"zlib", "zlib-gnu", "zstd"} {
		t.Run(form, func(t *testing.T) {
			program := filepath.Join(t.TempDir(), "program")
			run(t, ".", "objcopy", "--compress-debug-sections="+form, plain, program)
			compare(t, program, plain, codeAddresses(t, program, 500, 1)).check(t)
		})
	}
}

// TestSplit compares split DWARF with the same program built without it: addr2line 2.40 does not
// read .dwo files.
func TestSplit(t *testing.T) {
	for _, tt := range []struct{ name, source, compiler, version, dwp string }{
		{"clang DWARF 5", "templates.cc", "clang++-19", "-gdwarf-5", "llvm-dwp-19"},
		{"clang DWARF 4", "templates.cc", "clang++-19", "-gdwarf-4", "dwp"},
		{"gcc DWARF 5", "plain.c", "gcc", "-gdwarf-5", ""}, // llvm-dwp 14 and 19 do not terminate on it
		{"gcc DWARF 4", "plain.c", "gcc", "-gdwarf-4", "dwp"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			// addr2line cannot read the DWARF 5 of clang even without splitting.
			twin := built(t, tt.source, tt.compiler, "-O2", "-gdwarf-4")
			split := build(t, tt.source, tt.compiler, "-O2", tt.version, "-gsplit-dwarf")
			addrs := codeAddresses(t, split, 1000, 1)
			unpackaged := compare(t, split, twin, addrs)
			unpackaged.check(t)
			if tt.dwp == "" {
				return
			}
			run(t, filepath.Dir(split), tt.dwp, "-e", "program", "-o", "program.dwp")
			files, err := filepath.Glob(filepath.Join(filepath.Dir(split), "*.dwo"))
			if err != nil || len(files) == 0 {
				t.Fatalf("no .dwo file: %v", err)
			}
			for _, f := range files {
				if err := os.Remove(f); err != nil {
					t.Fatal(err)
				}
			}
			packaged := compare(t, split, twin, addrs)
			packaged.check(t)
			if packaged.equal != unpackaged.equal {
				t.Errorf("%d addresses equal with the .dwp file, %d with the .dwo file", packaged.equal,
					unpackaged.equal)
			}
		})
	}
}

// TestSupplementary compares programs whose common entries dwz moved to another file, before and
// since DWARF 5 standardized such files.
func TestSupplementary(t *testing.T) {
	for _, version := range []string{"-gdwarf-4", "-gdwarf-5"} {
		t.Run(version, func(t *testing.T) {
			t.Parallel()
			one := built(t, "templates.cc", "g++", "-O2", version)
			content, err := os.ReadFile(one)
			if err != nil {
				t.Fatal(err)
			}
			dir := t.TempDir()
			for _, name := range []string{"one", "other"} {
				if err := os.WriteFile(filepath.Join(dir, name), content, 0o755); err != nil {
					t.Fatal(err)
				}
			}
			args := []string{"-m", "common", "-M", "common", "one", "other"}
			if version == "-gdwarf-5" {
				args = append([]string{"--dwarf-5"}, args...)
			}
			run(t, dir, "dwz", args...)
			small := filepath.Join(dir, "one")
			if !dataUsesSupplementary(t, small) {
				t.Fatal("dwz has moved nothing")
			}
			compare(t, small, one, codeAddresses(t, small, 1000, 1)).check(t)
		})
	}
}

func dataUsesSupplementary(t *testing.T, file string) bool {
	t.Helper()
	f, err := elffile.Open(file)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	_, _, ok := f.AltLink()
	return ok
}

// TestDebugPackage compares Debian's debug file of the C library, which dwz processed and whose
// sections are compressed.
func TestDebugPackage(t *testing.T) {
	t.Parallel()
	found, _ := filepath.Glob("/lib/*/libc.so.6")
	if len(found) == 0 {
		need.Missing(t, "no C library found")
	}
	f, err := elffile.Open(found[0])
	if err != nil {
		t.Fatal(err)
	}
	id := f.BuildID()
	f.Close()
	if len(id) < 3 {
		need.Missing(t, "the C library has no build ID")
	}
	debug := filepath.Join("/usr/lib/debug/.build-id", id[:2], id[2:]+".debug")
	if _, err := os.Stat(debug); err != nil {
		need.Missing(t, "the package libc6-dbg is not installed: %v", err)
	}
	compare(t, debug, debug, codeAddresses(t, debug, 3000, 1)).check(t)
}
