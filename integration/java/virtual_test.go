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

// TestVirtualThreads: a complete stack of a virtual thread has all of its methods, though most of them are frozen in
// the heap after it has waited. An incomplete stack is marked, and has no frames of other threads in their place.
func TestVirtualThreads(t *testing.T) {
	tried := false
	for _, java := range javas() {
		version, javac := versionOf(t, java)
		if version < 21 || javac == "" {
			continue
		}
		tried = true
		classes := t.TempDir()
		out, err := exec.Command(javac, "-d", classes, "testdata/Virtual.java").CombinedOutput()
		require.NoError(t, err, "%s", out)
		for _, flags := range []string{
			"-XX:+UseG1GC", "-XX:+UseSerialGC", "-XX:+UseParallelGC", "-XX:+UseZGC", "-XX:+UseShenandoahGC",
			"-Xint", "-XX:TieredStopAtLevel=1", "-XX:-UseCompressedOops",
		} {
			t.Run(strconv.Itoa(version)+" "+flags, func(t *testing.T) { tryVirtualThreads(t, java, flags, classes) })
		}
	}
	if !tried {
		t.Skip("neither Debian's Java nor one of HEADWATER_JAVAS has virtual threads")
	}
}

func tryVirtualThreads(t *testing.T, java, flags, classes string) {
	pid := testkit.Run(t, exec.Command(java, flags, "-cp", classes, "Virtual"))
	o := ebpf.DefaultOptions()
	o.SampleRate, o.KernelStacks, o.TargetsOnly = 499, false, true
	o.Targets = []map[string]string{{"__process_pid__": strconv.Itoa(int(pid)), "service_name": "virtual"}}
	session, err := ebpf.Start(o)
	require.NoError(t, err)
	defer session.Close()
	counts := map[string]int64{}
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
		return counts["frozen"] >= 50 && counts["platform"] >= 50
	})
	t.Logf("%v", counts)
}

// judgeVirtual says which kind a stack is of, leaf first, "" if it is of no interest.
func judgeVirtual(t *testing.T, names []string) string {
	t.Helper()
	if !slices.Contains(names, "Virtual.burn") || slices.Contains(names, "Interpreter") { // names that are not read yet
		return ""
	}
	ends := slices.IndexFunc(names, func(name string) bool { return strings.HasPrefix(name, "[incomplete") })
	guessed := slices.ContainsFunc(names, func(name string) bool { return strings.HasPrefix(name, "[guessed") })
	has := func(name string) bool { return slices.Contains(names, name) }
	count := func(name string) (n int) {
		for _, other := range names {
			if other == name {
				n++
			}
		}
		return n
	}
	carried := has("java.util.concurrent.ForkJoinPool.runWorker")
	switch {
	case has("Virtual.platform"):
		if ends >= 0 || guessed {
			return "platform, not whole"
		}
		return "platform"
	case ends >= 0 && strings.Contains(names[ends], "switched"):
		if carried {
			t.Errorf("frames of the carrier stand where frozen ones do: %v", names)
		}
		return "frozen"
	case ends >= 0 || guessed:
		return "not whole"
	case has("Virtual.first") && count("Virtual.chain") == 21 && has("Virtual.work"),
		has("Virtual.second") && count("Virtual.shallow") > 0:
		return "whole"
	}
	t.Errorf("a stack of a virtual thread counts as whole: %v", names)
	return "wrong"
}
