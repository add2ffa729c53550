package endurance

import (
	"cmp"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/google/pprof/profile"

	"github.com/headwater/headwater/integration/testkit"
	"github.com/headwater/headwater/integration/testkit/need"
	"github.com/headwater/headwater/integration/testkit/rig"
)

// What the profiler may use on a host with hostile users.
const (
	hostileCPU    = 0.06             // of one CPU; an AMD EPYC of family 26 takes half of it
	otherCPU      = 0.04             // of the CPU use of programs outside this test, which it also profiles
	hostileStart  = 10 * time.Second // of CPU time, to examine all that exists once, ...
	startShare    = 0.15             // ... and of each later CPU second, for all else that starts on a busy host
	hostileRSS    = 200 << 10        // KiB
	hostileUnpack = 2 << 30          // bytes of files without name
	hostileLines  = 100              // of log

	hostileProfiles = 4 // at least
)

// TestHostileHost profiles a host where users do all they can against the profiler at once. A good program has its
// names and complete stacks in every profile, the profiler is healthy, and its resource use is bounded. make test ends
// after all hostile parts have been seen; make nightly continues for a while, and measures CPU time, which requires an
// otherwise idle host.
func TestHostileHost(t *testing.T) {
	need.Root(t)
	interval, length := 4*time.Second, 32*time.Second
	if !testkit.IsNightly() {
		t.Parallel()
		interval, length = 2*time.Second, 0
	}
	received := rig.StartReceiver(t)
	good := rig.ChainProgram(t, "hwgood")
	host := startHostile(t, rig.BuildID(t, good))
	living := rig.StartChain(t, good, 600)
	config := strings.Replace(rig.HostConfig(received.URL, "hostile", ""), `"2s"`, fmt.Sprintf("%q", interval), 1)
	h := rig.StartPrioritized(t, config)
	begun, missing, usedBefore := time.Now(), "", rig.CPUTime(t, fmt.Sprint(living.PID()))
	defer func() {
		if missing != "" {
			t.Logf("missing: %s", missing)
		}
	}()
	most := watch(t, h, "all that is hostile was met", hostileRSS, func() bool {
		host.checkParts(t)
		profiles := received.Profiles("hostile")
		missing = cmp.Or(limitNotHit(t, h), notMet(profiles))
		return missing == "" && len(profiles) >= hostileProfiles
	})
	atStart, took := rig.CPUTime(t, fmt.Sprint(h.PID())), time.Since(begun).Round(time.Millisecond)
	t.Logf("in the first %v: %v of CPU time, %v, %d profiles", took, atStart, most, len(received.Profiles("hostile")))
	if bound := hostileStart + time.Duration(startShare*float64(took)); atStart > bound {
		t.Errorf("the profiler has used %v of CPU time until all was met, more than %v", atStart, bound)
	}
	if length > 0 {
		measureHostile(t, h, received, interval, length)
	}

	if host.wasOpened() {
		t.Error("a FIFO or a device of a user was opened")
	}
	checkOverdue(t, h)
	used, m := rig.CPUTime(t, fmt.Sprint(living.PID()))-usedBefore, h.Metrics(t)
	lost := m.Sum(t, "pyroscope_ebpf_samples_lost_total") / m.Sum(t, "pyroscope_ebpf_samples_expected_total")
	stopping := time.Now()
	h.Signal(t, syscall.SIGINT)
	if code := h.Wait(t, time.Minute); code != 0 {
		t.Errorf("headwater ended with code %d after SIGINT", code)
	}
	t.Logf("stopped after %v, %d lines of log", time.Since(stopping).Round(time.Millisecond), len(h.Output.Lines()))
	if lines := h.Output.Lines(); len(lines) > hostileLines {
		t.Errorf("%d lines of log:\n%s", len(lines), strings.Join(lines, "\n"))
	}
	total := checkHostileProfiles(t, received.Profiles("hostile"), good)
	t.Logf("the good program has used %v, %v are in profiles; %.2f %% of the samples were lost", used, total, 100*lost)
	// It is half where rounds that were overdue have left gaps.
	if total < time.Duration(float64(used/2)*(1-lost)) {
		t.Errorf("profiles have %v of the good program's %v", total, used)
	}
}

