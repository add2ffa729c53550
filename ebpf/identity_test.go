package ebpf

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/pprof/profile"
	"golang.org/x/sys/unix"

	"github.com/headwater/headwater/ebpf/unwind"
	"github.com/headwater/headwater/integration/testkit"
	"github.com/headwater/headwater/integration/testkit/need"
)

// twinID is the build ID of programs that differ in all other respects.
const twinID = "0x5eedc0dedeadbeef5eedc0dedeadbeef5eedc0de"

// twin is a program whose functions prefix_1 to prefix_5 call each other, with frames of its own size: rows of another
// twin lead nowhere.
type twin struct {
	prefix   string
	path     string
	stripped bool
}

const twinSource = `
#include <string.h>
#include <time.h>
static volatile unsigned long sink;
static double now(void) { struct timespec t; clock_gettime(CLOCK_MONOTONIC, &t); return t.tv_sec + 1e-9 * t.tv_nsec; }
#define FUNCTION(name, callee) \
	__attribute__((noinline)) unsigned long name(double end) { \
		volatile char buffer[FRAME + 16 * __LINE__]; \
		memset((char *)buffer, 1, sizeof buffer); \
		unsigned long r = callee(end); \
		return r + buffer[r % sizeof buffer]; \
	}
__attribute__((noinline)) unsigned long P(5)(double end) {
	while (now() < end)
		for (int i = 0; i < 200000; i++)
			sink += i;
	return sink;
}
FUNCTION(P(4), P(5))
FUNCTION(P(3), P(4))
FUNCTION(P(2), P(3))
FUNCTION(P(1), P(2))
#include <stdlib.h>
int main(int argc, char **argv) { return P(1)(now() + (argc > 1 ? atof(argv[1]) : 1)) == 7; }
`

// buildTwin builds a program with the build ID of all twins. Tests that run at once have frames of different sizes: a
// stripped program takes the names of a program whose code is equal.
func buildTwin(t testing.TB, dir, name, prefix string, frame int, flags ...string) twin {
	t.Helper()
	w := twin{prefix: prefix, path: filepath.Join(dir, name)}
	source := filepath.Join(dir, prefix+".c")
	if err := os.WriteFile(source, []byte("#define P(n) "+prefix+"_##n\n"+twinSource), 0o644); err != nil {
		t.Fatal(err)
	}
	args := append([]string{"-O1", "-fomit-frame-pointer", "-fno-stack-protector", "-DFRAME=" + strconv.Itoa(frame),
		"-Wl,--build-id=" + twinID, "-o", w.path, source}, flags...)
	run(t, "gcc", args...)
	return w
}

func run(t testing.TB, name string, args ...string) {
	t.Helper()
	if out, err := exec.Command(name, args...).CombinedOutput(); err != nil {
		t.Fatalf("%s %s: %v\n%s", name, strings.Join(args, " "), err, out)
	}
}

// chain is what every whole stack of w holds, leaf first.
func (w twin) chain() []string {
	var names []string
	for i := 5; i >= 1; i-- {
		names = append(names, fmt.Sprintf("%s_%d", w.prefix, i))
	}
	return append(names, "main")
}

// running is a twin that runs.
type running struct {
	twin
	cmd *exec.Cmd
}

func (w twin) start(t testing.TB, seconds float64) running {
	t.Helper()
	cmd := exec.Command(w.path, fmt.Sprint(seconds))
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	r := running{w, cmd}
	t.Cleanup(r.stop)
	return r
}

func (r running) stop() {
	r.cmd.Process.Kill()
	r.cmd.Wait()
}

// pid returns the PID of the process.
func (r running) pid() uint32 { return uint32(r.cmd.Process.Pid) }

// stacksOfPID returns the user functions of each distinct stack of a process, leaf first, and
// its CPU time; and the mappings of its program's frames.
func stacksOfPID(profiles []Profile, pid int) (stacks [][]string, times []int64, mappings []*profile.Mapping) {
	for _, p := range profiles {
		for _, s := range p.Pprof.Sample {
			if !slices.Contains(s.Label["pid"], strconv.Itoa(pid)) {
				continue
			}
			var names []string
			for _, l := range s.Location {
				for _, line := range l.Line {
					names = append(names, line.Function.Name)
				}
				if l.Mapping != nil {
					mappings = append(mappings, l.Mapping)
				}
			}
			stacks, times = append(stacks, names), append(times, s.Value[0])
		}
	}
	return stacks, times, mappings
}

