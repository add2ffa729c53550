package java

import (
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/headwater/headwater/ebpf"
	"github.com/headwater/headwater/integration/testkit"
)

// versionOf returns the version of Java that a VM says it is, and of its compiler "" if it has none.
func versionOf(t *testing.T, java string) (version int, javac string) {
	t.Helper()
	out, err := exec.Command(java, "-version").CombinedOutput()
	require.NoError(t, err, "%s", out)
	if m := regexp.MustCompile(`version "(\d+)`).FindSubmatch(out); m != nil {
		version, _ = strconv.Atoi(string(m[1]))
	}
	if path, err := exec.LookPath(java); err == nil {
		if path, err = filepath.EvalSymlinks(path); err == nil {
			javac, _ = exec.LookPath(filepath.Join(filepath.Dir(path), "javac"))
		}
	}
	return version, javac
}

// exports lets the test's program use continuations without virtual threads.
const exports = "--add-exports=java.base/jdk.internal.vm=ALL-UNNAMED"

// TestVirtualThreads: a complete stack of a virtual thread has all of its methods in order, though most of them are
// frozen in the heap after it has waited. An incomplete stack is marked, and has no frames of other threads in their
// place.
func TestVirtualThreads(t *testing.T) {
	tried := false
	for _, java := range testkit.Javas() {
		version, javac := versionOf(t, java)
		if version < 21 || javac == "" {
			continue
		}
		tried = true
		classes := t.TempDir()
		out, err := exec.Command(javac, exports, "-d", classes, "testdata/Virtual.java").CombinedOutput()
		require.NoError(t, err, "%s", out)
		for _, flags := range [][]string{
			{"-XX:+UseG1GC"}, {"-XX:+UseSerialGC"}, {"-XX:+UseParallelGC"}, {"-XX:+UseZGC"}, {"-XX:+UseShenandoahGC"},
			{"-Xint"}, {"-XX:TieredStopAtLevel=1"}, {"-XX:-TieredCompilation"}, {"-XX:-UseCompressedOops"},
			{"-Xint", "-XX:+UseZGC"},
		} {
			t.Run(strconv.Itoa(version)+" "+strings.Join(flags, " "), func(t *testing.T) {
				tryVirtualThreads(t, java, flags, classes, version >= described)
			})
		}
	}
	if !tried {
		t.Skip("neither Debian's Java nor one of HEADWATER_JAVAS has virtual threads")
	}
}

// described is the first version that is known to describe its continuations: JDK 21 does not.
const described = 25

// wholeStacks is how many stacks of each kind the test waits for.
const wholeStacks = 20

func tryVirtualThreads(t *testing.T, java string, flags []string, classes string, whole bool) {
	kinds := []string{"switched", "platform"}
	if whole {
		kinds = []string{"first", "second", "third", "pinned", "generator", "platform"}
	}
	args := append(slices.Clone(flags), exports, "-Xmx256m", "-cp", classes, "Virtual")
	pid := testkit.Run(t, exec.Command(java, args...))
	o := ebpf.Options{}
	o.SampleRate, o.NoKernelStacks, o.TargetsOnly = 499, true, true
	o.Targets = []map[string]string{{"__process_pid__": strconv.Itoa(int(pid)), "service_name": "virtual"}}
	session, err := ebpf.Start(o)
	require.NoError(t, err)
	defer session.Close()
	counts := map[string]int64{}
	defer func() { t.Logf("%v", counts) }()
	testkit.Eventually(t, "there are stacks of virtual threads and of others", func() bool {
		time.Sleep(500 * time.Millisecond)
		profiles, err := session.Collect()
		require.NoError(t, err)
		for _, p := range profiles {
			for _, s := range p.Pprof.Sample {
				var names []string
				for _, l := range s.Location {
					for _, line := range slices.All(l.Line) {
						names = append(names, line.Function.Name)
					}
				}
				if kind := judgeVirtual(t, names); kind != "" {
					counts[kind] += s.Value[0] / p.Pprof.Period
				}
			}
		}
		for _, kind := range kinds {
			if counts[kind] < wholeStacks {
				return false
			}
		}
		return true
	})
}

// The depths of the program's recursions: of 256 interpreted frames, the methods are known.
const depth, nested = 150, 60

// chainOf returns the methods that a chain of a depth calls, leaf first.
func chainOf(depth int) (names []string) {
	for i := range depth + 1 {
		names = append([]string{"Virtual.chain" + string("ABC"[i%3])}, names...)
	}
	return names
}

// judgeVirtual says which kind a stack is of, leaf first, "" if it is of no interest.
func judgeVirtual(t *testing.T, names []string) string {
	t.Helper()
	if !slices.Contains(names, "Virtual.burn") || slices.Contains(names, "Interpreter") { // names that are not read yet
		return ""
	}
	ends := slices.IndexFunc(names, func(name string) bool { return strings.HasPrefix(name, "[incomplete") })
	guessed := slices.ContainsFunc(names, func(name string) bool { return strings.HasPrefix(name, "[guessed") })
	carried := slices.Contains(names, "java.util.concurrent.ForkJoinPool.runWorker")
	kind := ""
	for _, of := range []string{"first", "second", "third", "pinned", "generator", "platform"} {
		if slices.Contains(names, "Virtual."+of) {
			kind = of
		}
	}
	switch {
	case ends >= 0 && strings.Contains(names[ends], "switched"):
		if carried {
			t.Errorf("frames of the carrier stand where frozen ones do: %v", names)
		}
		return "switched"
	case ends >= 0 || guessed:
		return "not whole"
	case kind == "":
		t.Errorf("a stack of a virtual thread counts as whole: %v", names)
		return "wrong"
	case kind == "platform":
		return kind
	}
	ours := slices.DeleteFunc(slices.Clone(names), func(name string) bool {
		return !strings.HasPrefix(name, "Virtual.") || strings.Contains(name, "ambda")
	})
	want := map[string][]string{
		"first":     slices.Concat([]string{"Virtual.burn", "Virtual.work"}, chainOf(depth), []string{"Virtual.first"}),
		"generator": slices.Concat([]string{"Virtual.burn", "Virtual.yields"}, chainOf(depth)),
		"pinned":    slices.Concat([]string{"Virtual.burn"}, chainOf(depth), []string{"Virtual.pinned"}),
		"third": slices.Concat([]string{"Virtual.burn"}, slices.Repeat([]string{"Virtual.nest"}, nested+1), chainOf(depth),
			[]string{"Virtual.third"}),
	}[kind]
	switch kind {
	case "generator": // a platform thread runs it
		ours = ours[:max(0, slices.Index(ours, "Virtual.generator"))]
	case "second":
		shallow := slices.Repeat([]string{"Virtual.shallow"}, max(1, len(ours)-2))
		want = slices.Concat([]string{"Virtual.burn"}, shallow, []string{"Virtual.second"})
	}
	if !slices.Equal(ours, want) || kind != "generator" && !slices.Contains(names, "java.lang.VirtualThread.run") {
		t.Errorf("%d frames of the kind %s: %v", len(names), kind, names)
		return "wrong"
	}
	return kind
}
