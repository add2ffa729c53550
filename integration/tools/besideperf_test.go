package tools

import (
	"fmt"
	"maps"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/headwater/headwater/integration/testkit/need"
	records "github.com/headwater/headwater/integration/testkit/record"
	"github.com/headwater/headwater/integration/testkit/rig"
)

// profilerRuns is what a profiler made of one program, in all rounds.
type profilerRuns struct {
	Samples float64 `json:"samples"` // whose leaf is in no kernel
	Named   float64 `json:"named"`   // share of the samples whose leaf has a name

	// One value a round.
	Bytes   []float64 `json:"bytes"`           // of the file
	CPU     []float64 `json:"cpu_seconds"`     // of the program
	Wall    []float64 `json:"seconds"`         // of the program
	Own     []float64 `json:"own_cpu_seconds"` // of the profiler, until it has written its file
	Reading []float64 `json:"reading_seconds"` // CPU time of the command that prints all stacks of the file with names

	aliases map[string]string  // see aliasesOf
	self    map[string]float64 // samples, by the function at the leaf; "" if it has no name
}

// functionShares is how much of the samples a function has by itself.
type functionShares struct {
	Name      string  `json:"name"`
	Headwater float64 `json:"headwater"`
	Perf      float64 `json:"perf"`
	Bound     float64 `json:"bound"` // what sampling lets them differ by
}

// besidePerf is what both made of one program.
type besidePerf struct {
	Plain     profilerRuns     `json:"plain"` // without a profiler
	Headwater profilerRuns     `json:"headwater"`
	Perf      profilerRuns     `json:"perf"`
	Functions []functionShares `json:"functions"` // the twenty with most samples in both together
	Within    int              `json:"within"`    // number of these functions that differ by less than the bound
}

const besideRate = 997

// TestBesidePerf records two programs with headwater and with perf, and each without a profiler, in alternation,
// HEADWATER_BESIDE_PERF times. For the twenty functions with most samples, the shares must be the same within four
// standard deviations of their difference, which for two samples of n and m is sqrt(p (1-p) (1/n + 1/m)). Samples taken
// in the kernel are left out of the shares: there the program also pays for the profilers' own work.
//
// make test leaves it out: it takes minutes, and TestPerf compares one program.
func TestBesidePerf(t *testing.T) {
	rounds, err := strconv.Atoi(os.Getenv("HEADWATER_BESIDE_PERF"))
	if err != nil {
		t.Skip("a comparison of minutes; make -C integration bench-perf runs it")
	}
	need.Root(t)
	need.Tools(t, "perf", "perl", "gcc")
	save := records.Test(t, "perf", fmt.Sprintf("make -C integration bench-perf ROUNDS=%d RECORD=1", rounds))
	weights := filepath.Join(t.TempDir(), "weights")
	rig.Compile(t, "gcc", "-O2", "-fomit-frame-pointer", "-o", weights, "testdata/weights.c")
	found, aliases := map[string]*besidePerf{}, aliasesOf(t, libc(t))
	for name, program := range map[string][]string{
		"weights": {weights, "6000"},
		"perl":    {"perl", "testdata/words.pl"},
	} {
		b := &besidePerf{}
		b.Headwater.aliases, b.Perf.aliases = aliases, aliases
		for round := range rounds {
			b.round(t, round, name, program)
		}
		b.compare(t, name)
		found[name] = b
	}
	save(found)
}

// libc returns the path of the C library of perl.
func libc(t *testing.T) string {
	t.Helper()
	perl, err := exec.LookPath("perl")
	require.NoError(t, err)
	match := regexp.MustCompile(`=> (\S*/libc\.so\S*)`).FindStringSubmatch(run(t, "ldd", perl))
	require.NotNil(t, match)
	return match[1]
}

// aliasesOf returns one name for each of the names that functions of a file have, where they have several: free is
// cfree too, and each profiler chooses for itself.
func aliasesOf(t *testing.T, file string) map[string]string {
	t.Helper()
	first := map[uint64]string{}
	table := rig.SymbolTable(t, file, rig.BuildID(t, file))
	for _, s := range table {
		if name := first[s.Start]; name == "" || s.Name < name {
			first[s.Start] = s.Name
		}
	}
	aliases := map[string]string{}
	for _, s := range table {
		aliases[s.Name] = ofCompiler.ReplaceAllString(first[s.Start], "")
	}
	return aliases
}

