package tools

import (
	"fmt"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/pprof/profile"
	"github.com/stretchr/testify/require"

	"github.com/headwater/headwater/integration/testkit"
	"github.com/headwater/headwater/integration/testkit/retry"
)

// TestWaits: for a program whose threads wait in known ways, a recording of all time has each way for the duration that
// the program's own clock reports, with the right reason; the kernel's own count agrees on the time that threads were
// queued for a CPU; and no time of the threads is missing.
func TestWaits(t *testing.T) {
	t.Parallel()
	program := compiled(t, "hwwaits", "gcc", "-O1", "-g", "-pthread", "testdata/waits.c")
	dir, err := os.MkdirTemp("testdata", "disk") // folders for temporary files may be in memory
	require.NoError(t, err)
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	dir, err = filepath.Abs(dir)
	require.NoError(t, err)
	if testkit.IsNightly() {
		retry.Run(t, func(t *retry.T) { checkWaits(t, program, dir, allowance{missing: 0.1, ofWay: 0.25, moved: 0.4}) })
		return
	}
	checkWaits(t, program, dir, allowance{missing: 0.25, ofWay: 0.4, moved: 0.9})
}

// allowance is the acceptable part missing from a recording if other processes keep the CPUs busy: threads are sampled
// less often, and more time passes between a sample and the reading of a stack.
type allowance struct {
	missing float64 // of all time: before the first sample and after the last
	ofWay   float64 // of the time of a way
	moved   float64 // stacks of threads that ran before they were read, which the recording reports
}

func checkWaits(t testing.TB, program, dir string, may allowance) {
	folder, stdout, stderr, code := record(t, "-e", "wall", "--", program, dir, "5")
	require.Equal(t, 0, code, stderr)
	p := readProfile(t, folder, "headwater.pb.gz")
	require.Equal(t, []*profile.ValueType{{Type: "samples", Unit: "count"}, {Type: "wall", Unit: "nanoseconds"}},
		p.SampleType)
	printed := printedSeconds(t, stdout)
	whole := func(s *profile.Sample) bool {
		return hasFunction(s, "clone3") || hasFunction(s, "__libc_start_main_impl")
	}
	all := secondsOf(p, func(*profile.Sample) bool { return true })
	if t.Logf("all threads: %.2f s, want %.2f", all, printed["threads"]); all > 1.1*printed["threads"] ||
		all < (1-may.missing)*printed["threads"] {
		t.Errorf("all threads have %.2f s, want %.2f", all, printed["threads"])
	}
	// User frames are missing where a thread has run again before its stack was read, as after short waits.
	moved := secondsOf(p, func(s *profile.Sample) bool { return hasFunction(s, "[incomplete: moved]") })
	if t.Logf("moved: %.2f s", moved); moved > may.moved*all {
		t.Errorf("%.2f of %.2f s have no stack", moved, all)
	}
	near(t, "whole stacks, and moved", secondsOf(p, whole)+moved, all, 0.15)
	near(t, "queued", secondsOf(p, waitsFor("run_queue")), printed["queued"], max(0.3, may.missing))
	got, want := moved, 0.0
	for way, wait := range map[string]string{
		"way_sleep": "sleep", "way_epoll": "epoll", "way_lock": "lock", "way_disk": "disk",
	} {
		in := func(s *profile.Sample) bool { return hasFunction(s, way) }
		seen := secondsOf(p, in)
		t.Logf("%s: %.2f s, want %.2f", way, seen, printed[way])
		if seen > 1.25*printed[way] || seen+moved < (1-may.ofWay)*printed[way] {
			t.Errorf("%s has %.2f s, want %.2f", way, seen, printed[way])
		}
		got, want = got+seen, want+printed[way]
		blocked := func(s *profile.Sample) bool { return in(s) && is("sleeping", "uninterruptible")(s) }
		right := func(s *profile.Sample) bool { return in(s) && waitsFor(wait)(s) }
		if wait == "disk" { // few of its stacks say where, and no other way is uninterruptible
			blocked, right = is("uninterruptible"), waitsFor(wait)
		}
		of := secondsOf(p, blocked)
		near(t, way+" that is "+wait, secondsOf(p, right), of, 0.1)
		if of > 1.25*printed[way] {
			t.Errorf("%.2f s in %s, of %.2f s", of, way, printed[way])
		}
	}
	near(t, "all ways, and moved", got, want, may.ofWay)
}

// near fails unless a time, in seconds, is the one that is wanted to within a part of it.
func near(t testing.TB, of string, got, want, part float64) {
	t.Logf("%s: %.2f s, want %.2f", of, got, want)
	if want == 0 || math.Abs(got-want) > part*want {
		t.Errorf("%s has %.2f s, want %.2f", of, got, want)
	}
}

// printedSeconds reads lines of a name and seconds.
func printedSeconds(t testing.TB, text string) map[string]float64 {
	out := map[string]float64{}
	for line := range strings.Lines(text) {
		var name string
		var seconds float64
		if n, _ := fmt.Sscan(line, &name, &seconds); n == 2 {
			out[name] = seconds
		}
	}
	require.NotEmpty(t, out, "nothing printed: %s", text)
	return out
}

// secondsOf adds up the samples that are wanted.
func secondsOf(p *profile.Profile, wanted func(*profile.Sample) bool) (sum float64) {
	for _, s := range p.Sample {
		if wanted(s) {
			sum += float64(s.Value[len(s.Value)-1]) / 1e9
		}
	}
	return sum
}

// is returns whether a sample is of a thread in one of the states.
func is(states ...string) func(*profile.Sample) bool {
	return func(s *profile.Sample) bool { return slices.Contains(states, s.Label["state"][0]) }
}

// waitsFor returns whether a sample is of a thread that waits for something.
func waitsFor(what string) func(*profile.Sample) bool {
	return func(s *profile.Sample) bool { return len(s.Label["wait"]) > 0 && s.Label["wait"][0] == what }
}
