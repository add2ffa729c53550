package stacks

import (
	"crypto/sha1"
	"encoding/binary"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/headwater/headwater/integration/testkit"
	"github.com/headwater/headwater/integration/testkit/need"
	"github.com/headwater/headwater/integration/testkit/rig"
)

// How the programs of rules are built and run.

// vaddrOf reads a hexadecimal number; other text is 0.
func vaddrOf(text string) uint64 {
	n, _ := strconv.ParseUint(text, 16, 64)
	return n
}

// starter builds a program in a folder and returns how to run it.
type starter func(t testing.TB, dir string) *exec.Cmd

// output stands for the file to make among the arguments of a compiler.
const output = "OUTPUT"

// compiled makes a program of sources, and returns path, where it is. Equal programs are made once, and copied. The
// arguments may name the folder of path, whose libraries count as sources.
func compiled(t testing.TB, path string, sources []string, compiler string, args ...string) string {
	t.Helper()
	need.Tools(t, compiler)
	dir, name := filepath.Dir(path), filepath.Base(path)
	version, err := exec.Command(compiler, "--version").CombinedOutput()
	if err != nil {
		version = []byte(runtime.Version()) // of go
	}
	key := []string{string(version), compiler, name}
	for _, arg := range args {
		key = append(key, strings.ReplaceAll(arg, dir, "DIR"))
	}
	libraries, err := filepath.Glob(filepath.Join(dir, "lib*.so"))
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range slices.Concat(sources, libraries) {
		key = append(key, rig.ReadFile(t, file))
	}
	made := testkit.Fixture(t, name, key, func(fixture string) error {
		words := slices.Clone(args)
		for i, arg := range words {
			words[i] = strings.ReplaceAll(arg, output, filepath.Join(fixture, name))
		}
		if out, err := exec.Command(compiler, words...).CombinedOutput(); err != nil {
			return fmt.Errorf("%s %v: %w\n%s", compiler, words, err, out)
		}
		return nil
	})
	testkit.CopyProgram(t, filepath.Join(made, name), path)
	return path
}

// ruleSource compiles testdata/rules/SOURCE with flags to dir/name and returns
// the path. The programs find their libraries next to them, and bind at start,
// since binding lazily is a rule of its own.
func ruleSource(t testing.TB, dir, name, source string, flags ...string) string {
	t.Helper()
	compiler := "gcc"
	if filepath.Ext(source) == ".cc" {
		compiler = "g++"
	}
	if !filepath.IsAbs(source) {
		source = filepath.Join("testdata", source)
	}
	return compiled(t, filepath.Join(dir, name), []string{source, "testdata/rules/work.h"}, compiler,
		slices.Concat(rig.WithoutFramePointers, []string{"-pthread", "-o", output, source, "-Wl,-rpath,$ORIGIN",
			"-Wl,-z,now", ownBuildID(dir, name, flags...)}, flags)...)
}

// ownBuildID is a linker flag: programs of one source are different programs here, or the profiler would take them for
// copies of one. The ID is the same for each folder dir that flags name.
func ownBuildID(dir, name string, flags ...string) string {
	text := strings.ReplaceAll(fmt.Sprint(name, flags), dir, "DIR")
	return fmt.Sprintf("-Wl,--build-id=0x%x", sha1.Sum([]byte(text)))
}

// slot is the CPU time that a program gives to each kind of its work.
const (
	slot        = 500 * time.Millisecond
	slotSeconds = "0.5"
	endless     = "3600" // seconds, of a program that its test ends
)

// runs builds a program and runs it for one slot of each of its kinds of work.
func runs(name, source string, flags ...string) starter {
	return func(t testing.TB, dir string) *exec.Cmd {
		return exec.Command(ruleSource(t, dir, name, source, flags...), slotSeconds)
	}
}

// withArguments adds to the arguments.
func (s starter) withArguments(args ...string) starter {
	return func(t testing.TB, dir string) *exec.Cmd {
		cmd := s(t, dir)
		cmd.Args = append(cmd.Args, args...)
		return cmd
	}
}

// forSeconds sets the length of its slots.
func (s starter) forSeconds(seconds string) starter {
	return func(t testing.TB, dir string) *exec.Cmd {
		cmd := s(t, dir)
		cmd.Args[1] = seconds
		return cmd
	}
}

// multilib is what gcc -m32 needs.
const multilib = "/usr/lib/gcc/x86_64-linux-gnu/12/32/crtbegin.o"

// needing says which tools it takes to build it.
func (s starter) needing(tools ...string) starter {
	return func(t testing.TB, dir string) *exec.Cmd {
		need.Tools(t, tools...)
		return s(t, dir)
	}
}

// stripped strips the program, and keeps the original with its names.
func (s starter) stripped() starter {
	return func(t testing.TB, dir string) *exec.Cmd {
		cmd := s(t, dir)
		rig.WriteFile(t, cmd.Path+".symbols", rig.ReadFile(t, cmd.Path))
		if out, err := exec.Command("strip", cmd.Path).CombinedOutput(); err != nil {
			t.Fatalf("strip: %v\n%s", err, out)
		}
		return cmd
	}
}