// measureHostile watches headwater for some time, and demands that it uses little CPU time.
func measureHostile(t testing.TB, h *rig.Headwater, received *rig.Receiver, interval, length time.Duration) {
	t.Helper()
	cpu, rounds, from := rig.CPUTime(t, fmt.Sprint(h.PID())), len(received.Profiles("hostile")), time.Now()
	most := watch(t, h, "the time is over", hostileRSS, func() bool { return time.Since(from) >= length })
	cpu, rounds = rig.CPUTime(t, fmt.Sprint(h.PID()))-cpu, len(received.Profiles("hostile"))-rounds
	elapsed := time.Since(from)
	share := cpu.Seconds() / elapsed.Seconds()
	profiles := received.Profiles("hostile")
	others := timeOfOthers(profiles[len(profiles)-rounds:]).Seconds() / elapsed.Seconds()
	bound := hostileCPU + otherCPU*others
	t.Logf("%v of CPU time in %v (%.2f %%), %.2f CPUs used by others, %d profiles, %v",
		cpu, elapsed.Round(time.Millisecond), 100*share, others, rounds, most)
	if share > bound {
		t.Errorf("the profiler uses %.2f %% of a CPU, more than %.2f %%", 100*share, 100*bound)
	}
	if want := int(elapsed/interval) - 2; rounds < want {
		t.Errorf("%d profiles in %v, want %d", rounds, elapsed, want)
	}
}

// timeOfOthers returns the CPU time in profiles of processes that are neither ours nor the
// profiler.
func timeOfOthers(profiles []*profile.Profile) time.Duration {
	var sum int64
	for _, p := range profiles {
		for _, s := range rig.Stacks(p) {
			if name := s.Names()[0]; !strings.HasPrefix(name, "hw") && name != "headwater" {
				sum += s.Value
			}
		}
	}
	return time.Duration(sum)
}

// limitNotHit returns a limit that has not yet counted a refused input.
func limitNotHit(t testing.TB, h *rig.Headwater) string {
	t.Helper()
	m := h.Metrics(t)
	for _, reader := range []string{`reader="debug_link"`, `reader="decompressed"`} {
		if m.Sum(t, "pyroscope_ebpf_reader_limit_hits_total", reader) == 0 {
			return "a limit of " + reader
		}
	}
	for _, name := range []string{"pyroscope_ebpf_files_late", "pyroscope_ebpf_files_hanging"} {
		if m.Sum(t, name) == 0 {
			return name
		}
	}
	return ""
}

// hostileFrames are functions of hostile programs, by program.
var hostileFrames = map[string]string{"hwhonest": "honest_code", "hwtwin": "hwtwin", "hwbomb": "hwbomb"}

// notMet returns a hostile program that was not sampled so far, or a name that it has to have.
func notMet(profiles []*profile.Profile) string {
	var all []rig.Stack
	for _, p := range profiles {
		all = append(all, rig.Stacks(p)...)
	}
	for _, part := range hostileParts("") {
		of := rig.OfCommand(all, part.name)
		want := cmp.Or(hostileFrames[part.name], part.name)
		if !slices.ContainsFunc(of, func(s rig.Stack) bool { return s.Has(want) }) {
			return part.name + " with a frame " + want + ":\n" + rig.Show(of, 3)
		}
	}
	return ""
}

// checkHostileProfiles demands whole stacks of the good program in every profile of more than a
// second, once it was met: the last one may be short. Hostile programs have no names but their own. It returns the good
// program's CPU time in all profiles.
func checkHostileProfiles(t testing.TB, profiles []*profile.Profile, good string) (sum time.Duration) {
	t.Helper()
	var all []rig.Stack
	name, met := filepath.Base(good), false
	for i, p := range profiles {
		all = append(all, rig.Stacks(p)...)
		whole, total := wholeChains(t, p, name)
		sum += time.Duration(total)
		// If other processes use the CPUs, the first rounds may lack names and unwind tables, and a profile has few
		// samples.
		met = met || whole > 0 && whole == total
		slack := 3 * p.Period
		if met && p.DurationNanos > int64(time.Second) && whole+slack < total*9/10 {
			t.Errorf("profile %d of %d: %d of the good program's %d ms are in whole stacks:\n%s",
				i, len(profiles), whole/1e6, total/1e6, rig.Show(rig.OfCommand(rig.Stacks(p), name), 3))
		}
	}
	if !met {
		t.Error("no profile has only whole stacks of the good program")
	}
	for _, s := range all {
		if s.Has("escaped") {
			t.Errorf("names were read through /proc: %v", s)
			break
		}
	}
	for _, s := range rig.OfCommand(all, "hwtwin") {
		if slices.ContainsFunc(s.Names(), rig.InChain) {
			t.Errorf("a program with the good one's build ID has its names: %v", s)
		}
	}
	return sum
}

