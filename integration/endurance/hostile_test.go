package endurance

import (
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/google/pprof/profile"

	"github.com/headwater/headwater/integration/lab"
	"github.com/headwater/headwater/integration/testkit/need"
)

// What the profiler may use on a host with hostile users.
const (
	hostileCPU    = 0.03      // of one CPU
	otherCPU      = 0.04      // of what programs use that are not of this test, for it profiles them, too
	hostileRSS    = 200 << 10 // KiB
	hostileUnpack = 2 << 30   // bytes of files without name
	hostileLines  = 100       // of log
	hostileEnd    = 15 * time.Second
)

// TestHostileHost profiles a host where users do all they can against the profiler at once.
// A good program has its names and whole stacks in every profile, the profiler is healthy,
// and what it uses is bounded.
func TestHostileHost(t *testing.T) {
	need.Root(t)
	const warm, length, interval = 20 * time.Second, 32 * time.Second, 4 * time.Second
	received := lab.StartReceiver(t)
	good := lab.ChainProgram(t, "hwgood")
	host := startHostile(t, lab.BuildID(t, good))
	lab.StartChain(t, good, 600)
	config := strings.Replace(lab.HostConfig(received.URL, "hostile", ""), `"2s"`, fmt.Sprintf("%q", interval), 1)
	h := lab.StartHeadwater(t, config)
	most := watch(t, h, warm, hostileRSS)
	t.Logf("to the end of the first %v: %v of CPU time, %v", warm, lab.CPUTime(t, fmt.Sprint(h.PID())), most)

	cpu, rounds, from := lab.CPUTime(t, fmt.Sprint(h.PID())), len(received.Profiles("hostile")), time.Now()
	most = watch(t, h, length, hostileRSS)
	cpu, rounds = lab.CPUTime(t, fmt.Sprint(h.PID()))-cpu, len(received.Profiles("hostile"))-rounds
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
	if host.wasOpened() {
		t.Error("a FIFO or a device of a user was opened")
	}
	checkLimits(t, h)
	stopping := time.Now()
	h.Signal(t, syscall.SIGINT)
	if code := h.Wait(t, hostileEnd); code != 0 {
		t.Errorf("headwater ended with code %d after SIGINT", code)
	}
	t.Logf("stopped after %v, %d lines of log", time.Since(stopping).Round(time.Millisecond), len(h.Output.Lines()))
	if lines := h.Output.Lines(); len(lines) > hostileLines {
		t.Errorf("%d lines of log:\n%s", len(lines), strings.Join(lines, "\n"))
	}
	checkHostileProfiles(t, received.Profiles("hostile"), good)
}

// timeOfOthers returns the CPU time in profiles of processes that are neither ours nor the
// profiler.
func timeOfOthers(profiles []*profile.Profile) time.Duration {
	var sum int64
	for _, p := range profiles {
		for _, s := range lab.Stacks(p) {
			if name := s.Names()[0]; !strings.HasPrefix(name, "hw") && name != "headwater" {
				sum += s.Value
			}
		}
	}
	return time.Duration(sum)
}

// checkLimits demands that what was refused is counted, and no round was late.
func checkLimits(t testing.TB, h *lab.Headwater) {
	t.Helper()
	const hits = "pyroscope_ebpf_reader_limit_hits_total"
	for _, reader := range []string{"debug_link", "decompressed"} {
		if h.Metric(t, hits, `reader="`+reader+`"`) == 0 {
			t.Errorf("no limit of reader %s was hit", reader)
		}
	}
	for _, name := range []string{"pyroscope_ebpf_files_late", "pyroscope_ebpf_files_hanging"} {
		if h.Metric(t, name) == 0 {
			t.Errorf("%s is 0", name)
		}
	}
	if n := h.Metric(t, "pyroscope_ebpf_overdue_rounds_total"); n > 0 {
		t.Errorf("%v rounds were overdue", n)
	}
}