// round runs the program three times. The order differs in each round.
func (b *besidePerf) round(t *testing.T, round int, comm string, program []string) {
	data := filepath.Join(t.TempDir(), "perf.data")
	ours := filepath.Join(t.TempDir(), "headwater.pb.gz")
	rate := strconv.Itoa(besideRate)
	runs := []func(){
		func() { b.Plain.run(t, nil, program) },
		func() {
			b.Headwater.run(t, []string{rig.Binary(t), "record", "-q", "-F", rate, "-o", ours, "--"}, program)
			b.Headwater.addFile(t, ours)
			b.Headwater.Reading = append(b.Headwater.Reading, b.Headwater.readHeadwater(t, ours, comm))
		},
		func() {
			b.Perf.run(t, []string{"perf", "record", "-q", "-e", "cpu-clock", "-F", rate, "--call-graph", "dwarf", "-o", data,
				"--"}, program)
			b.Perf.addFile(t, data)
			b.Perf.Reading = append(b.Perf.Reading, b.Perf.readPerf(t, data, comm))
		},
	}
	for i := range runs {
		runs[(i+round)%len(runs)]()
	}
}

// run runs the program below a profiler, and adds the times of both. bash reports the program's time, including the
// kernel's work in the program's context.
func (r *profilerRuns) run(t *testing.T, profiler, program []string) {
	t.Helper()
	times := filepath.Join(t.TempDir(), "times")
	const timed = `TIMEFORMAT="%3R %3U %3S"; { time "$@" >/dev/null; } 2>"$0"`
	words := slices.Concat(profiler, []string{"bash", "-c", timed, times}, program)
	cmd := exec.Command(words[0], words[1:]...)
	cmd.Env = append(os.Environ(), "PERL_HASH_SEED=0", "PERL_PERTURB_KEYS=0")
	out, err := cmd.CombinedOutput()
	require.NoError(t, err, "%v: %s", cmd, out)
	lines := strings.Split(strings.TrimSpace(rig.ReadFile(t, times)), "\n")
	var wall, user, system float64
	_, err = fmt.Sscan(lines[len(lines)-1], &wall, &user, &system)
	require.NoError(t, err, lines)
	r.Wall, r.CPU = append(r.Wall, wall), append(r.CPU, user+system)
	if profiler != nil {
		all := cmd.ProcessState.UserTime() + cmd.ProcessState.SystemTime()
		r.Own = append(r.Own, all.Seconds()-user-system)
	}
}

func (r *profilerRuns) addFile(t *testing.T, path string) {
	t.Helper()
	info, err := os.Stat(path)
	require.NoError(t, err)
	r.Bytes = append(r.Bytes, float64(info.Size()))
}

// ofCompiler matches additions of the linker to a function's name, and of compilers to a clone's name. headwater leaves
// out some of them.
var ofCompiler = regexp.MustCompile(`@.*|\.(constprop|isra|part|cold)(\.\d+)?`)

// add adds samples of a function, "" for none.
func (r *profilerRuns) add(name string, samples float64) {
	if r.self == nil {
		r.self = map[string]float64{}
	}
	name = ofCompiler.ReplaceAllString(name, "")
	if other := r.aliases[name]; other != "" {
		name = other
	}
	r.self[name] += samples
	r.Samples += samples
}

// readHeadwater adds the samples of a command in a recording. It returns the CPU time of headwater script.
func (r *profilerRuns) readHeadwater(t *testing.T, path, comm string) float64 {
	t.Helper()
	p := readProfile(t, path)
	for _, s := range rig.OfCommand(rig.Stacks(p), comm) {
		if s.Frames[len(s.Frames)-1].File == "[kernel.kallsyms]" {
			continue
		}
		frames := slices.DeleteFunc(s.Frames, func(f rig.Frame) bool { return strings.HasPrefix(f.Name, "[Perl") })
		name := frames[len(frames)-1].Name
		if strings.Contains(name, "+0x") || strings.HasPrefix(name, "[") {
			name = "" // a place, not a function
		}
		r.add(name, float64(s.Value)/float64(p.Period))
	}
	_, seconds := printed(t, rig.Binary(t), "script", path)
	return seconds
}

