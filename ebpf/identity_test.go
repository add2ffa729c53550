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

// twinID is the build ID of programs that differ in everything else.
const twinID = "0x5eedc0dedeadbeef5eedc0dedeadbeef5eedc0de"

// twin is a program whose functions prefix_1 to prefix_5 call each other, with frames
// of a size of its own: rows of another one lead nowhere.
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

// buildTwin builds a program with the build ID that all of them have.
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

// judge checks that all stacks of a twin are whole and its own, named unless it is
// stripped, and that its frames lie in its own file.
func (r running) judge(t testing.TB, profiles []Profile) {
	t.Helper()
	stacks, times, mappings := stacksOfPID(profiles, r.cmd.Process.Pid)
	name := filepath.Base(r.path)
	var named, all int64
	checkWhole(t, name, stacks)
	for i, s := range stacks {
		all += times[i]
		text := strings.Join(s, " ")
		for _, f := range s {
			if strings.HasPrefix(f, "twin") && (r.stripped || !strings.HasPrefix(f, r.prefix+"_")) {
				t.Errorf("%s: a stack has another program's function %s: %s", name, f, text)
			}
		}
		if strings.Contains(text, strings.Join(r.chain(), " ")) {
			named += times[i]
		}
	}
	if !r.stripped && named < all*9/10 { // others are of the dynamic loader
		t.Errorf("%s: %v of %v have the chain %v", name, time.Duration(named), time.Duration(all), r.chain())
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

// checkWhole allows for few incomplete stacks: on a busy machine one may miss a table and
// have no copy. By the rows of another file all would be.
func checkWhole(t testing.TB, name string, stacks [][]string) {
	t.Helper()
	var incomplete []string
	for _, s := range stacks {
		if text := strings.Join(s, " "); strings.Contains(text, "[incomplete") {
			incomplete = append(incomplete, text)
		}
	}
	if len(incomplete) > max(1, len(stacks)/20) {
		t.Errorf("%s: %d of %d distinct stacks are incomplete, such as %s", name, len(incomplete), len(stacks), incomplete[0])
	}
}

func identityOptions() Options {
	o := DefaultOptions()
	o.PIDLabel, o.Comm, o.SampleRate = true, CommNone, 249
	return o
}

// judgeAll collects until all have enough samples, and judges them.
func judgeAll(t testing.TB, s *Session, all ...running) {
	t.Helper()
	var profiles []Profile
	for _, r := range all {
		profiles = append(profiles, collect(t, s, uint32(r.cmd.Process.Pid), twinSamples)...)
	}
	for _, r := range all {
		r.judge(t, profiles)
	}
}

const (
	twinSamples = 100 // that a twin has before it is judged
	twinSeconds = 60  // that one lives at most
)

// TestTwinsOfOneBuildID runs two programs that have one build ID and nothing else in
// common, in either order, one after the other and at once, one of them stripped or
// not: each has whole stacks, its own names, and its own file.
func TestTwinsOfOneBuildID(t *testing.T) {
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
	}{
		{"small frames first", a, b, false}, {"large frames first", b, a, false}, {"at once", a, b, true},
		{"stripped first", stripped, b, false}, {"stripped at once", stripped, b, true},
		{"stripped second", b, stripped, true},
	} {
		t.Run(c.name, func(t *testing.T) {
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

// TestReplacedProgram has another program put in the place of one that runs, and the
// file of one written over after it has ended: each process has the names of what it
// runs.
func TestReplacedProgram(t *testing.T) {
	need.Tools(t, "gcc")
	dir := t.TempDir()
	a := buildTwin(t, dir, "a", "twina", 64)
	b := buildTwin(t, dir, "b", "twinb", 4096)
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

// TestRewrittenLibrary writes over a library while a program runs its code, which stays
// the same: what its functions are called changes, and profiles show it.
func TestRewrittenLibrary(t *testing.T) {
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
	// named returns how many distinct stacks are in a twin's functions.
	named := func(profiles []Profile) map[string]int {
		counts := map[string]int{}
		stacks, _, _ := stacksOfPID(profiles, cmd.Process.Pid)
		checkWhole(t, "caller", stacks)
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
	pid := uint32(cmd.Process.Pid)
	if counts := named(collect(t, s, pid, twinSamples)); counts["twina"] == 0 || counts["twinb"] != 0 {
		t.Errorf("before: %v", counts)
	}
	run(t, "dd", "conv=notrunc", "if="+after, "of="+before)
	collect(t, s, pid, twinSamples) // of before and after
	collect(t, s, pid, twinSamples) // notices it at its end
	if counts := named(collect(t, s, pid, twinSamples)); counts["twinb"] == 0 || counts["twina"] != 0 {
		t.Errorf("after: %v", counts)
	}
}

// TestForeignBuildID has a program with the build ID of the C library, started before
// any other that uses the C library is: that keeps its names, and the program has its own.
func TestForeignBuildID(t *testing.T) {
	need.Tools(t, "gcc", "readelf")
	const script = `readelf -n "$(ldd /bin/sh | awk '/libc.so.6/ {print $3}')" | awk '/Build ID/ {print $3}'`
	out, err := exec.Command("sh", "-c", script).Output()
	id := strings.TrimSpace(string(out))
	if err != nil || id == "" {
		t.Fatalf("the C library's build ID is %q, %v", id, err)
	}
	dir := t.TempDir()
	hostile := buildTwin(t, dir, "hostile", "twinh", 64, "-Wl,--build-id=0x"+id)
	s := start(t, identityOptions())
	defer s.Close()
	first := hostile.start(t, twinSeconds)
	shell := testkit.Spin(t)
	var profiles []Profile
	profiles = append(profiles, collect(t, s, uint32(first.cmd.Process.Pid), twinSamples)...)
	profiles = append(profiles, collect(t, s, shell, twinSamples)...)
	for pid, own := range map[int]bool{first.cmd.Process.Pid: true, int(shell): false} {
		stacks, times, mappings := stacksOfPID(profiles, pid)
		checkWhole(t, fmt.Sprint("process ", pid), stacks)
		var all, libc, twins time.Duration
		for i, stack := range stacks {
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
	need.Tools(t, "gcc")
	need.Root(t) // to mount overlays
	dir := t.TempDir()
	lower := filepath.Join(dir, "lower")
	if err := os.Mkdir(lower, 0o755); err != nil {
		t.Fatal(err)
	}
	a := buildTwin(t, lower, "program", "twina", 64)
	b := buildTwin(t, dir, "other", "twinb", 4096)
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

	sources := map[string]map[unwind.ExeID]bool{}
	files := map[string]bool{}
	for id := range unwind.ExeID(1 << 16) {
		if e := s.sampler.Executable(id); e != nil && filepath.Base(e.Path) == "program" {
			files[e.Path] = true
			prefix := a.prefix
			if e.Path == all[3].path {
				prefix = b.prefix
			}
			if sources[prefix] == nil {
				sources[prefix] = map[unwind.ExeID]bool{}
			}
			sources[prefix][s.sampler.Source(e).ID] = true
		}
	}
	if len(files) != 4 || len(sources["twina"]) != 1 || len(sources["twinb"]) != 1 {
		t.Errorf("files %v have names from %v, want 4 files, one source for each program", files, sources)
	}
}