// judge checks that all stacks of a twin are whole and its own, named unless it is stripped, and that its frames are in
// its own file. Early stacks may have no names yet, but no names of another twin.
func (r running) judge(t testing.TB, early, late []Profile) {
	t.Helper()
	name := filepath.Base(r.path)
	stacks, _, mappings := stacksOfPID(slices.Concat(early, late), r.cmd.Process.Pid)
	for _, s := range stacks {
		for _, f := range s {
			if strings.HasPrefix(f, "twin") && (r.stripped || !strings.HasPrefix(f, r.prefix+"_")) {
				t.Errorf("%s: a stack has another program's function %s: %s", name, f, strings.Join(s, " "))
			}
		}
	}
	started := endsOf(early, r.pid())
	started.unready = 0 // the more, the longer the machine takes to open the file
	started.check(t, name+" after its start", 0.05)
	checkWhole(t, name, late, r.pid())
	if named, all := r.named(late); !r.stripped && named < all*9/10 { // the rest is in the dynamic loader
		t.Errorf("%s: %v of %v have the chain %v", name, named, all, r.chain())
	}
	own := false
	for _, m := range mappings {
		own = own || m.File == r.path && m.BuildID == twinID[2:]
		if strings.HasPrefix(m.File, filepath.Dir(r.path)) && m.File != r.path {
			t.Errorf("%s: a frame lies in %s", name, m.File)
		}
	}
	if !own {
		t.Errorf("%s: no frame lies in it, build ID %s", name, twinID[2:])
	}
}

// named returns how much CPU time, in stacks that do not end where rows are not ready, has the functions of a twin.
func (r running) named(profiles []Profile) (named, all time.Duration) {
	stacks, times, _ := stacksOfPID(profiles, r.cmd.Process.Pid)
	for i, s := range stacks {
		if endsUnready(s) {
			continue
		}
		all += time.Duration(times[i])
		if strings.Contains(strings.Join(s, " "), strings.Join(r.chain(), " ")) {
			named += time.Duration(times[i])
		}
	}
	return named, all
}

// checkWhole allows one incomplete stack of twenty, besides the stacks that a busy machine leaves without rows. By the
// rows of another file all would be incomplete.
func checkWhole(t testing.TB, name string, profiles []Profile, pid uint32) {
	t.Helper()
	e := endsOf(profiles, pid)
	e.check(t, name, 0.05)
}

func identityOptions() Options {
	o := Options{}
	o.Labels, o.Comm, o.SampleRate = []string{"pid"}, CommNone, 499
	return o
}

// judgeAll has a session profile only some programs, collects until all have enough whole stacks, and judges them.
func judgeAll(t testing.TB, s *Session, all ...running) {
	t.Helper()
	var pids []uint32
	for _, r := range all {
		pids = append(pids, r.pid())
	}
	if err := s.Update(only(identityOptions(), pids...)); err != nil {
		t.Fatal(err)
	}
	begun := make([]bool, len(all))
	early := collectUntil(t, s, "all twins have stacks with names", func(more []Profile) bool {
		for i, r := range all {
			named, any := r.named(more)
			begun[i] = begun[i] || named > 0 || r.stripped && any > 0
		}
		return !slices.Contains(begun, false)
	})
	late := collectWhole(t, s, twinSamples, pids...)
	for _, r := range all {
		r.judge(t, early, late)
	}
}

const (
	twinSamples = 100 // that a twin has before it is judged
	twinSeconds = 600 // that one lives at most
)

// TestTwinsOfOneBuildID runs two programs that share only their build ID, in either order, one after the other and at
// once, one of them stripped or not: each has whole stacks, its own names, and its own file.
func TestTwinsOfOneBuildID(t *testing.T) {
	t.Parallel()
	need.Root(t)
	need.Tools(t, "gcc", "strip")
	dir := t.TempDir()
	a := buildTwin(t, dir, "a", "twina", 64)
	b := buildTwin(t, dir, "b", "twinb", 4096)
	stripped := twin{prefix: a.prefix, path: filepath.Join(dir, "stripped"), stripped: true}
	run(t, "strip", "-o", stripped.path, a.path)
	for _, c := range []struct {
		name          string
		first, second twin
		atOnce        bool
		nightly       string // why, "" if make test runs it
	}{
		{"small frames first", a, b, false, ""},
		{"large frames first", b, a, false, "\"small frames first\" has them in the other order"},
		{"at once", a, b, true, "\"stripped at once\" has two at once, one of them stripped"},
		{"stripped first", stripped, b, false, "\"stripped second\" and \"small frames first\" have the parts of it"},
		{"stripped at once", stripped, b, true, ""},
		{"stripped second", b, stripped, true, "\"stripped at once\" has them in the other order"},
	} {
		t.Run(c.name, func(t *testing.T) {
			if c.nightly != "" {
				testkit.Nightly(t, c.nightly)
			}
			s := start(t, identityOptions())
			defer s.Close()
			first := c.first.start(t, twinSeconds)
			if !c.atOnce {
				judgeAll(t, s, first)
				first.stop()
			}
			second := c.second.start(t, twinSeconds)
			if c.atOnce {
				judgeAll(t, s, first, second)
			} else {
				judgeAll(t, s, second)
			}
		})
	}
}

