package ebpf

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/pprof/profile"

	"github.com/headwater/headwater/integration/testkit/need"
)

// isPreempted reports whether the scheduler has taken the goroutine off the thread: a goroutine checks for preemption
// where it checks the size of its stack.
func isPreempted(frames []string) bool {
	return slices.Contains(frames, "runtime.goschedImpl") || slices.Contains(frames, "runtime.preemptPark")
}

// buildGrowing builds the program growing, with a release of Go if one is given.
func buildGrowing(t testing.TB, release string, env []string, flags ...string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "growing")
	cmd := exec.Command("go", slices.Concat([]string{"build", "-o", path}, flags, []string{"."})...)
	cmd.Dir = filepath.Join("testdata", "golang", "growing")
	cmd.Env = slices.Concat(os.Environ(), []string{"GOFLAGS=", "GOENV=off", "GOWORK=off"}, env)
	if release != "" {
		cmd.Env = append(cmd.Env, "GOTOOLCHAIN="+release, "GOROOT=", "GOTOOLCHAIN_INTERNAL_SWITCH_VERSION=",
			"GOTOOLCHAIN_INTERNAL_SWITCH_COUNT=", "GOEXPERIMENT=")
	}
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%v: %v\n%s", cmd, err, out)
	}
	// Before Go 1.13 "go version" does not know the release of a program.
	if data, err := os.ReadFile(path); err != nil || !bytes.Contains(data, []byte(release)) {
		t.Fatalf("built by another release than %s: %v", release, err)
	}
	return path
}

// TestGoGrowth profiles goroutines whose stacks grow. Go's runtime copies them on the thread's own stack, from which no
// frame record leads back.
func TestGoGrowth(t *testing.T) {
	t.Parallel()
	need.Root(t)
	checkGrowing(t, buildGrowing(t, "", []string{"CGO_ENABLED=0"}))
}

// TestGoReleases does the same with old releases, whose tool chains it downloads. Before Go 1.21 no frame record leads
// back from the garbage collector either.
func TestGoReleases(t *testing.T) {
	if os.Getenv("HEADWATER_LARGE") == "" {
		t.Skip("downloads 1.2 GB; HEADWATER_LARGE=1 runs it")
	}
	need.Root(t)
	for _, release := range []string{
		"go1.12.17", "go1.13.15", "go1.14.15", "go1.15.15", "go1.16.15", "go1.17.13", "go1.18.10", "go1.19.13",
		"go1.20.14", "go1.21.13", "go1.24.13",
	} {
		t.Run(release, func(t *testing.T) {
			checkGrowing(t, buildGrowing(t, release, []string{"CGO_ENABLED=0"}))
		})
		t.Run(release+" pie", func(t *testing.T) {
			checkGrowing(t, buildGrowing(t, release, []string{"CGO_ENABLED=0"}, "-buildmode=pie"))
		})
	}
}

// checkGrowing profiles the program growing and compares with its source and Go's own profile.
func checkGrowing(t *testing.T, program string) {
	t.Helper()
	s := start(t, goOptions())
	defer s.Close()
	own := startOwn(t, program, "2")()
	profiles, err := s.Collect()
	if err != nil {
		t.Fatal(err)
	}
	stacks := goStacks(profiles, program, symbolsOf(t, program))
	stacks = slices.DeleteFunc(stacks, func(s goStack) bool { return endsUnready(s.frames) })
	checkGoRoots(t, stacks)
	checkGrowth(t, stacks)
	ours := shareBelow(stacks, "main.handle", "runtime.newstack")
	theirs := shareBelow(ownStacks(own), "main.handle", "runtime.newstack")
	t.Logf("%.3f of our samples and %.3f of Go's own are where the stack of main.handle grows", ours, theirs)
	// Go's own profile has 100 samples a second of CPU time, a few dozen at this place, and fewer on a busy machine.
	if theirs < 0.03 || ours < 0.4*theirs || ours > 2.5*theirs {
		t.Errorf("%.3f of our samples and %.3f of Go's own are where the stack of main.handle grows", ours, theirs)
	}
}

// checkGrowth demands that growing stacks have the functions that needed a larger stack, as in the source.
func checkGrowth(t testing.TB, stacks []goStack) {
	t.Helper()
	right, said, all := int64(0), int64(0), int64(0)
	for _, s := range stacks {
		at := slices.Index(s.frames, "runtime.newstack")
		if at < 0 || isPreempted(s.frames) {
			continue
		}
		all += s.count
		if strings.HasPrefix(s.frames[len(s.frames)-1], "[incomplete: ") { // while Go moves the stack
			said += s.count
			continue
		}
		callers := s.frames[at+1:]
		if n := len(callers); n > 2 && callers[0] == "runtime.morestack" && callers[n-1] == "runtime.goexit" {
			right += s.count
		} else {
			t.Log(s)
		}
	}
	if all < 100 || right+said != all || 4*said > all {
		t.Errorf("%d of %d stacks that grow have their callers, %d say that they are incomplete", right, all, said)
	}
}

// ownStacks returns the stacks of a profile by Go itself.
func ownStacks(own *profile.Profile) (stacks []goStack) {
	for _, s := range own.Sample {
		var frames []string
		for _, l := range s.Location {
			frames = append(frames, l.Line[len(l.Line)-1].Function.Name) // the lines before are inlined
		}
		stacks = append(stacks, goStack{frames, s.Value[0]})
	}
	return stacks
}

// shareBelow returns the share of the stacks in which one function has called the other.
func shareBelow(stacks []goStack, caller, callee string) float64 {
	with, all := int64(0), int64(0)
	for _, s := range stacks {
		all += s.count
		if at := slices.Index(s.frames, callee); at >= 0 && slices.Contains(s.frames[at:], caller) {
			with += s.count
		}
	}
	return float64(with) / float64(all)
}
