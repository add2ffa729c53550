package tools

import (
	"encoding/json"
	"fmt"
	"math"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/headwater/headwater/flame/compare"
	"github.com/headwater/headwater/integration/testkit"
	"github.com/headwater/headwater/integration/testkit/retry"
	"github.com/headwater/headwater/integration/testkit/rig"
)

// clocks are the parts of its time that each function of testdata/slower.c took by the program's own clock.
type clocks map[string]float64

// recording is a profile of one run of it.
type recording struct {
	file   string
	took   clocks
	rounds float64
	all    float64 // seconds that its functions took
}

// aRound is how many seconds a function took in a round by the program's own clock.
func (r *recording) aRound(function string) float64 { return r.took[function] * r.all / r.rounds }

// build compiles testdata/slower.c, and returns the program.
func build(t testing.TB, name string, work int) string {
	return compiled(t, name, "gcc", "-O1", fmt.Sprint("-DWORK=", work), "testdata/slower.c")
}

// recorded records one run of a program, of a number of rounds.
func recorded(t testing.TB, program string, rounds int) recording {
	folder, out, _, code := record(t, "-q", "-F", "2999", "--", program, fmt.Sprint(rounds))
	require.Equal(t, 0, code)
	took, all := clocks{}, 0.0
	for line := range strings.Lines(out) {
		var name string
		var seconds float64
		if n, _ := fmt.Sscan(line, &name, &seconds); n == 2 {
			took[name] = seconds
			all += seconds
		}
	}
	require.Len(t, took, 3, out)
	for name := range took {
		took[name] /= all
	}
	return recording{filepath.Join(folder, "headwater.pb.gz"), took, float64(rounds), all}
}

// side holds the runs on one side of a comparison.
type side []recording

func (s side) String() string {
	var files []string
	for _, r := range s {
		files = append(files, r.file)
	}
	return strings.Join(files, ",")
}

// clocks returns the clocks of the runs.
func (s side) clocks() (all []clocks) {
	for _, r := range s {
		all = append(all, r.took)
	}
	return all
}

// took is the mean of a function's part by the program's own clock; false if it is not one of its functions.
func (s side) took(function string) (mean float64, ok bool) {
	for _, r := range s {
		part, has := r.took[function]
		mean, ok = mean+part/float64(len(s)), has
	}
	return mean, ok
}

// steady reports whether every function took about the same part in all runs.
func (s side) steady() bool {
	for function := range s[0].took {
		least, most := s[0].took[function], s[0].took[function]
		for _, r := range s {
			least, most = min(least, r.took[function]), max(most, r.took[function])
		}
		if most > 1.04*least {
			return false
		}
	}
	return true
}

// oddest returns the run in which a function's part differs most from its part in the other runs.
func (s side) oddest() (at int) {
	worst := 0.0
	for function := range s[0].took {
		var parts []float64
		for _, r := range s {
			parts = append(parts, r.took[function])
		}
		slices.Sort(parts)
		middle := parts[len(parts)/2]
		for i, r := range s {
			if off := math.Abs(r.took[function]/middle - 1); off > worst {
				worst, at = off, i
			}
		}
	}
	return at
}

// diff runs headwater diff, and returns its report and its exit code.
func diff(t testing.TB, args ...string) (r compare.Report, code int) {
	cmd := exec.Command(rig.Binary(t), append([]string{"diff", "--json", "--check"}, args...)...)
	var text, err strings.Builder
	cmd.Stdout, cmd.Stderr = &text, &err
	_ = cmd.Run() // the exit code says how it went
	require.NoError(t, json.Unmarshal([]byte(text.String()), &r), err.String())
	return r, cmd.ProcessState.ExitCode()
}

