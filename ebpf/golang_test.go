package ebpf

import (
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"sort"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/pprof/profile"

	"github.com/headwater/headwater/integration/testkit/need"
	"github.com/headwater/headwater/integration/testkit/retry"
)

// buildGo builds a program of testdata/golang with flags.
func buildGo(t testing.TB, name string, env []string, flags ...string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), name)
	args := slices.Concat([]string{"build", "-o", path}, flags, []string{"./testdata/golang/" + name})
	cmd := exec.Command("go", args...)
	cmd.Env = slices.Concat(os.Environ(), []string{"GOFLAGS="}, env)
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%v: %v\n%s", cmd, err, out)
	}
	return path
}

// goSymbols names addresses of a program by go tool nm, which is asked about a
// twin that is not stripped.
type goSymbols struct {
	starts []uint64
	names  map[uint64]string
}

func symbolsOf(t testing.TB, path string) goSymbols {
	t.Helper()
	out, err := exec.Command("go", "tool", "nm", path).Output()
	if err != nil {
		t.Fatal(err)
	}
	s := goSymbols{names: make(map[uint64]string)}
	for line := range strings.Lines(string(out)) {
		fields := strings.Fields(line)
		if len(fields) < 3 || strings.ToUpper(fields[1]) != "T" {
			continue
		}
		addr, err := strconv.ParseUint(fields[0], 16, 64)
		if err != nil {
			t.Fatal(err)
		}
		name := strings.TrimSuffix(strings.Join(fields[2:], " "), ".abi0")
		if old, ok := s.names[addr]; !ok || old == "runtime.text" {
			s.names[addr] = name
		}
	}
	s.starts = slices.Sorted(maps.Keys(s.names))
	return s
}

func (s goSymbols) name(addr uint64) string {
	i := sort.Search(len(s.starts), func(i int) bool { return s.starts[i] > addr })
	if i == 0 {
		return "?"
	}
	return s.names[s.starts[i-1]]
}

// goStack is the user part of a stack, leaf first, with its number of samples.
type goStack struct {
	frames []string
	count  int64
}

func (s goStack) String() string { return fmt.Sprintf("%d %s", s.count, strings.Join(s.frames, " ")) }

// goStacks returns the stacks of a program. Frames of the program itself are
// named by symbols, others by the name that the profile gives them.
func goStacks(profiles []Profile, program string, symbols goSymbols) (stacks []goStack) {
	for _, p := range profiles {
		for _, sample := range p.Pprof.Sample {
			if mine := userFrames(sample, program, symbols); len(mine) > 0 {
				stacks = append(stacks, goStack{mine, sample.Value[0] / p.Pprof.Period})
			}
		}
	}
	return stacks
}

func userFrames(sample *profile.Sample, program string, symbols goSymbols) (frames []string) {
	mine := false
	for _, l := range sample.Location {
		switch {
		case l.Mapping != nil && strings.Contains(l.Mapping.File, "kernel"):
		case l.Mapping != nil && l.Mapping.File == program:
			mine = true
			frames = append(frames, symbols.name(l.Address))
		case len(l.Line) > 0:
			frames = append(frames, l.Line[0].Function.Name)
		}
	}
	if !mine {
		return nil
	}
	return frames
}

// runGo profiles a program that runs for some seconds.
func runGo(t testing.TB, program string, args ...string) []Profile {
	t.Helper()
	o := DefaultOptions()
	o.Comm, o.SampleRate = CommNone, 397
	s := start(t, o)
	defer s.Close()
	cmd := exec.Command(program, args...)
	cmd.Stderr = os.Stderr
	if err := cmd.Run(); err != nil {
		t.Fatal(err)
	}
	time.Sleep(300 * time.Millisecond)
	profiles, err := s.Collect()
	if err != nil {
		t.Fatal(err)
	}
	return profiles
}

// TestGoStacks profiles a Go program, stripped and not. Functions of the program
// are called as its source says, those of the runtime as Go's own profiler says,
// and stacks end where goroutines and threads begin.
func TestGoStacks(t *testing.T) {
	need.Root(t)
	twin := buildGo(t, "plain", []string{"CGO_ENABLED=0"})
	for name, c := range map[string]struct {
		twin  string
		flags []string
	}{
		"with symbols": {twin, nil},
		"stripped":     {twin, []string{"-ldflags=-s -w"}},
		"pie": {buildGo(t, "plain", []string{"CGO_ENABLED=0"}, "-buildmode=pie"),
			[]string{"-buildmode=pie", "-ldflags=-s -w"}},
	} {
		try := func(t *retry.T) {
			program := buildGo(t, "plain", []string{"CGO_ENABLED=0"}, c.flags...)
			own := filepath.Join(t.TempDir(), "cpu.pprof")
			stacks := goStacks(runGo(t, program, "4", own), program, symbolsOf(t, c.twin))
			checkCallers(t, stacks)
			checkGoRoots(t, stacks)
			compareOwn(t, stacks, own)
		}
		t.Run(name, func(t *testing.T) { retry.Run(t, try) })
	}
}