// readPerf adds the samples of a command in perf's data. It returns the CPU time of perf script.
func (r *profilerRuns) readPerf(t *testing.T, path, comm string) float64 {
	t.Helper()
	out, seconds := printed(t, "perf", "script", "--no-inline", "-i", path, "-F", "comm,ip,sym,dso")
	for sample := range strings.SplitSeq(out, "\n\n") {
		lines := strings.Split(strings.Trim(sample, "\n"), "\n")
		if len(lines) < 2 || strings.TrimSpace(lines[0]) != comm {
			continue
		}
		_, leaf, _ := strings.Cut(strings.TrimSpace(lines[1]), " ")
		name, file, _ := strings.Cut(leaf, " (")
		if strings.HasPrefix(file, "[kernel") {
			continue
		}
		if name == "[unknown]" {
			name = ""
		}
		r.add(name, 1)
	}
	return seconds
}

// printed returns what a command prints, and the CPU time that it took.
func printed(t *testing.T, name string, args ...string) (string, float64) {
	t.Helper()
	cmd := exec.Command(name, args...)
	cmd.Env = append(os.Environ(), "DEBUGINFOD_URLS=", "HOME="+t.TempDir()) // perf's cache might have debug files
	out, err := cmd.Output()
	require.NoError(t, err, "%v", cmd)
	return string(out), (cmd.ProcessState.UserTime() + cmd.ProcessState.SystemTime()).Seconds()
}

// bound is four standard deviations of the difference of two shares, which are the same in truth.
func (b *besidePerf) bound(ours, theirs float64) float64 {
	n, m := b.Headwater.Samples, b.Perf.Samples
	p := (ours*n + theirs*m) / (n + m)
	return 4 * math.Sqrt(p*(1-p)*(1/n+1/m))
}

// compare demands the same shares, and that headwater names no less.
func (b *besidePerf) compare(t *testing.T, program string) {
	ours, theirs := &b.Headwater, &b.Perf
	require.Greater(t, ours.Samples, 1000.0)
	require.Greater(t, theirs.Samples, 1000.0)
	ours.Named, theirs.Named = 1-ours.self[""]/ours.Samples, 1-theirs.self[""]/theirs.Samples
	t.Logf("%s: %.0f samples, perf %.0f; named %.2f %%, perf %.2f %%", program, ours.Samples, theirs.Samples,
		100*ours.Named, 100*theirs.Named)
	if ours.Named < theirs.Named-b.bound(ours.Named, theirs.Named) {
		t.Errorf("%s: headwater names the leaf of %.4f of the samples, perf of %.4f", program, ours.Named, theirs.Named)
	}
	for _, name := range b.top(20) {
		f := functionShares{Name: name, Headwater: ours.self[name] / ours.Samples, Perf: theirs.self[name] / theirs.Samples}
		f.Bound = b.bound(f.Headwater, f.Perf)
		differ := math.Abs(f.Headwater - f.Perf)
		t.Logf("%-40s %6.2f %% perf %6.2f %%, %.1f of the bound", name, 100*f.Headwater, 100*f.Perf, differ/f.Bound)
		if differ <= f.Bound {
			b.Within++
		} else {
			t.Errorf("%s: %s has %.4f of the samples, with perf %.4f", program, name, f.Headwater, f.Perf)
		}
		b.Functions = append(b.Functions, f)
	}
}

// top returns the names of the functions with most samples in both together.
func (b *besidePerf) top(count int) []string {
	both := map[string]float64{}
	for _, r := range []*profilerRuns{&b.Headwater, &b.Perf} {
		for name, samples := range r.self {
			both[name] += samples / r.Samples
		}
	}
	delete(both, "")
	names := slices.SortedFunc(maps.Keys(both), func(x, y string) int {
		if both[x] > both[y] || both[x] == both[y] && x < y {
			return -1
		}
		return 1
	})
	return names[:min(count, len(names))]
}
