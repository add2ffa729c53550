package ebpf

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/headwater/headwater/ebpf/common/clock"
	"github.com/headwater/headwater/integration/testkit"
	"github.com/headwater/headwater/integration/testkit/need"
)

// replacing is a way in which code replaces other code.
type replacing struct {
	how          string
	milliseconds int // lifetime of one
	library      bool
}

// replacings are the ways: a library or a program of one letter replaces the one of the other letter. Programs are
// further starts in one process, "fixed" without random addresses, "thread" by a thread other than the first; "fork"
// and "vfork" make a process for each.
func replacings() []replacing {
	return []replacing{
		{"dlopen", 20, true}, {"mmap", 20, true},
		{"chain", 10, false}, {"fixed", 30, false}, {"thread", 10, false}, {"fork", 20, false}, {"vfork", 20, false},
	}
}

// replaced counts the samples of a way.
type replaced struct {
	right, wrong, incomplete int64
	example                  string
	ends                     map[string]int64
}

// letterOf returns the letter whose function a name is, "" if it is of none.
func letterOf(name string) string {
	for _, letter := range []string{"a", "b"} {
		unnamed := strings.HasPrefix(name, "lib"+letter+".so+")
		if unnamed || strings.HasPrefix(name, letter+letter+"_") || name == "in_"+letter {
			return letter
		}
	}
	return ""
}

// judge counts a stack, which may have functions of only one letter: of the given one, unless that is "".
func (r *replaced) judge(names []string, own string, n int64) {
	end := ""
	for _, name := range names {
		if letter := letterOf(name); letter != "" && own == "" {
			own = letter
		} else if letter != "" && letter != own {
			r.wrong += n
			r.example = own + ": " + strings.Join(names, " ")
			return
		}
		if strings.HasPrefix(name, "[incomplete") {
			end, _, _ = strings.Cut(name, " in ")
		}
	}
	if end != "" {
		r.incomplete += n
		r.ends[end] += n
		return
	}
	r.right += n
}

// TestReplacedCode replaces code by other code all the time, in every way that programs have. A stack that was walked
// by the old code is dropped, and none is named wrongly.
func TestReplacedCode(t *testing.T) {
	if !testkit.IsNightly() {
		t.Parallel() // at night nothing else keeps the CPUs busy
	}
	need.Root(t)
	need.Tools(t, "gcc")
	dir, seconds := t.TempDir(), 4
	if testkit.IsNightly() {
		seconds = 120
	}
	sources := "testdata/replaced/"
	flags := []string{"-O2", "-fomit-frame-pointer", "-pthread"}
	build := func(to, source string, more ...string) string {
		path := filepath.Join(dir, to)
		run(t, "gcc", append(append(append([]string{}, flags...), more...), "-o", path, sources+source)...)
		return path
	}
	var libraries []string
	for _, letter := range []string{"a", "b"} {
		libraries = append(libraries, build("lib"+letter+".so", "library.c", "-shared", "-fPIC",
			fmt.Sprintf("-DNAME(x)=%s%s_##x", letter, letter)))
		build("program"+letter, "program.c", "-no-pie", "-fno-pie", fmt.Sprintf("-DNAME(x)=%s%s_##x", letter, letter))
	}
	build("replaced", "replaced.c", "-ldl")

	o := Options{}
	o.SampleRate, o.Comm = 997, CommLabel
	s := start(t, o)
	defer s.Close()
	counts := map[string]*replaced{}
	end := time.Duration(clock.Monotonic()).Seconds() + float64(seconds)
	for _, way := range replacings() {
		counts[way.how] = &replaced{ends: map[string]int64{}}
		pause := fmt.Sprint(way.milliseconds)
		if way.library {
			path := filepath.Join(dir, "hw"+way.how)
			testkit.CopyProgram(t, filepath.Join(dir, "replaced"), path)
			testkit.Run(t, exec.Command(path, way.how, fmt.Sprint(seconds), pause, libraries[0], libraries[1]))
			continue
		}
		var paths []string
		for _, letter := range []string{"a", "b"} {
			path := filepath.Join(dir, "hw"+way.how+letter)
			if err := os.Link(filepath.Join(dir, "program"+letter), path); err != nil {
				t.Fatal(err)
			}
			paths = append(paths, path)
		}
		testkit.Run(t, exec.Command(paths[0], way.how, fmt.Sprint(end), pause, paths[1]))
	}
	for done := false; !done; {
		done = time.Duration(clock.Monotonic()).Seconds() > end
		profiles, err := s.Collect()
		if err != nil {
			t.Fatal(err)
		}
		for _, p := range profiles {
			for _, sample := range p.Pprof.Sample {
				comm := strings.Join(sample.Label["comm"], " ")
				names := frameNames(sample)
				for _, way := range replacings() {
					if !strings.HasPrefix(comm, "hw"+way.how) {
						continue
					}
					own := "" // the letter of a library is its caller's
					if !way.library {
						own = comm[len("hw"+way.how):]
					}
					counts[way.how].judge(names, own, sample.Value[0]/p.Pprof.Period)
				}
			}
		}
		time.Sleep(time.Second)
	}
	for _, way := range replacings() {
		c := counts[way.how]
		all := c.right + c.wrong + c.incomplete
		t.Logf("%-8s %6d samples, %6d whole, %d wrong, %v", way.how, all, c.right, c.wrong, c.ends)
		if c.wrong > 0 || c.right == 0 {
			t.Errorf("%s: %d of %d are wrong: %s", way.how, c.wrong, all, c.example)
		}
		if testkit.IsNightly() && c.right < all*99/100 {
			t.Errorf("%s: %d of %d are whole", way.how, c.right, all)
		}
	}
	t.Logf("%v", s.Stats().Errors)
}

// TestTextMovesAndReturns: a program moves the code of two libraries by mremap, which the kernel does not report, but
// never over other code: to new places, between two places, and in halves. No stack has functions of both libraries.
func TestTextMovesAndReturns(t *testing.T) {
	t.Parallel()
	need.Root(t)
	need.Tools(t, "gcc")
	dir := t.TempDir()
	var args []string
	for _, letter := range []string{"a", "b"} {
		library := filepath.Join(dir, "lib"+letter+".so")
		run(t, "gcc", "-O2", "-fomit-frame-pointer", "-shared", "-fPIC", "-o", library,
			fmt.Sprintf("-DNAME(x)=%s%s_##x", letter, letter), "testdata/replaced/library.c")
		args = append(args, library)
	}
	program := filepath.Join(dir, "moves")
	run(t, "gcc", "-O2", "-fomit-frame-pointer", "-o", program, "testdata/replaced/replaced.c", "-ldl")
	for _, how := range []string{"away", "back", "halves"} {
		t.Run(how, func(t *testing.T) {
			if how != "back" {
				testkit.Nightly(t, "back has the same moves")
			}
			pid := testkit.Run(t, exec.Command(program, append([]string{how, "3600", "60"}, args...)...))
			s := start(t, only(identityOptions(), pid))
			defer s.Close()
			settle(t, s, pid)
			count := replaced{ends: map[string]int64{}}
			for _, names := range stacksOf(collectOf(t, s, 300, pid), pid) {
				count.judge(names, "", 1)
			}
			t.Logf("%d stacks are whole, %d wrong, %v", count.right, count.wrong, count.ends)
			if count.wrong > 0 || count.right == 0 {
				t.Errorf("%d are wrong: %s", count.wrong, count.example)
			}
		})
	}
}