// checkHostileProfiles demands whole stacks of the good program in every profile of more than a
// second: the last one may be short. Hostile programs are sampled, and have no names but their own.
func checkHostileProfiles(t testing.TB, profiles []*profile.Profile, good string) {
	t.Helper()
	var all []lab.Stack
	for i, p := range profiles {
		found := lab.Stacks(p)
		all = append(all, found...)
		whole := int64(0)
		ofGood := lab.OfCommand(found, filepath.Base(good))
		for _, s := range ofGood {
			last, err := lab.ChainDepth(s)
			if err != nil {
				t.Errorf("profile %d: %v in %v", i, err, s)
			}
			if last == 59 {
				whole += s.Value
			}
		}
		if p.DurationNanos > int64(time.Second) && (whole == 0 || whole < lab.Total(ofGood)*9/10) {
			t.Errorf("profile %d of %d: %d of the good program's %d ms are in whole stacks:\n%s",
				i, len(profiles), whole/1e6, lab.Total(ofGood)/1e6, lab.Show(ofGood, 3))
		}
	}
	for name, want := range map[string]string{"hwhonest": "honest_code", "hwtwin": "hwtwin", "hwbomb": "hwbomb"} {
		if !slices.ContainsFunc(lab.OfCommand(all, name), func(s lab.Stack) bool { return s.Has(want) }) {
			t.Errorf("%s has no frame %s:\n%s", name, want, lab.Show(lab.OfCommand(all, name), 3))
		}
	}
	for _, part := range hostileParts("") {
		if len(lab.OfCommand(all, part.name)) == 0 {
			t.Errorf("%s was not sampled", part.name)
		}
	}
	for _, s := range all {
		if s.Has("escaped") {
			t.Errorf("names were read through /proc: %v", s)
			break
		}
	}
	for _, s := range lab.OfCommand(all, "hwtwin") {
		if slices.ContainsFunc(s.Names(), lab.InChain) {
			t.Errorf("a program with the good one's build ID has its names: %v", s)
		}
	}
}

// usage is the largest amount that a process had of each resource.
type usage struct {
	rss     int   // KiB
	unnamed int64 // bytes of files that have no name any more
}

func (u usage) String() string {
	return fmt.Sprintf("at most %d MiB of memory and %d MiB of files without name", u.rss>>10, u.unnamed>>20)
}

// watch demands for some time that headwater is healthy and within its bounds, that of resident memory in KiB.
func watch(t testing.TB, h *lab.Headwater, length time.Duration, mostRSS int) (most usage) {
	t.Helper()
	for end := time.Now().Add(length); time.Now().Before(end); time.Sleep(time.Second) {
		if h.Ended() {
			t.Fatalf("headwater has ended: %v", h.Err)
		}
		most.rss, most.unnamed = max(most.rss, rss(t, h)), max(most.unnamed, unnamedFiles(t, h))
		if c := h.Component(t, "pyroscope.ebpf.host"); c.State != "healthy" && c.State != "unknown" {
			t.Error(c)
		}
	}
	if most.rss > mostRSS || most.unnamed > hostileUnpack {
		t.Errorf("headwater has %v", most)
	}
	return most
}

// rss returns the resident memory of headwater in KiB.
func rss(t testing.TB, h *lab.Headwater) (size int) {
	t.Helper()
	_, memory, _ := strings.Cut(lab.ReadFile(t, fmt.Sprintf("/proc/%d/status", h.PID())), "VmRSS:")
	if _, err := fmt.Sscanf(memory, "%d kB", &size); err != nil {
		t.Fatalf("VmRSS: %v", err)
	}
	return size
}

// unnamedFiles returns the size of the unnamed files that headwater has mapped.
func unnamedFiles(t testing.TB, h *lab.Headwater) (size int64) {
	t.Helper()
	for line := range strings.Lines(lab.ReadFile(t, fmt.Sprintf("/proc/%d/maps", h.PID()))) {
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
