package ebpf

import (
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/headwater/headwater/integration/testkit"
	"github.com/headwater/headwater/integration/testkit/need"
)

// TestUnnamedLanguages runs programs in languages whose functions are not named: most stacks have a frame with the
// language, and none has a bare [unknown]. A language with names takes precedence.
func TestUnnamedLanguages(t *testing.T) {
	t.Parallel()
	need.Root(t)
	var commands [][]string
	var frames []string
	for _, l := range []struct {
		frame   string
		command []string
	}{
		{"[PHP code]", []string{"php", "-r", `function f($n) { $s = 0; for ($i = 0; $i < 1000; $i++) { $s += $i % $n; }
			return $s; } while (true) { f(3); }`}},
		{"[Ruby code]", []string{"ruby", "-e", `def f(n); s = 0; 1000.times { |i| s += i % n }; s; end; loop { f(3) }`}},
		{"[Perl code]", []string{"perl", "-e", `sub f { my $s = 0; $s += $_ % $_[0] for 0..1000; $s } while (1) { f(3) }`}},
		{"[Lua code]", []string{"lua5.4", "-e", `local function f(n) local s = 0
			for i = 0, 1000 do s = s + math.fmod(i, n) end return s end while true do f(3) end`}},
		{"[Lua code]", []string{"luajit", "-e", `local function f(n) local s = {}
			for i = 0, 1000 do s[i] = tostring(i) .. n end return s end while true do f(3) end`}},
		{"python_in_lua", []string{"luajit", "-e", `local ffi = require("ffi")
			ffi.cdef("void Py_Initialize(); int PyRun_SimpleString(const char *);")
			local python = ffi.load("libpython3.11.so.1.0")
			python.Py_Initialize()
			python.PyRun_SimpleString("def python_in_lua():\n while True: sum(range(100))\npython_in_lua()")`}},
	} {
		commands = append(commands, l.command)
		frames = append(frames, l.frame)
	}
	var pids []uint32
	for _, c := range commands {
		need.Tools(t, c[0])
		pids = append(pids, testkit.Run(t, exec.Command(c[0], c[1:]...)))
	}
	s := start(t, only(identityOptions(), pids...))
	defer s.Close()
	said := make([]int64, len(pids))
	collectUntil(t, s, "all programs have begun", func(more []Profile) bool {
		begun := true
		for i, pid := range pids {
			in, _, _ := framesSaid(t, more, pid, frames[i])
			said[i] += in
			begun = begun && said[i] >= settledSamples
		}
		return begun
	})
	profiles := collectOf(t, s, 100, pids...)
	languages := s.Stats().Languages
	for i, pid := range pids {
		t.Run(commands[i][0]+" "+frames[i], func(t *testing.T) {
			said, all, example := framesSaid(t, profiles, pid, frames[i])
			t.Logf("%d of %d stacks have %s, such as %s", said, all, frames[i], example)
			if said*5 < all*4 || all == 0 {
				t.Errorf("%d of %d stacks have %s", said, all, frames[i])
			}
			for _, stack := range stacksOf(profiles, pid) {
				if slices.Contains(stack, "[unknown]") {
					t.Errorf("unknown code: %s", strings.Join(stack, " "))
				}
			}
			checkCounted(t, languages, frames[i])
		})
	}
}

// stacksOf returns the distinct stacks of a process, leaf first.
func stacksOf(profiles []Profile, pid uint32) [][]string {
	stacks, _, _ := stacksOfPID(profiles, int(pid))
	return stacks
}

// framesSaid counts the samples of a process, and its samples with a frame; it returns one stack with the frame.
// Samples that end where rows are not ready are left out.
func framesSaid(t testing.TB, profiles []Profile, pid uint32, frame string) (said, all int64, example string) {
	t.Helper()
	for _, p := range profiles {
		for _, sample := range ofPID(p, pid) {
			names := frameNames(sample)
			if endsUnready(names) {
				continue
			}
			n := sample.Value[0] / p.Pprof.Period
			if all += n; slices.Contains(names, frame) {
				said, example = said+n, strings.Join(names, " ")
			}
		}
	}
	return said, all, example
}

// checkCounted looks for a count of the frames, with a hint why they have no names.
func checkCounted(t *testing.T, all []LanguageStats, frame string) {
	t.Helper()
	name, unnamed := strings.CutSuffix(strings.TrimPrefix(frame, "["), " code]")
	if !unnamed {
		name = "python 3.11"
	}
	i := slices.IndexFunc(all, func(l LanguageStats) bool { return l.Name == name })
	if i < 0 {
		t.Fatalf("no frames of %s are counted: %+v", name, all)
	}
	if l := all[i]; unnamed != (l.NotNamed > 0) || unnamed != (l.Hint != "") || unnamed == (l.Named > 0) {
		t.Errorf("%s: %+v", name, l)
	}
}

// sorting is a program for Mono that spends its time in Leaf, below nine other methods: Beta, four of sorting,
// Array.Sort, Alpha, Main, and the wrapper by which Mono calls Main. Its compiler keeps rbp in some of them only.
const sorting = `using System; using System.Runtime.CompilerServices;
class P {
	static ulong sink;
	[MethodImpl(MethodImplOptions.NoInlining)] static ulong Leaf(ulong x) {
		for (int i = 0; i < 3000000; i++) x = x * 31 + 7;
		return x;
	}
	[MethodImpl(MethodImplOptions.NoInlining)] static int Beta(int a, int b) {
		sink += Leaf((ulong)a);
		return a.CompareTo(b);
	}
	[MethodImpl(MethodImplOptions.NoInlining)] static void Alpha() {
		var v = new int[]{5, 3, 9, 1};
		Array.Sort(v, Beta);
	}
	static void Main() { for (;;) Alpha(); }
}`

