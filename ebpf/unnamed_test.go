package ebpf

import (
	"os/exec"
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