// TestReplacedProgram replaces the file of a running program, and overwrites the file of a program that has ended: each
// process has the names of the program that it runs.
func TestReplacedProgram(t *testing.T) {
	t.Parallel()
	need.Tools(t, "gcc")
	dir := t.TempDir()
	a := buildTwin(t, dir, "a", "twina", 96)
	b := buildTwin(t, dir, "b", "twinb", 8192)
	path := filepath.Join(dir, "installed")
	at := func(w twin) twin { return twin{prefix: w.prefix, path: path} }
	s := start(t, identityOptions())
	defer s.Close()

	run(t, "cp", a.path, path)
	first := at(a).start(t, twinSeconds)
	judgeAll(t, s, first)
	run(t, "cp", b.path, path+".new")
	run(t, "mv", path+".new", path) // as package managers do
	second := at(b).start(t, twinSeconds)
	judgeAll(t, s, first, second)
	first.stop()
	second.stop()

	run(t, "cp", a.path, path) // writes to the file itself
	judgeAll(t, s, at(a).start(t, twinSeconds))
}

const libraryCaller = `
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
int main(int argc, char **argv) {
	void *library = dlopen(argv[1], RTLD_NOW);
	unsigned long (*run)(double) = library ? (unsigned long (*)(double))dlsym(library, "run") : 0;
	if (!run) {
		fprintf(stderr, "%s\n", dlerror());
		return 1;
	}
	return run(atof(argv[2])) == 7;
}
`