const sortingMethods = 10

// mono compiles and starts a program.
func mono(t *testing.T, source string) *exec.Cmd {
	t.Helper()
	need.Tools(t, "mono", "mcs")
	dir := t.TempDir()
	in, out := filepath.Join(dir, "p.cs"), filepath.Join(dir, "p.exe")
	if err := os.WriteFile(in, []byte(source), 0o600); err != nil {
		t.Fatal(err)
	}
	if text, err := exec.Command("mcs", "-o+", "-out:"+out, in).CombinedOutput(); err != nil {
		t.Fatalf("mcs: %v\n%s", err, text)
	}
	return exec.Command("mono", out)
}

// TestMakersOfCode runs programs of runtimes that compile all functions: code in no file, or in memory of a file that
// is no ELF file, has the runtime's label, and no function for each address.
func TestMakersOfCode(t *testing.T) {
	testkit.Nightly(t, "it needs six language runtimes")
	need.Root(t)
	const numba = "/usr/lib/python3/dist-packages/numba/__init__.py"
	need.Tools(t, "pypy3", "sbcl", "racket", numba)
	for made, command := range map[string]*exec.Cmd{
		"[code made by Mono]": mono(t, sorting),
		"[code made by PyPy]": exec.Command("pypy3", "-c", "def f(n):\n s = 0\n for i in range(1000): s += i % n\n"+
			" return s\nwhile True: f(3)"),
		"[code made by SBCL]": exec.Command("sbcl", "--noinform", "--eval",
			"(defun f (n) (loop for i from 1 to 1000 sum (mod i n)))", "--eval", "(loop (f 3))"),
		"[code made by Racket]": exec.Command("racket", "-e",
			"(define (f n) (for/sum ([i 1000]) (modulo i n))) (let loop () (f 3) (loop))"),
		"[code made by numba]": exec.Command("/usr/bin/python3", "-c", "import numba\n@numba.njit\ndef f(n):\n s = 0\n"+
			" for i in range(100000000): s = s * 3 % n + i\n return s\nwhile True: f(7)"),
	} {
		t.Run(made, func(t *testing.T) {
			pid := testkit.Run(t, command)
			s := start(t, only(identityOptions(), pid))
			defer s.Close()
			said := int64(0)
			collectUntil(t, s, "the code has run", func(more []Profile) bool {
				in, _, _ := framesSaid(t, more, pid, made)
				said += in
				return said >= settledSamples
			})
			profiles := collectOf(t, s, 100, pid)
			said, all, example := framesSaid(t, profiles, pid, made)
			t.Logf("%d of %d stacks have %s, such as %s", said, all, made, example)
			if said*5 < all*4 || all == 0 {
				t.Errorf("%d of %d stacks have %s", said, all, made)
			}
			for _, stack := range stacksOf(profiles, pid) {
				if slices.ContainsFunc(stack, func(f string) bool { return isMadeByOther(f, made) }) {
					t.Errorf("code of another runtime, or of none: %s", strings.Join(stack, " "))
				}
			}
		})
	}
}

// isMadeByOther reports whether a frame in generated code has another label than made.
func isMadeByOther(frame, made string) bool {
	return frame == "[unknown]" || strings.Contains(frame, ".core+0x") ||
		strings.HasPrefix(frame, "[code made by ") && frame != made
}

// TestMonoCallers: a stack that counts as whole has all methods of the program. Where the compiler used rbp for other
// data, the stack is marked as guessed or incomplete.
func TestMonoCallers(t *testing.T) {
	testkit.Nightly(t, "it needs Mono")
	need.Root(t)
	pid := testkit.Run(t, mono(t, sorting))
	s := start(t, only(identityOptions(), pid))
	defer s.Close()
	kinds := map[string]int64{}
	profiles := collectUntil(t, s, "Mono's code runs", func(more []Profile) bool {
		for _, p := range more {
			for _, sample := range ofPID(p, pid) {
				names := frameNames(sample)
				if len(names) > 0 && names[0] == "[code made by Mono]" {
					kinds[kindOfMono(names)] += sample.Value[0] / p.Pprof.Period
				}
			}
		}
		return kinds["whole"]+kinds["marked"]+kinds["short"] >= 300
	})
	t.Logf("%v", kinds)
	// Alpha and the methods of sorting run between two calls of Leaf.
	if kinds["short"]*50 > kinds["whole"]+kinds["short"] {
		t.Errorf("%v: of the stacks that count as whole, some have fewer than %d methods", kinds, sortingMethods)
		for _, stack := range stacksOf(profiles, pid) {
			if kindOfMono(stack) == "short" {
				t.Log(strings.Join(stack, " "))
			}
		}
	}
}

// kindOfMono says whether a stack counts as whole, and has all methods of sorting.
func kindOfMono(names []string) string {
	methods := 0
	for _, name := range names {
		switch {
		case strings.HasPrefix(name, "[incomplete"), strings.HasPrefix(name, "[guessed"):
			return "marked"
		case name == "[code made by Mono]":
			methods++
		}
	}
	if methods < sortingMethods {
		return "short"
	}
	return "whole"
}
