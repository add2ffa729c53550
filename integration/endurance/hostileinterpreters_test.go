package endurance

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/pprof/profile"

	"github.com/headwater/headwater/ebpf/language/engine"
	"github.com/headwater/headwater/integration/testkit"
	"github.com/headwater/headwater/integration/testkit/need"
	"github.com/headwater/headwater/integration/testkit/rig"
)

// hostileRuntime is a host where processes of a language overwrite the memory that the profiler reads, faster than it
// can read, and one program of the same user does not.
type hostileRuntime struct {
	hostile []string // names of those processes
	good    string   // name of the program, ...
	caller  string   // ... whose functions must be named: this is one
	foreign string   // prefix of the functions in hostile processes
}

// goodPython is a program whose functions have to have their names. No other program of the host has its own name.
const goodPython = `
import time
with open("/proc/self/comm", "w") as comm:
    comm.write("hwgoodpython")
def good_leaf(n):
    return sum(i * i for i in range(n))
def good_caller():
    while True:
        good_leaf(20000)
        time.sleep(0.005)
good_caller()
`

// scribbled is what testdata/interpreters/scribble.c does to the memory of a program.
var scribbled = []string{"objects", "nowhere", "frames", "all"}

// TestHostileInterpreters has processes that seem to be CPython, and write nonsense to the frames that they keep.
func TestHostileInterpreters(t *testing.T) {
	testkit.Nightly(t, "TestHostileHost has users who do all that they can against the profiler")
	need.Root(t)
	need.Tools(t, "gcc", "python3")
	needInterpreters(t)
	dir := rig.PublicDir(t)
	host := hostileRuntime{good: "hwgoodpython", caller: "good_caller", foreign: "abcdefgh"}
	for _, mode := range []string{"codes", "cycle", "nowhere", "places"} { // of python.c
		program := filepath.Join(dir, "hw"+mode)
		const source = "testdata/interpreters/python.c"
		copyProgram(t, program, "gcc", []string{"-O2", "-Wall", "-Wextra", "-rdynamic", source, "-lpthread"}, source)
		startAsNobody(t, "/", program, mode)
		host.hostile = append(host.hostile, "hw"+mode)
	}
	rig.Start(t, exec.Command("python3", "-c", goodPython))
	host.profile(t)
}

// TestHostileNode has node run programs whose memory is overwritten by another process.
func TestHostileNode(t *testing.T) {
	testkit.Nightly(t, "TestHostileInterpreters has hostile processes of Python")
	need.Root(t)
	need.Tools(t, "gcc", "node")
	needInterpreters(t)
	dir := rig.PublicDir(t)
	scribble, script := filepath.Join(dir, "scribble"), filepath.Join(dir, "node.js")
	rig.Compile(t, "gcc", "-O2", "-Wall", "-Wextra", "-o", scribble, "testdata/interpreters/scribble.c")
	rig.WriteFile(t, script, rig.ReadFile(t, "testdata/interpreters/node.js"))
	node := find(t, "node")
	host := hostileRuntime{good: "hwgood", caller: "goodCaller", foreign: "level"}
	for _, mode := range scribbled {
		startAsNobody(t, "/", scribble, mode, node, script, "hw"+mode)
		host.hostile = append(host.hostile, "hw"+mode)
	}
	startAsNobody(t, "/", node, script, host.good)
	host.profile(t)
}

// TestHostileJava has Java VMs whose memory is overwritten by another process.
func TestHostileJava(t *testing.T) {
	testkit.Nightly(t, "TestHostileInterpreters has hostile processes of Python")
	need.Root(t)
	need.Tools(t, "gcc", "java", "javac")
	needInterpreters(t)
	dir := rig.PublicDir(t)
	scribble := filepath.Join(dir, "scribble")
	rig.Compile(t, "gcc", "-O2", "-Wall", "-Wextra", "-o", scribble, "testdata/interpreters/scribble.c")
	rig.Compile(t, "javac", "-d", dir, "testdata/interpreters/Hostile.java")
	java := func(name string, more ...string) []string {
		named := filepath.Join(dir, name)
		if err := os.Symlink(find(t, "java"), named); err != nil {
			t.Fatal(err)
		}
		return append([]string{named, "-cp", dir, "-XX:+UseSerialGC", "-XX:-CreateCoredumpOnCrash",
			"-XX:ErrorFile=/dev/null", "-Xmx64m", "Hostile"}, more...)
	}
	host := hostileRuntime{good: "hwgood", caller: "Hostile.goodCaller", foreign: "Hostile.first"}
	for _, mode := range scribbled {
		// One arena: all other data is in separate mappings.
		args := append([]string{"env", "MALLOC_ARENA_MAX=1", scribble, mode}, java("hw"+mode)...)
		startAsNobody(t, "/", args...)
		host.hostile = append(host.hostile, "hw"+mode)
	}
	startAsNobody(t, "/", java(host.good, "good")...)
	host.profile(t)
}