// TestDiff: a function that became slower is the first that diff names, with bounds that hold, and for equal builds no
// function is named. The speed of machines varies: the test compares parts of the time of a run, and the program's own
// clock decides which function is slower.
//
// In make test the function takes three fifths longer, so that its part of the time grows by more than a third. Each
// side has 1,400 samples of it: these tell growth by 2 % from that by a third with an error of five standard
// deviations, also if a tenth of the samples are lost. In make nightly it takes a fifth longer.
func TestDiff(t *testing.T) {
	t.Parallel()
	if testkit.IsNightly() {
		retry.Run(t, tryDiff)
		return
	}
	old, slower := build(t, "shop", 100), build(t, "shop.new", 300)
	var base, after side
	for range 3 { // in turns, so that the machine's load affects both sides
		base = append(base, recorded(t, old, 500))
		after = append(after, recorded(t, slower, 500))
	}
	base = append(base, recorded(t, old, 500))
	requirePrice(t, base[:3], after)

	one, other := base[:2], base[2:]
	r, code := diff(t, "--per", "cpu", one.String(), other.String())
	if isFalse(r, one, other) {
		t.Errorf("of equal builds: %+v changed; their own clocks: %v, %v", r.Changed, one.clocks(), other.clocks())
	}
	require.Equal(t, len(r.Changed) > 0, code == 1)
}

// tryDiff: a function that is a fifth slower is the first that diff names, in five comparisons of five, and of equal
// builds none is named, in twenty of twenty.
func tryDiff(t *retry.T) {
	old, slower := build(t, "shop", 100), build(t, "shop.new", 120)
	recorded(t, old, diffRounds) // reads the program, the C library and ours from the disk
	recorded(t, slower, diffRounds)
	var base, after side
	for range 6 { // in turns, so that the machine's load affects both sides
		base = append(base, recorded(t, old, diffRounds))
		if len(after) < 4 {
			after = append(after, recorded(t, slower, diffRounds))
		}
	}
	sides := threeOf(base)
	for i, one := range sides {
		other := sides[len(sides)-1-i] // the three that one has not
		r, code := diff(t, "--per", "cpu", one.String(), other.String())
		if isFalse(r, one, other) {
			t.Errorf("of equal builds: %+v changed; their own clocks: %v, %v", r.Changed, one.clocks(), other.clocks())
		}
		require.Equal(t, len(r.Changed) > 0, code == 1)
	}
	for range 12 { // what ran while the machine was not as fast, by the program's own clock, runs again
		if !base.steady() {
			base[base.oddest()] = recorded(t, old, diffRounds)
		}
		if !after.steady() {
			after[after.oddest()] = recorded(t, slower, diffRounds)
		}
	}
	sides = threeOf(base)
	if !base.steady() || !after.steady() {
		t.Logf("the machine was not as fast all the time: %v, then %v", base.clocks(), after.clocks())
	}
	for i, one := range append(threeOf(after), after) {
		requirePrice(t, sides[i], one)
	}
}

// requirePrice demands that price is what diff names first, with the right bounds. These hold for all functions in 999
// of 1,000 comparisons; 1 % more on each side lets one of a million fail.
func requirePrice(t testing.TB, base, after side) {
	r, code := diff(t, "--per", "cpu", "--at-least", "0.02", base.String(), after.String())
	c := slices.Concat(r.Changed, r.Others)[0]
	was, _ := base.took("price")
	is, _ := after.took("price")
	t.Logf("%s %.3f, then %.3f: %.2f to %.2f times as much; runs differ by %.1f %%; their own clocks: %.3f, %.3f",
		c.Name, c.Base, c.New, c.Low, *c.High, 100**r.Spread, was, is)
	if len(r.Changed) == 0 {
		t.Errorf("nothing has changed; the runs' own clocks: %v, then %v", base.clocks(), after.clocks())
		return
	}
	if ratio := is / was; c.Name != "price" || code != 1 || c.Low > 1.01*ratio || *c.High < ratio/1.01 {
		t.Errorf("%+v has changed, exit code %d; want price, %.3f times as much", c, code, ratio)
	}
}

// threeOf returns all ways to take three of the runs; with six runs, the combination at the same index from the end has
// the remaining three.
func threeOf(runs side) (out []side) {
	for a := range runs {
		for b := a + 1; b < len(runs); b++ {
			for c := b + 1; c < len(runs); c++ {
				out = append(out, side{runs[a], runs[b], runs[c]})
			}
		}
	}
	return out
}