// TestRewrittenLibrary overwrites a library while a program runs its code, which stays the same: the names of its
// functions change, and profiles show them.
func TestRewrittenLibrary(t *testing.T) {
	t.Parallel()
	need.Tools(t, "gcc")
	dir := t.TempDir()
	const noMain = "#define main unused_main\n"
	library := func(prefix string) string {
		path, source := filepath.Join(dir, prefix+".so"), filepath.Join(dir, prefix+".c")
		text := noMain + "#define P(n) " + prefix + "_##n\n" + twinSource +
			"\nunsigned long run(double seconds) { return P(1)(now() + seconds) + 1; }\n"
		if err := os.WriteFile(source, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
		run(t, "gcc", "-O1", "-fomit-frame-pointer", "-fno-stack-protector", "-DFRAME=64", "-shared", "-fPIC",
			"-Wl,--build-id="+twinID, "-o", path, source)
		return path
	}
	before, after := library("twina"), library("twinb")
	caller, source := filepath.Join(dir, "caller"), filepath.Join(dir, "caller.c")
	if err := os.WriteFile(source, []byte(libraryCaller), 0o644); err != nil {
		t.Fatal(err)
	}
	run(t, "gcc", "-o", caller, source, "-ldl")

	s := start(t, identityOptions())
	defer s.Close()
	cmd := exec.Command(caller, before, strconv.Itoa(twinSeconds))
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() {
		cmd.Process.Kill()
		cmd.Wait()
	}()
	pid := uint32(cmd.Process.Pid)
	// named returns how many distinct stacks are in a twin's functions.
	named := func(profiles []Profile) map[string]int {
		counts := map[string]int{}
		stacks, _, _ := stacksOfPID(profiles, cmd.Process.Pid)
		for _, stack := range stacks {
			text := strings.Join(stack, " ")
			for _, prefix := range []string{"twina", "twinb"} {
				if strings.Contains(text, prefix+"_5 "+prefix+"_4 ") {
					counts[prefix]++
				}
			}
		}
		return counts
	}
	collectUntil(t, s, "the library is known: all stacks are whole, with its names", func(more []Profile) bool {
		e := endsOf(more, pid)
		return named(more)["twina"] > 0 && e.broken+e.unready == 0
	})
	profiles := collectWhole(t, s, twinSamples, pid)
	checkWhole(t, "caller", profiles, pid)
	if counts := named(profiles); counts["twina"] == 0 || counts["twinb"] != 0 {
		t.Errorf("before: %v", counts)
	}
	run(t, "dd", "conv=notrunc", "if="+after, "of="+before)
	collectUntil(t, s, "the library is known to be another", func(more []Profile) bool {
		counts := named(more)
		return counts["twinb"] > 0 && counts["twina"] == 0
	})
	profiles = collectWhole(t, s, twinSamples, pid)
	checkWhole(t, "caller", profiles, pid)
	if counts := named(profiles); counts["twinb"] == 0 || counts["twina"] != 0 {
		t.Errorf("after: %v", counts)
	}
}

// TestForeignBuildID has a program with the build ID of the C library, started before any other program that uses the C
// library: the library keeps its names, and the program has its own.
func TestForeignBuildID(t *testing.T) {
	t.Parallel()
	need.Tools(t, "gcc", "readelf")
	const script = `readelf -n "$(ldd /bin/sh | awk '/libc.so.6/ {print $3}')" | awk '/Build ID/ {print $3}'`
	out, err := exec.Command("sh", "-c", script).Output()
	id := strings.TrimSpace(string(out))
	if err != nil || id == "" {
		t.Fatalf("the C library's build ID is %q, %v", id, err)
	}
	dir := t.TempDir()
	hostile := buildTwin(t, dir, "hostile", "twinh", 224, "-Wl,--build-id=0x"+id)
	s := start(t, identityOptions())
	defer s.Close()
	first := hostile.start(t, twinSeconds)
	shell := testkit.Spin(t)
	begun := map[uint32]bool{}
	collectUntil(t, s, "the stacks of both programs have names", func(more []Profile) bool {
		for _, pid := range []uint32{first.pid(), shell} {
			stacks, _, _ := stacksOfPID(more, int(pid))
			begun[pid] = begun[pid] || slices.ContainsFunc(stacks, func(names []string) bool {
				return slices.ContainsFunc(names, func(f string) bool { return strings.Contains(f, "__libc_start_main") })
			})
		}
		return len(begun) == 2 && begun[shell] && begun[first.pid()]
	})
	profiles := collectWhole(t, s, twinSamples, first.pid(), shell)
	for pid, own := range map[int]bool{first.cmd.Process.Pid: true, int(shell): false} {
		stacks, times, mappings := stacksOfPID(profiles, pid)
		checkWhole(t, fmt.Sprint("process ", pid), profiles, uint32(pid))
		var all, libc, twins time.Duration
		for i, stack := range stacks {
			if endsUnready(stack) {
				continue
			}
			text, of := strings.Join(stack, " "), time.Duration(times[i])
			all += of
			if strings.Contains(text, "__libc_start_main") {
				libc += of
			}
			if strings.Contains(text, "twinh_") {
				twins += of
			}
		}
		if libc < all*9/10 || own != (twins > all*9/10) || !own && twins > 0 {
			t.Errorf("process %d: of %v %v are in the C library's start, %v in the twin", pid, all, libc, twins)
		}
		files := map[string]bool{}
		for _, m := range mappings {
			if m.BuildID == id {
				files[m.File] = true
			}
		}
		if files[hostile.path] != own || len(files) != map[bool]int{true: 2, false: 1}[own] {
			t.Errorf("process %d: build ID %s in %v", pid, id, files)
		}
	}
}

// TestOverlays has one program run from three overlay file systems over one folder, as
// containers of one image do, and from a fourth where it was replaced: the three share
// names, and the fourth has its own.
func TestOverlays(t *testing.T) {
	t.Parallel()
	need.Tools(t, "gcc")
	need.Root(t) // to mount overlays
	dir := t.TempDir()
	lower := filepath.Join(dir, "lower")
	if err := os.Mkdir(lower, 0o755); err != nil {
		t.Fatal(err)
	}
	a := buildTwin(t, lower, "program", "twina", 160)
	b := buildTwin(t, dir, "other", "twinb", 12288)
	s := start(t, identityOptions())
	defer s.Close()
	var all []running
	for i := range 4 {
		box := func(name string) string {
			path := filepath.Join(dir, fmt.Sprint("box", i), name)
			if err := os.MkdirAll(path, 0o755); err != nil {
				t.Fatal(err)
			}
			return path
		}
		merged := box("merged")
		folders := "lowerdir=" + lower + ",upperdir=" + box("upper") + ",workdir=" + box("work")
		if err := unix.Mount("overlay", merged, "overlay", 0, folders); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() {
			if err := unix.Unmount(merged, unix.MNT_DETACH); err != nil {
				t.Error(err)
			}
		})
		w := twin{prefix: a.prefix, path: filepath.Join(merged, "program")}
		if i == 3 {
			run(t, "cp", b.path, w.path)
			w.prefix = b.prefix
		}
		all = append(all, w.start(t, twinSeconds))
	}
	judgeAll(t, s, all...)

	// A file that takes long to read is at first its own source, and is registered again once it is read.
	testkit.Eventually(t, "4 files have names from one source for each program", func() bool {
		sourceOf := map[string]unwind.ExeID{} // by path, of the newest that is registered
		for id := range unwind.ExeID(1 << 16) {
			if e := s.collector.Sampler.Executable(id); e != nil && filepath.Base(e.Path) == "program" {
				sourceOf[e.Path] = s.collector.Sampler.Source(e).ID
			}
		}
		t.Logf("files have names from %v", sourceOf)
		return len(sourceOf) == 4 && sourceOf[all[0].path] == sourceOf[all[1].path] &&
			sourceOf[all[0].path] == sourceOf[all[2].path] && sourceOf[all[0].path] != sourceOf[all[3].path]
	})
}