// checkCallers compares the callers of the functions that compute with the source.
func checkCallers(t testing.TB, stacks []goStack) {
	t.Helper()
	callers := []string{"main.middle", "main.burn", "main.main", "runtime.main", "runtime.goexit"}
	right, wrong := map[string]int64{}, int64(0)
	for _, s := range stacks {
		if s.frames[0] != "main.leaf" && s.frames[0] != "main.frame" {
			continue
		}
		if slices.Equal(s.frames[1:], callers) {
			right[s.frames[0]] += s.count
			continue
		}
		if wrong += s.count; wrong < 10 {
			t.Log(s)
		}
	}
	t.Logf("stacks as in the source: %v, others: %d", right, wrong)
	if right["main.leaf"] < 50 || right["main.frame"] == 0 || wrong*1000 > right["main.leaf"] {
		t.Errorf("%v stacks are as in the source, %d are not", right, wrong)
	}
}

// checkGoRoots demands that stacks end at the beginning of a goroutine or thread.
func checkGoRoots(t testing.TB, stacks []goStack) {
	t.Helper()
	roots := map[string]int64{}
	whole, all := int64(0), int64(0)
	for _, s := range stacks {
		root := s.frames[len(s.frames)-1]
		roots[root] += s.count
		all += s.count
		switch root {
		case "runtime.goexit", "runtime.mstart", "runtime.mcall", "runtime.rt0_go", "runtime.morestack":
			whole += s.count
		default:
			if s.count > 1 {
				t.Log(s)
			}
		}
	}
	t.Logf("%d of %d stacks are whole; roots: %v", whole, all, roots)
	if all < 100 || float64(whole) < 0.99*float64(all) {
		t.Errorf("%d of %d stacks are whole", whole, all)
	}
}

// compareOwn compares the callers of leaves with those in a profile by Go itself,
// which goes from the runtime's stacks on to the goroutine's. What is frequent in
// either must be in the other.
func compareOwn(t testing.TB, stacks []goStack, path string) {
	t.Helper()
	file, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	own, err := profile.Parse(file)
	if err != nil {
		t.Fatal(err)
	}
	var theirs []goStack
	for _, s := range own.Sample {
		var frames []string
		for _, l := range s.Location {
			frames = append(frames, l.Line[len(l.Line)-1].Function.Name) // those before are inlined
		}
		theirs = append(theirs, goStack{frames, s.Value[0]})
	}
	compareCallers(t, "Go's own profile", chains(theirs), chains(stacks))
	compareCallers(t, "our profile", chains(stacks), chains(theirs))
}

// chains counts the stacks by what is above the leaf, without the frames that Go's
// profiler leaves out or puts in: the end of a goroutine's stack, wrappers that the
// compiler makes for go statements, and the preemption that its own signal delays.
func chains(stacks []goStack) map[string]int64 {
	counts := map[string]int64{}
	for _, s := range stacks {
		frames := slices.DeleteFunc(slices.Clone(s.frames), func(f string) bool {
			return f == "runtime.goexit" || f == "runtime.asyncPreempt" || strings.Contains(f, ".gowrap")
		})
		counts[strings.Join(frames[min(1, len(frames)):], " ")] += s.count
	}
	return counts
}

// compareCallers demands that chains of more than 3 % are among others.
func compareCallers(t testing.TB, whose string, counts, others map[string]int64) {
	t.Helper()
	all := int64(0)
	for _, n := range counts {
		all += n
	}
	shared, frequent := int64(0), 0
	for chain, n := range counts {
		if others[chain] > 0 {
			shared += n
		}
		if n*33 < all {
			continue
		}
		if frequent++; others[chain] == 0 {
			t.Errorf("%.3f of %s is below these, which the other one does not have: %s", float64(n)/float64(all), whose, chain)
		}
	}
	t.Logf("%s: %d chains of callers, %.3f of the samples in those that both have",
		whose, len(counts), float64(shared)/float64(all))
	if frequent < 2 {
		t.Errorf("%s: %d frequent chains", whose, frequent)
	}
}

// TestGoCallback profiles a program whose stacks go from Go to C, through the
// C library, and back to Go.
func TestGoCallback(t *testing.T) { retry.Run(t, tryGoCallback) }

func tryGoCallback(t *retry.T) {
	need.Tools(t, "gcc")
	program := buildGo(t, "callback", []string{"CGO_ENABLED=1"})
	stacks := goStacks(runGo(t, program, "3"), program, symbolsOf(t, program))
	callers := []string{
		"main.less", "runtime.cgocallbackg", "runtime.cgocallback", "crosscall2", "compareInGo", "compare",
		"sortInC", "runtime.asmcgocall", "runtime.cgocall", "main.main", "runtime.main", "runtime.goexit",
	}
	right, wrong := int64(0), int64(0)
	for _, s := range stacks {
		if s.frames[0] != "main.less" {
			continue
		}
		rest := callers
		for _, f := range s.frames {
			if len(rest) > 0 && f == rest[0] {
				rest = rest[1:]
			}
		}
		if len(rest) == 0 && s.frames[len(s.frames)-1] == "runtime.goexit" {
			right += s.count
		} else if wrong += s.count; wrong < 5 {
			t.Log(s)
		}
	}
	t.Logf("%d stacks go through C, %d do not", right, wrong)
	// While the program's rows are being built, a walk is finished over a copy of
	// one stack, and cannot follow to the goroutine's.
	if right < 50 || wrong*33 > right {
		t.Errorf("%d stacks go through C, %d do not", right, wrong)
	}
}