// usage is the largest amount that a process had of each resource.
type usage struct {
	rss     int   // KiB
	unnamed int64 // bytes of deleted files
}

func (u usage) String() string {
	return fmt.Sprintf("at most %d MiB of memory and %d MiB of files without name", u.rss>>10, u.unnamed>>20)
}

// watch requires that headwater is healthy and within its bounds until a condition holds. The bound of resident memory
// is in KiB.
func watch(t testing.TB, h *rig.Headwater, what string, mostRSS int, condition func() bool) (most usage) {
	t.Helper()
	testkit.Eventually(t, what, func() bool {
		if h.Ended() {
			t.Fatalf("headwater has ended: %v", h.Err)
		}
		most.rss, most.unnamed = max(most.rss, rss(t, h)), max(most.unnamed, unnamedFiles(t, h))
		c := h.Component(t, "pyroscope.ebpf.host")
		overdue := strings.HasPrefix(c.Message, "no profiles: a round of collecting has taken") // checkOverdue judges it
		if c.State != "healthy" && c.State != "unknown" && !overdue {
			t.Error(c)
		}
		time.Sleep(time.Second / 4) // to ask is work for headwater
		return condition()
	})
	if most.rss > mostRSS || most.unnamed > hostileUnpack {
		t.Errorf("headwater has %v", most)
	}
	return most
}

// checkOverdue demands that no round was overdue, but for one for each second that threads of headwater have waited
// for a CPU. A round that waits for a hostile file uses no CPU and waits for none.
func checkOverdue(t testing.TB, h *rig.Headwater) {
	t.Helper()
	files, err := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/schedstat", h.PID()))
	if err != nil {
		t.Fatal(err)
	}
	var waited time.Duration
	for _, file := range files {
		var ran, waits int64
		text, err := os.ReadFile(file)
		if err != nil {
			continue // the thread has ended
		}
		if _, err := fmt.Sscan(string(text), &ran, &waits); err != nil {
			t.Fatalf("%s: %v", file, err)
		}
		waited += time.Duration(waits)
	}
	n := h.Metric(t, "pyroscope_ebpf_overdue_rounds_total")
	t.Logf("%v rounds were overdue, threads have waited %v for a CPU", n, waited.Round(time.Millisecond))
	if n > waited.Seconds() {
		t.Errorf("%v rounds were overdue, and threads have waited no longer than %v for a CPU", n, waited)
	}
}

// rss returns the resident memory of headwater in KiB.
func rss(t testing.TB, h *rig.Headwater) (size int) {
	t.Helper()
	_, memory, _ := strings.Cut(rig.ReadFile(t, fmt.Sprintf("/proc/%d/status", h.PID())), "VmRSS:")
	if _, err := fmt.Sscanf(memory, "%d kB", &size); err != nil {
		t.Fatalf("VmRSS: %v", err)
	}
	return size
}

// unnamedFiles returns the size of the unnamed files that headwater has mapped.
func unnamedFiles(t testing.TB, h *rig.Headwater) (size int64) {
	t.Helper()
	for line := range strings.Lines(rig.ReadFile(t, fmt.Sprintf("/proc/%d/maps", h.PID()))) {
		if !strings.Contains(line, "headwater-section-") {
			continue
		}
		var from, to int64
		if _, err := fmt.Sscanf(line, "%x-%x", &from, &to); err != nil {
			t.Fatalf("%q: %v", line, err)
		}
		size += to - from
	}
	return size
}
