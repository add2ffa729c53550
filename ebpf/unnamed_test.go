package ebpf

import (
	"os/exec"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/headwater/headwater/integration/testkit/need"
)

// TestUnnamedLanguages runs programs in languages whose functions are not named: most stacks have a frame that
// says which language that is, and none has a bare [unknown]. A language that is named goes before another one.
func TestUnnamedLanguages(t *testing.T) {
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
		t.Run(l.command[0]+" "+l.frame, func(t *testing.T) {
			need.Tools(t, l.command[0])
			o := identityOptions()
			s := start(t, o)
			defer s.Close()
			cmd := exec.Command(l.command[0], l.command[1:]...)
			if err := cmd.Start(); err != nil {
				t.Fatal(err)
			}
			defer cmd.Wait()
			defer cmd.Process.Kill()
			pid := uint32(cmd.Process.Pid)
			time.Sleep(time.Second) // until the program has begun
			if _, err := s.Collect(); err != nil {
				t.Fatal(err)
			}
			said, all := 0, 0
			stacks, _, _ := stacksOfPID(collect(t, s, pid, 100), int(pid))
			for _, stack := range stacks {
				if all++; slices.Contains(stack, l.frame) {
					said++
				}
				if slices.Contains(stack, "[unknown]") {
					t.Errorf("unknown code: %s", strings.Join(stack, " "))
				}
			}
			t.Logf("such as %s", strings.Join(stacks[0], " "))
			t.Logf("%d of %d stacks have %s", said, all, l.frame)
			if said*5 < all*4 {
				t.Errorf("%d of %d stacks have %s", said, all, l.frame)
			}
			checkCounted(t, s.Stats().Languages, l.frame)
		})
	}
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