func needInterpreters(t *testing.T) {
	t.Helper()
	if runtime.GOARCH != "amd64" {
		t.Skip("functions of languages are not named here")
	}
}

// find returns the path of a program, without links.
func find(t *testing.T, name string) string {
	t.Helper()
	path, err := exec.LookPath(name)
	if err == nil {
		path, err = filepath.EvalSymlinks(path)
	}
	if err != nil {
		t.Fatal(err)
	}
	return path
}

// profile requires that all profiles arrive, with the names of the good program, and that the resource use is small:
// for at least three profiles, and for 32 s of them.
func (r *hostileRuntime) profile(t *testing.T) {
	const profiled, mostRSS = 3, hostileRSS + engine.MaxRemembered>>10
	const interval, warm, length = 4 * time.Second, 12 * time.Second, 32 * time.Second
	received := rig.StartReceiver(t)
	config := strings.Replace(rig.HostConfig(received.URL, "hostile", ""), `"2s"`, fmt.Sprintf("%q", interval), 1)
	h := rig.StartPrioritized(t, config)
	begun := time.Now()
	watch(t, h, "a profile with functions of the good program", mostRSS, func() bool {
		all := received.Profiles("hostile")
		return time.Since(begun) >= warm && len(all) > 0 && r.named(all[len(all)-1]) > 0
	})

	from, cpu := time.Now(), rig.CPUTime(t, fmt.Sprint(h.PID()))
	rounds := len(received.Profiles("hostile"))
	most := watch(t, h, "more profiles, of all hostile processes", mostRSS, func() bool {
		all := received.Profiles("hostile")[rounds:]
		return time.Since(from) >= length && len(all) >= profiled && len(r.notSampled(all)) == 0
	})
	profiles := received.Profiles("hostile")[rounds:]
	elapsed := time.Since(from)
	cpu = rig.CPUTime(t, fmt.Sprint(h.PID())) - cpu

	m := h.Metrics(t)
	const frames = "pyroscope_ebpf_runtime_frames"
	t.Logf("%d profiles in %v, %v, %.1f %% of a CPU, %.0f frames with a name, %.0f without", len(profiles),
		elapsed.Round(time.Millisecond), most, 100*cpu.Seconds()/elapsed.Seconds(),
		m.Sum(t, frames+"_total"), m.Sum(t, frames+"_unnamed_total"))
	if want := int(elapsed/interval) - 2; len(profiles) < want {
		t.Errorf("%d profiles in %v, want %d", len(profiles), elapsed, want)
	}
	checkOverdue(t, h)
	r.check(t, profiles)
}

// named returns the time of the good program in a profile that has its functions.
func (r *hostileRuntime) named(p *profile.Profile) (sum int64) {
	for _, s := range rig.OfCommand(rig.Stacks(p), r.good) {
		if s.Has(r.caller) {
			sum += s.Value
		}
	}
	return sum
}

// notSampled returns which hostile processes no profile has.
func (r *hostileRuntime) notSampled(profiles []*profile.Profile) []string {
	var all []rig.Stack
	for _, p := range profiles {
		all = append(all, rig.Stacks(p)...)
	}
	return slices.DeleteFunc(slices.Clone(r.hostile), func(name string) bool { return len(rig.OfCommand(all, name)) > 0 })
}

// check requires the names of the good program in each profile, and no names of other programs in it.
func (r *hostileRuntime) check(t *testing.T, profiles []*profile.Profile) {
	var all []rig.Stack
	for i, p := range profiles {
		found := rig.OfCommand(rig.Stacks(p), r.good)
		named := r.named(p)
		t.Logf("profile %d: %d of %d ms of the good program have its functions", i, named/1e6, rig.Total(found)/1e6)
		all = append(all, rig.Stacks(p)...)
		if named == 0 && rig.Total(found) >= 3*p.Period { // on a busy host the program is hardly sampled
			t.Errorf("profile %d of %d lacks the functions of the good program:\n%s", i, len(profiles), rig.Show(found, 3))
		}
	}
	for _, name := range r.hostile {
		of := rig.OfCommand(all, name)
		t.Logf("%s: %d stacks, such as\n%.400s", name, len(of), rig.Show(of, 1))
	}
	for _, s := range rig.OfCommand(all, r.good) {
		for _, name := range s.Functions {
			if strings.HasPrefix(name, r.foreign) {
				t.Errorf("the good program has names of another: %v", s)
			}
		}
	}
}
