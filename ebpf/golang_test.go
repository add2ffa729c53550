package ebpf

import (
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"sort"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/google/pprof/profile"

	"github.com/headwater/headwater/integration/testkit"
	"github.com/headwater/headwater/integration/testkit/need"
)

// buildGo builds a program of testdata/golang with flags.
func buildGo(t testing.TB, name string, env []string, flags ...string) string {
	t.Helper()
	source := filepath.Join("testdata", "golang", name)
	key := slices.Concat([]string{runtime.Version()}, env, []string{"flags"}, flags, textsOf(t, source))
	if slices.Contains(env, "CGO_ENABLED=1") {
		need.Tools(t, "gcc")
		key = append(key, outputOf(t, "gcc", "--version"))
	}
	dir := testkit.Fixture(t, "ebpf-go-"+name, key, func(dir string) error {
		args := slices.Concat([]string{"build", "-o", filepath.Join(dir, name)}, flags, []string{"./" + source})
		cmd := exec.Command("go", args...)
		cmd.Env = slices.Concat(os.Environ(), []string{"GOFLAGS="}, env)
		out, err := cmd.CombinedOutput()
		if err != nil {
			return fmt.Errorf("%v: %w\n%s", cmd, err, out)
		}
		return nil
	})
	return filepath.Join(dir, name)
}

// textsOf returns the names and texts of the files in a folder.
func textsOf(t testing.TB, dir string) (texts []string) {
	t.Helper()
	files, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range files {
		text, err := os.ReadFile(filepath.Join(dir, f.Name()))
		if err != nil {
			t.Fatal(err)
		}
		texts = append(texts, f.Name(), string(text))
	}
	return texts
}

// outputOf returns what a command prints.
func outputOf(t testing.TB, name string, args ...string) string {
	t.Helper()
	out, err := exec.Command(name, args...).CombinedOutput()
	if err != nil {
		t.Fatalf("%s %v: %v\n%s", name, args, err, out)
	}
	return string(out)
}

// goSymbols names addresses of a program by go tool nm of a twin that is not stripped.
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

// goStacks returns the stacks of a program. Frames of the program itself are named by symbols, all other frames by the
// names in the profile.
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

func goOptions() Options {
	o := Options{}
	o.Comm, o.SampleRate, o.Labels = CommNone, 997, []string{"pid"}
	return o
}

// plainSeconds is how long the program plain runs. Go's own profile then has 400 samples.
const plainSeconds = "4"

// plainRun is a run of the program plain, with a session's profiles and Go's own.
type plainRun struct {
	program  string
	profiles []Profile
	own      *profile.Profile
}

// startPlain starts the program plain. The function that it returns waits for its end.
func startPlain(t testing.TB, program string) (end func() *profile.Profile) {
	t.Helper()
	return startOwn(t, program, plainSeconds)
}

// startOwn starts a program that writes Go's own profile of some seconds of its CPU time. The function that it returns
// waits for its end.
func startOwn(t testing.TB, program, seconds string) (end func() *profile.Profile) {
	t.Helper()
	path := filepath.Join(t.TempDir(), "cpu.pprof")
	cmd := exec.Command(program, seconds, path)
	cmd.Stderr = os.Stderr
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	return func() *profile.Profile {
		t.Helper()
		if err := cmd.Wait(); err != nil {
			t.Fatal(err)
		}
		file, err := os.Open(path)
		if err != nil {
			t.Fatal(err)
		}
		defer file.Close()
		own, err := profile.Parse(file)
		if err != nil {
			t.Fatal(err)
		}
		return own
	}
}

// goRun is a run of several programs in Go at once. callback and pgo were sampled when their rows were ready.
type goRun struct {
	plain                     plainRun // stripped
	callback, pgo             string   // the programs
	callbackRuns, pgoProfiles []Profile
}

var goRuns shared[*goRun]

// runGo returns the run of the programs in Go.
func runGo(t testing.TB) *goRun {
	t.Helper()
	need.Root(t)
	return goRuns.get(t, func() *goRun {
		r := &goRun{
			callback: buildGo(t, "callback", []string{"CGO_ENABLED=1"}),
			pgo:      buildGo(t, "pgo", []string{"CGO_ENABLED=0"}),
		}
		r.plain.program = buildGo(t, "plain", []string{"CGO_ENABLED=0"}, strippedGo)
		s := start(t, goOptions())
		defer s.Close()
		endPlain := startPlain(t, r.plain.program)
		callback, pgo := testkit.Run(t, exec.Command(r.callback, "1000")), testkit.Run(t, exec.Command(r.pgo))
		early := settle(t, s, callback, pgo)
		late := collectOf(t, s, wantedSamples, callback, pgo)
		syscall.Kill(int(callback), syscall.SIGKILL)
		syscall.Kill(int(pgo), syscall.SIGKILL)
		r.plain.own = endPlain()
		rest, err := s.Collect()
		if err != nil {
			t.Fatal(err)
		}
		r.plain.profiles, r.callbackRuns = slices.Concat(early, late, rest), late
		for _, p := range late {
			p.Pprof = p.Pprof.Copy()
			p.Pprof.Sample = ofPID(p, pgo)
			r.pgoProfiles = append(r.pgoProfiles, p)
		}
		return r
	})
}

const strippedGo = "-ldflags=-s -w"