// withoutSections takes the section headers from the program, as sstrip does.
func (s starter) withoutSections() starter {
	return func(t testing.TB, dir string) *exec.Cmd {
		cmd := s(t, dir)
		image := []byte(rig.ReadFile(t, cmd.Path))
		// Elf64_Ehdr: e_shoff, then e_shentsize, e_shnum, e_shstrndx at its end.
		const shoff, shentsize, size = 40, 58, 64
		end := binary.LittleEndian.Uint64(image[shoff:])
		clear(image[shoff : shoff+8])
		clear(image[shentsize:size])
		if err := os.Rename(cmd.Path, cmd.Path+".sections"); err != nil {
			t.Fatal(err)
		}
		testkit.WriteProgram(t, cmd.Path, image[:end])
		return cmd
	}
}

// shell runs a script before the program; $1 is the program's path, dir the
// working directory, and the script ends with `exec` of any command.
func (s starter) shell(script string) starter {
	return func(t testing.TB, dir string) *exec.Cmd {
		cmd := s(t, dir)
		wrapped := exec.Command("sh", append([]string{"-e", "-c", rig.PrivateMounts + script, "sh", cmd.Path},
			cmd.Args[1:]...)...)
		wrapped.Dir = dir
		// Mounts are only visible to the script and its child processes.
		wrapped.SysProcAttr = &syscall.SysProcAttr{Cloneflags: syscall.CLONE_NEWNS}
		return wrapped
	}
}

// inChroot runs it in another root, a tmpfs that is nowhere else mounted, with
// copies of its libraries.
func (s starter) inChroot() starter {
	return s.shell(`mkdir root; mount -t tmpfs none root; mkdir root/lib64 root/lib
		cp "$1" root/program; mv root/program root/$(basename "$1")
		for library in $(ldd "$1" | grep -o '/[^ ]*'); do mkdir -p root/$(dirname $library); cp $library root/$library; done
		program=/$(basename "$1"); shift
		exec chroot root $program "$@"`)
}

// onOverlay runs it on an overlay, whose device differs from the layers'.
func (s starter) onOverlay() starter {
	return s.shell(`mkdir mounted; mount -t tmpfs none mounted
		mkdir mounted/lower mounted/upper mounted/work mounted/merged
		cp "$1" mounted/lower
		mount -t overlay overlay -o lowerdir=mounted/lower,upperdir=mounted/upper,workdir=mounted/work mounted/merged
		program=mounted/merged/$(basename "$1"); shift
		exec $program "$@"`)
}

// rustProgram builds testdata/rules/rust.rs.
func rustProgram(name string, flags ...string) starter {
	return func(t testing.TB, dir string) *exec.Cmd {
		const source = "testdata/rules/rust.rs"
		path := compiled(t, filepath.Join(dir, name), []string{source}, "rustc",
			append(flags, "-C", "opt-level=3", "--edition", "2021", "-o", output, source)...)
		return exec.Command(path, slotSeconds)
	}
}

// lazyProgram builds a program and the libraries that it binds lazily; flags
// are for the library with the procedure linkage table.
func lazyProgram(name string, flags ...string) starter {
	return func(t testing.TB, dir string) *exec.Cmd {
		var targets, calls, sum strings.Builder
		for i := range 2000 {
			fmt.Fprintf(&targets, "unsigned long t%d(void) { return 1; }\n", i)
			fmt.Fprintf(&calls, "unsigned long t%d(void);\n", i)
			fmt.Fprintf(&sum, "\tsum += t%d();\n", i)
		}
		rig.WriteFile(t, filepath.Join(dir, "targets.c"), targets.String())
		rig.WriteFile(t, filepath.Join(dir, "calls.c"),
			calls.String()+"unsigned long call_all(void)\n{\n\tunsigned long sum = 0;\n"+sum.String()+"\treturn sum;\n}\n")
		ruleSource(t, dir, "libtargets.so", filepath.Join(dir, "targets.c"), "-shared", "-fPIC")
		ruleSource(t, dir, "libcalls.so", filepath.Join(dir, "calls.c"),
			slices.Concat([]string{"-shared", "-fPIC", "-Wl,-z,lazy", "-L" + dir, "-ltargets"}, flags)...)
		// Kept in memory, so that only the binding is repeated.
		cmd := exec.Command(ruleSource(t, dir, name, "rules/lazy.c", "-L"+dir, "-Wl,--no-as-needed", "-ltargets"),
			slotSeconds)
		return cmd
	}
}

// musl builds testdata/programs/plain.c with another C library.
func musl(name string, flags ...string) starter {
	return func(t testing.TB, dir string) *exec.Cmd {
		const source = "testdata/programs/plain.c"
		path := compiled(t, filepath.Join(dir, name), []string{source}, "musl-gcc", slices.Concat(rig.WithoutFramePointers,
			[]string{"-fasynchronous-unwind-tables", "-o", output, source, ownBuildID(dir, name)}, flags)...)
		return exec.Command(path, slotSeconds)
	}
}

// running is the part of a script that waits until a process, by its ID, executes the program $1.
func running(pid string) string {
	return fmt.Sprintf(`until [ /proc/%s/exe -ef "$1" ]; do sleep 0.01; done`, pid)
}