// TestGoStacks profiles a Go program, stripped and not. Functions of the program have callers as in its source,
// functions of the runtime as in Go's own profile, and stacks end where goroutines and threads start.
func TestGoStacks(t *testing.T) {
	t.Parallel()
	need.Root(t)
	plain := []string{"CGO_ENABLED=0"}
	twin := buildGo(t, "plain", plain)
	t.Run("stripped", func(t *testing.T) { runGo(t).plain.check(t, twin) })
	t.Run("with symbols", func(t *testing.T) {
		testkit.Nightly(t, "the part \"stripped\" checks the same program, which has fewer names for us")
		profilePlain(t, twin).check(t, twin)
	})
	t.Run("pie", func(t *testing.T) {
		testkit.Nightly(t, "the part \"stripped\" checks the same program at a fixed address")
		twin := buildGo(t, "plain", plain, "-buildmode=pie")
		profilePlain(t, buildGo(t, "plain", plain, "-buildmode=pie", strippedGo)).check(t, twin)
	})
}

// profilePlain profiles a program that was built from plain's source.
func profilePlain(t testing.TB, program string) *plainRun {
	t.Helper()
	s := start(t, goOptions())
	defer s.Close()
	own := startPlain(t, program)()
	profiles, err := s.Collect()
	if err != nil {
		t.Fatal(err)
	}
	return &plainRun{program, profiles, own}
}

// check judges the stacks of the program, whose functions a twin names.
func (r *plainRun) check(t testing.TB, twin string) {
	t.Helper()
	all := goStacks(r.profiles, r.program, symbolsOf(t, twin))
	stacks := slices.DeleteFunc(slices.Clone(all), func(s goStack) bool { return endsUnready(s.frames) })
	if unready := len(all) - len(stacks); unready*2 > len(all) {
		t.Errorf("%d of %d distinct stacks end where rows are not ready", unready, len(all))
	}
	checkCallers(t, stacks)
	checkGoRoots(t, stacks)
	compareOwn(t, stacks, r.own)
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

// checkGoRoots demands that stacks end at the start of a goroutine or thread, or where the scheduler has taken a
// goroutine off the thread, also when it was about to grow its stack.
func checkGoRoots(t testing.TB, stacks []goStack) {
	t.Helper()
	roots := map[string]int64{}
	whole, all := int64(0), int64(0)
	for _, s := range stacks {
		root := s.frames[len(s.frames)-1]
		if root == "runtime.morestack" && !isPreempted(s.frames) {
			t.Errorf("a stack that ends at runtime.morestack is called whole: %v", s)
		}
		roots[root] += s.count
		all += s.count
		switch root {
		case "runtime.goexit", "runtime.mstart", "runtime.mcall", "runtime.rt0_go", "runtime.morestack",
			"runtime.clone": // a new thread starts in it
			whole += s.count
		default:
			if !strings.HasPrefix(root, "[incomplete: ") && !strings.HasPrefix(root, "_rt0_") {
				t.Errorf("a stack that ends at %s is called whole: %v", root, s)
			} else if s.count > 1 {
				t.Log(s)
			}
		}
	}
	t.Logf("%d of %d stacks are whole; roots: %v", whole, all, roots)
	if all < 100 || float64(whole) < 0.99*float64(all) {
		t.Errorf("%d of %d stacks are whole", whole, all)
	}
}

// compareOwn compares the callers of leaves with the ones in a profile by Go itself, which continues from the runtime's
// stacks on the goroutine's. Frequent callers of one profile must also be in the other.
func compareOwn(t testing.TB, stacks []goStack, own *profile.Profile) {
	t.Helper()
	theirs := ownStacks(own)
	compareCallers(t, "Go's own profile", chains(theirs), chains(stacks))
	compareCallers(t, "our profile", chains(stacks), chains(theirs))
}

// chains counts the stacks by the frames above the leaf, without the frames that Go's profiler omits or adds: the end
// of a goroutine's stack, where it grows, wrappers that the compiler makes for go statements, and the preemption that
// its own signal delays.
func chains(stacks []goStack) map[string]int64 {
	counts := map[string]int64{}
	for _, s := range stacks {
		frames := slices.DeleteFunc(slices.Clone(s.frames), func(f string) bool {
			return f == "runtime.goexit" || f == "runtime.morestack" || f == "runtime.asyncPreempt" ||
				strings.Contains(f, ".gowrap")
		})
		counts[strings.Join(frames[min(1, len(frames)):], " ")] += s.count
	}
	return counts
}

// compareCallers demands that others has all chains that are more than 3 % of counts and of which others should have
// 20: that it has none by chance is rarer than once in a hundred million comparisons.
func compareCallers(t testing.TB, whose string, counts, others map[string]int64) {
	t.Helper()
	all, most := sum(counts), sum(others)
	shared, frequent := int64(0), 0
	for chain, n := range counts {
		if others[chain] > 0 {
			shared += n
		}
		if n*33 < all || n*most < 20*all {
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

func sum(counts map[string]int64) (all int64) {
	for _, n := range counts {
		all += n
	}
	return all
}

// TestGoCallback profiles a program whose stacks go from Go to C, through the
// C library, and back to Go.
func TestGoCallback(t *testing.T) {
	t.Parallel()
	need.Root(t)
	need.Tools(t, "gcc")
	r := runGo(t)
	stacks := goStacks(r.callbackRuns, r.callback, symbolsOf(t, r.callback))
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
